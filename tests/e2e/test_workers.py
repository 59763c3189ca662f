"""Many workers on Kafka: they come, go, are killed and frozen, and every payment is paid once."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.e2e.faust_worker import Payments
from tests.e2e.fleet import (
    Fleet,
    assert_all_paid_once,
    campaign,
    freeze,
    provider_process,
    thaw,
    write_files,
)

pytestmark = pytest.mark.broker

SESSION_S = TRANSACTION_S = 10.0
"""The defaults of kafka.session-timeout and kafka.transaction-timeout."""


@pytest.fixture
def fleet(tmp_path, bootstrap_servers) -> Iterator[Fleet]:
    found = Fleet(Payments(tmp_path / "project"), bootstrap_servers)
    yield found
    found.close()


@pytest.mark.timeout(420)
async def test_forty_files_while_workers_come_and_go(fleet, tmp_path, bootstrap_servers):
    sources = write_files(tmp_path, 40, 250)
    with provider_process(fleet.payments, bootstrap_servers, "--delay-ms", "5", "--duplicates", "0.02"):
        campaign(fleet, sources, kills=4)
        await assert_all_paid_once(fleet, sources, 250)
    assert len(fleet.workers) == 1


@pytest.mark.timeout(300)
async def test_a_provider_that_answers_requests_of_failed_transactions(fleet, tmp_path, bootstrap_servers):
    """Such an answer names an interaction that nobody has recorded, or will once more: nothing lost, nothing stuck."""
    sources = write_files(tmp_path, 8, 250)
    words = ("--read-uncommitted", "--duplicates", "0.02", "--key", "none")
    with provider_process(fleet.payments, bootstrap_servers, *words):
        campaign(fleet, sources, kills=3, pause_s=(1.0, 3.0))
        await assert_all_paid_once(fleet, sources, 250)


@pytest.mark.timeout(300)
async def test_a_frozen_worker_is_fenced_and_becomes_a_good_member_again(fleet, tmp_path, bootstrap_servers):
    sources = write_files(tmp_path, 12, 250)
    frozen = fleet.add()
    frozen.until_ready()
    with provider_process(fleet.payments, bootstrap_servers, "--delay-ms", "20"):
        for path in sources[:8]:
            path.rename(fleet.payments.inputs / path.name)
        fleet.until(lambda: frozen.get("/payments/")["waiting"] > 0, 30)
        freeze(frozen)
        fleet.workers.clear()
        began_s = time.monotonic()
        successor = fleet.add()
        fleet.until(lambda: len(list(fleet.payments.outputs.glob("*.out"))) == 8, 90)
        time.sleep(max(0.0, SESSION_S + TRANSACTION_S + 2 - (time.monotonic() - began_s)))
        thaw(frozen)
        fleet.workers[-1] = frozen
        successor.stop()
        fleet.workers = {-1: frozen}
        for path in sources[8:]:
            path.rename(fleet.payments.inputs / path.name)
        fleet.until(lambda: len(list(fleet.payments.outputs.glob("*.out"))) == 12, 90)
        handed = [fleet.payments.inputs / path.name for path in sources]
        await assert_all_paid_once(fleet, handed, 250)

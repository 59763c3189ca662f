"""Many workers on Kafka: they come, go, are killed and frozen, and every payment is paid once."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.e2e.faust_worker import Payments, committed
from tests.e2e.fleet import (
    Fleet,
    assert_all_paid_once,
    campaign,
    freeze,
    provider_process,
    thaw,
    write_files,
)
from tests.e2e.program import DATA, assert_same_payments

pytestmark = pytest.mark.broker

SESSION_S = TRANSACTION_S = 10.0
"""The defaults of kafka.session-timeout and kafka.transaction-timeout."""
TIMEOUT_S = 20
"""Of the await step in the outage: longer than 200 dispatches take on a busy machine."""


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


@pytest.mark.parametrize(("rows", "approved"), [(1_000, 907), (10_000, 9_170)])
@pytest.mark.timeout(300)
async def test_payments_come_out_exactly(fleet, rows, approved, bootstrap_servers):
    """By a worker and a provider as two processes: in the topic and in the file."""
    source = DATA / f"payments_{rows // 1000}k.csv"
    shutil.copy(source, fleet.payments.inputs)
    worker = fleet.add()
    worker.until_ready()
    with provider_process(fleet.payments, bootstrap_servers, "--reject", "0.08", "--duplicates", "0.02"):
        records = await committed(bootstrap_servers, f"{fleet.payments.name}-outputs", rows, 180)
    arms = Counter(record["arm"] for record in records)
    assert arms == {"approved": approved, "unapproved": rows - approved}
    assert len({record["itemIndex"] for record in records}) == len(records) == rows
    output = fleet.payments.outputs / f"{source.name}.out"
    fleet.until(output.exists, 30)
    assert_same_payments(source, output)
    assert worker.stop() < 10


@pytest.mark.timeout(180)
async def test_answers_that_came_in_time_are_admitted_after_an_outage(fleet, tmp_path, bootstrap_servers):
    """The worker is down past every deadline, and the provider has answered before: none is late."""
    payments = fleet.payments
    pipeline = payments.inputs.parent / "pipeline.yaml"
    pipeline.write_text(pipeline.read_text().replace("PT5M", f"PT{TIMEOUT_S}S"))
    (source,) = write_files(tmp_path, 1, 200)
    source.rename(payments.inputs / source.name)
    worker = fleet.add()
    worker.until_ready()
    worker.until(lambda: worker.get("/payments/")["waiting"] == 200)
    down_s = time.monotonic()
    worker.process.kill()
    worker.process.wait()
    fleet.workers.clear()
    with provider_process(payments, bootstrap_servers):
        assert len(await committed(bootstrap_servers, payments.topics[1], 200)) == 200
    time.sleep(max(0.0, TIMEOUT_S + 1 - (time.monotonic() - down_s)))
    successor = fleet.add()
    successor.until_ready()
    records = await committed(bootstrap_servers, f"{payments.name}-outputs", 200)
    assert Counter(record["type"] for record in records) == {"PaymentOutput": 200}
    assert_same_payments(payments.inputs / source.name, payments.outputs / f"{source.name}.out")

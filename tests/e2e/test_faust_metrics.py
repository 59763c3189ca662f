"""Scrapes of workers on Kafka beside what topics tell: exact where nobody is killed, and never more than is true."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable

import pytest

from tests.e2e.faust_worker import FaustWorker, Payments, provider
from tests.e2e.program import ROWS_1K
from tests.integration.applications import records_of
from tests.topology.scrapes import Scrape
from topologies.csv_payments.provider import answer
from tpf_streams.engine.lifecycle import decode_lifecycle, lifecycle_topic

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

TOLD_AS = {
    "execution.submitted.total": ("start",),
    "interaction.dispatched.total": ("await_interaction_dispatched",),
    "completion.admitted.total": ("await_completion_admitted",),
    "completion.duplicate.total": ("await_completion_duplicate",),
    "item.completed.total": ("await_unit_item_completed",),
    "unit.terminal.total": ("await_unit_terminal",),
    "output.emitted.total": ("emit",),
    "execution.terminal.total": ("success", "error", "cancelled"),
}
"""Counters, and the lifecycle events of the same facts."""


async def told(payments: Payments, broker: str) -> Counter[str]:
    """Facts by the name of their counter, as the lifecycle topic has them."""
    names: Counter[str] = Counter()
    for record in await records_of(broker, lifecycle_topic(payments.name)):
        names.update(event.name for event in decode_lifecycle(record.value or b"", "here"))
    return Counter({counter: sum(names[name] for name in events) for counter, events in TOLD_AS.items()})


async def in_the_end_equal(scraped: Callable[[], Counter[str]], payments: Payments, broker: str) -> Counter[str]:
    """What both say when the last repeats of the provider have come."""
    found, facts = scraped(), await told(payments, broker)
    for _ in range(20):
        if found == facts:
            return found
        await asyncio.sleep(0.5)
        found, facts = scraped(), await told(payments, broker)
    raise AssertionError(f"scraped and not told {found - facts}, told and not scraped {facts - found}")


def counted(found: Scrape) -> Counter[str]:
    return Counter({counter: int(found.total(counter)) for counter in TOLD_AS})


async def test_a_thousand_payments_and_then_a_kill(tmp_path, bootstrap_servers):
    payments = Payments(tmp_path / "project")

    def worker(number: int) -> FaustWorker:
        return FaustWorker("topologies.csv_payments", bootstrap_servers, tmp_path / f"{number}", payments.folder)

    def scraped(running: FaustWorker) -> Counter[str]:
        return counted(Scrape(running.text("/metrics")))

    with provider(bootstrap_servers, payments.topics, answer, reject=0.08, duplicates=0.1, permits_per_second=300):
        with worker(1) as first:
            first.until_ready()
            shutil.copy(ROWS_1K, payments.inputs)
            first.until((payments.outputs / f"{ROWS_1K.name}.out").exists, 90)
            first.until(lambda: scraped(first)["execution.terminal.total"] == 1)
            exact = await in_the_end_equal(lambda: scraped(first), payments, bootstrap_servers)
            assert exact["interaction.dispatched.total"] == exact["completion.admitted.total"] == 1_000
            assert exact["item.completed.total"] == exact["output.emitted.total"] == 1_000
            assert exact["completion.duplicate.total"] > 0

            rows = ROWS_1K.read_text().replace(",AUD", ",NZD")
            (payments.inputs / "another.csv").write_text(rows)
            first.until(lambda: scraped(first)["output.emitted.total"] >= 1_300, 60)
            before = scraped(first)
            first.process.kill()
        with worker(2) as second:
            second.until((payments.outputs / "another.csv.out").exists, 120)
            second.until(lambda: scraped(second)["execution.terminal.total"] == 1)
            both = before + scraped(second)
            facts = await told(payments, bootstrap_servers)
            second.stop()
    assert facts["interaction.dispatched.total"] == facts["output.emitted.total"] == 2_000
    assert {name: (both[name], facts[name]) for name in TOLD_AS if both[name] > facts[name]} == {}
    assert 1_300 < both["completion.admitted.total"] <= 2_000

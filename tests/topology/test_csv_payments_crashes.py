"""csv-payments on a machine that loses what it has not synced, again and again, while commits fail as well."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.lifecycle import agree
from tests.topology.payments import AWAIT, DATA, REQUESTS, RESPONSES, open_payments, read_rows, simulate, written
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.testing import ManualClock, TopologyTestDriver
from tpf_streams.testing.faults import FaultPlan

ROWS = 80
CRASHES = 10


def lossy_log(clock: ManualClock, plan: FaultPlan) -> MemoryLog:
    """What a crash takes: everything of the last 100 ms."""
    topics = {RESPONSES: 3, REQUESTS: 2}
    return MemoryLog(
        application_id="csv-payments", partitions=3, topics=topics, clock=clock, sync="interval", faults=plan
    )


def crash_often(driver: TopologyTestDriver, random: Random, ids: list[str]) -> None:
    for _ in range(CRASHES):
        driver.advance(random.randrange(1, 400))
        if random.random() < 0.2:
            driver.cancel_session(random.choice(ids))
        driver.stop()
        driver.advance(random.randrange(1, 1_000))
        driver.start()


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_doubled_or_stuck(tmp_path, seed):
    """Unsynced turns are lost with their requests and outputs, so nothing that was seen is taken back (I10)."""
    random, clock = Random(seed), ManualClock()
    plan = FaultPlan(seed, not_held=0.05, held=0.05)
    log = lossy_log(clock, plan)
    behaviour: dict[str, Any] = {
        "delay_ms": random.choice((0, 20, 200)),
        "permits_per_second": random.choice((50, 200)),
        "key": random.choice(("none", "constant", "correlation")),
    }
    lines = (DATA / "payments_1k.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "in.csv").write_text("".join(lines[: ROWS + 1]), encoding="utf-8")
    with open_payments(tmp_path, concurrency=random.choice((1, 5, 20)), log=log, clock=clock) as driver:
        simulate(driver, reject=0.08, duplicates=0.3, seed=seed, **behaviour)
        ids = driver.submit_files(tmp_path / "in.csv", DATA / "payments_12.csv")
        log.sync()
        crash_often(driver, random, ids)
        plan.stop()
        driver.advance(60_000)
        assert [driver.execution(it).status for it in ids] == ["SUCCEEDED"] * 2
        outputs = Counter((it["executionId"], it["itemIndex"]) for it in driver.outputs())
        assert (len(outputs), outputs.total(), len(driver.requests())) == (ROWS + 12, ROWS + 12, ROWS + 12)
        assert driver.pending() == []
        assert driver.application.environment.budgets.held(AWAIT) == 0
        assert driver.tally.dropped == {}
        verdict = agree(driver.read_topic("csv-payments-lifecycle"), driver.read_topic("csv-payments-outputs"))
        assert (set(verdict.stories), verdict.outputs) == (set(ids), ROWS + 12)
    assert_files(tmp_path)


def assert_files(folder: Path) -> None:
    """One file for each input, each row as it went in, in item order."""
    assert sorted(it.name for it in (folder / "out").iterdir() if it.is_file()) == ["in.csv.out", "payments_12.csv.out"]
    for file in (folder / "in.csv", DATA / "payments_12.csv"):
        given = [(row["ID"], row["Recipient"], row["Amount"], row["Currency"]) for row in read_rows(file)]
        lines = written(folder, file.name)
        assert [(it["CSV Id"], it["Recipient"], it["Amount"], it["Currency"]) for it in lines] == given

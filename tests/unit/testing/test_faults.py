"""Faults on purpose come where and when they were asked for, and the same ones each time."""

from __future__ import annotations

import pytest

from tpf_streams.errors import RetryableError
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.ports import Turn
from tpf_streams.testing.clock import ManualClock
from tpf_streams.testing.faults import CommitFault, CommitUnknownError, FaultPlan, raising

ROW = b"\0\0krow"


async def commits(plan: FaultPlan, count: int) -> list[str]:
    """What becomes of `count` turns of one partition, each on a task opened anew after a failure."""
    log = MemoryLog(partitions=1, clock=ManualClock(), faults=plan)
    task = await log.open_task(0)
    found = []
    for number in range(count):
        value = b"%d" % number
        try:
            await task.commit(Turn(rows={ROW: value}))
            found.append("ok")
        except CommitUnknownError:
            found.append("held" if log.store(0).get(ROW) == value else "not held")
            task = await log.open_task(0)
    return found


async def test_a_fault_at_a_number_strikes_once():
    plan = FaultPlan(at={2: CommitFault.NOT_HELD, 3: CommitFault.HELD})
    assert await commits(plan, 5) == ["ok", "not held", "held", "ok", "ok"]
    assert plan.counts == {CommitFault.NOT_HELD: 1, CommitFault.HELD: 1}


async def test_an_armed_fault_strikes_the_next_commit_of_its_partition():
    plan = FaultPlan()
    plan.arm(CommitFault.HELD, 0)
    plan.arm(CommitFault.HELD, 1)
    assert plan.armed(0) is CommitFault.HELD
    assert await commits(plan, 2) == ["held", "ok"]
    assert plan.armed(1) is CommitFault.HELD


async def test_the_same_seed_gives_the_same_faults():
    first = await commits(FaultPlan(7, not_held=0.3, held=0.3), 40)
    assert first == await commits(FaultPlan(7, not_held=0.3, held=0.3), 40)
    assert first != await commits(FaultPlan(8, not_held=0.3, held=0.3), 40)
    assert set(first) == {"ok", "held", "not held"}


async def test_faults_by_chance_can_be_limited_and_stopped():
    assert (await commits(FaultPlan(1, held=1.0, most=2), 4)) == ["held", "held", "ok", "ok"]
    plan = FaultPlan(1, held=1.0, at={1: CommitFault.HELD})
    plan.stop()
    assert await commits(plan, 2) == ["ok", "ok"]


def test_a_step_raises_so_often_and_then_works():
    step = raising(lambda value: value + 1, 2)
    for _ in range(2):
        with pytest.raises(RetryableError):
            step(1)
    assert step(1) == 2
    with pytest.raises(KeyError):
        raising(str, 1, KeyError("mine"))(3)

"""The tasks of one process: opened anew when a turn fails, stopped when the log cannot be used any more."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.core.machine import TIMEOUT_MS
from tests.unit.engine.shell import Shell
from tpf_streams.core.events import ExecutionSubmitted
from tpf_streams.core.execution import ExecutionStatus
from tpf_streams.core.state import State
from tpf_streams.engine import worker
from tpf_streams.engine.wire import encode_submission
from tpf_streams.engine.worker import Worker, backoff_s
from tpf_streams.errors import LogCorruptError, LogError, TaskLostError
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.testing.clock import ManualClock
from tpf_streams.testing.faults import CommitFault, CommitUnknownError, FaultPlan


def shell_of(shape: str = "k", plan: FaultPlan | None = None, **options) -> Shell:
    log = MemoryLog(application_id="pay", partitions=1, clock=ManualClock(), faults=plan)
    return Shell(shape, log=log, **options)


def submission(key: str):
    return encode_submission(ExecutionSubmitted("tenant-1", key, {"n": 1}))


async def submitted(shell: Shell, found: Worker, key: str = "key-1") -> str:
    shell.task = found.tasks[0]
    return await shell.submit({"n": 1}, key)


@pytest.mark.parametrize("fault", list(CommitFault))
async def test_a_lost_commit_closes_the_task_and_the_next_incarnation_goes_on(fault):
    plan = FaultPlan()
    shell = shell_of(plan=plan)
    found = Worker(shell.env)
    await found.open()
    plan.arm(fault, 0)
    await shell.append(submission("1"))
    with pytest.raises(CommitUnknownError):
        await found.advance(0)
    assert found.tasks == {}
    for _ in range(9):
        await found.advance(0)
    shell.task = found.tasks[0]
    (row,) = shell.open_interactions()
    assert shell.env.budgets.held(0) == 1
    await shell.answer(row)
    await shell.settle()
    assert shell.execution(row.execution_id).status is ExecutionStatus.SUCCEEDED
    await found.close()


async def test_no_slot_is_granted_while_a_lost_task_is_not_open_again():
    shell = shell_of(max_concurrency=1)
    found = Worker(shell.env)
    await found.open()
    await submitted(shell, found)
    assert shell.env.budgets.held(0) == 1
    await found._drop(0)
    told: list[int] = []
    shell.env.budgets.request(0, "another", lambda: told.append(1))
    assert told == [], "what the lost task has open is out there still"
    await found.advance(0)
    assert (told, shell.env.budgets.held(0)) == ([], 1)
    await found.close()


async def test_an_opening_that_fails_keeps_the_slots_back_too():
    shell = shell_of()
    found = Worker(shell.env)
    await found.open()
    await found._drop(0)
    opening = shell.log.open_task

    async def fails(partition):
        raise TaskLostError("not now")

    shell.log.open_task = fails  # type: ignore[method-assign]
    with pytest.raises(TaskLostError):
        await found.advance(0)
    told: list[int] = []
    shell.env.budgets.request(0, "another", lambda: told.append(1))
    assert told == []
    shell.log.open_task = opening  # type: ignore[method-assign]
    await found.advance(0)
    assert told == [1]
    await found.close()


async def test_a_partition_that_is_revoked_while_it_is_opened_holds_no_slot_back():
    """A worker that was joined by another while it opened its tasks granted nothing any more (seen)."""
    shell = shell_of()
    found = Worker(shell.env)
    await found.open()
    await found._drop(0)

    async def revoked(partition):
        await found.revoked([partition])
        raise TaskLostError("revoked while it was opened")

    shell.log.open_task = revoked  # type: ignore[method-assign]
    with pytest.raises(TaskLostError):
        await found.open_task(0)
    told: list[int] = []
    shell.env.budgets.request(0, "another", lambda: told.append(1))
    assert told == [1]


async def test_a_task_that_was_opened_when_its_partition_was_gone_is_closed_again():
    shell = shell_of()
    found = Worker(shell.env)
    await found.open()
    await found._drop(0)
    opening = shell.log.open_task

    async def revoked(partition):
        await found.revoked([partition])
        return await opening(partition)

    shell.log.open_task = revoked  # type: ignore[method-assign]
    with pytest.raises(TaskLostError):
        await found.open_task(0)
    assert found.tasks == {}


async def test_an_opening_that_fails_half_way_counts_no_slot_twice(monkeypatch):
    """What was brought in before the failure is given up with the task, or each try would take slots for ever."""
    shell = shell_of(max_concurrency=4)
    found = Worker(shell.env)
    await found.open()
    for key in ("1", "2"):
        await submitted(shell, found, key)
    assert shell.env.budgets.held(0) == 2
    await found._drop(0)

    def fails(*args):
        raise LogError("the disk is slow today")

    with monkeypatch.context() as patch:
        patch.setattr(State, "scan", fails)
        with pytest.raises(LogError):
            await found.advance(0)
    await found.advance(0)
    assert shell.env.budgets.held(0) == 2
    await found.close()
    assert shell.env.budgets.held(0) == 0


async def test_a_turn_that_fails_three_times_is_tried_event_by_event_and_comes_back_to_batches():
    shell = shell_of()
    shell.env.batch_max = 8
    found = Worker(shell.env)
    found.take(0)
    for _ in range(worker.FAILURES_ALONE):
        found._failures[0] += 1
    for number in range(20):
        await shell.append(submission(str(number)))
    taken = []
    for _ in range(6):
        await found.advance(0)
        taken.append(next(iter(shell.log._state.positions[0].values())))
    assert taken == [1, 3, 7, 15, 20, 20]
    await found.close()


async def test_a_corrupt_log_stops_the_worker():
    shell = shell_of()
    found = Worker(shell.env)
    await found.open()

    async def broken(max_records):
        raise LogCorruptError("a torn page")

    found.tasks[0].log.poll = broken  # type: ignore[method-assign]
    stop = asyncio.Event()
    with pytest.raises(LogCorruptError):
        await found.run(stop)
    assert stop.is_set()
    assert isinstance(found.fatal, LogCorruptError)
    assert found.tasks == {}


async def test_it_runs_until_it_is_stopped_and_wakes_for_input_and_deadlines():
    shell = shell_of()
    found = Worker(shell.env)
    await found.open()
    shell.task = found.tasks[0]
    stop = asyncio.Event()
    running = asyncio.ensure_future(found.run(stop))
    await shell.append(submission("1"))
    for _ in range(30):
        await asyncio.sleep(0)
    (row,) = shell.open_interactions()
    shell.clock.advance(TIMEOUT_MS + 1)
    for _ in range(30):
        await asyncio.sleep(0.001)
    assert shell.execution(row.execution_id).error_code == "AWAIT_TIMEOUT"
    stop.set()
    await asyncio.wait_for(running, 5)
    assert (found.tasks, found.reopened) == ({}, 0)


async def test_a_failing_partition_is_opened_anew_after_a_pause(monkeypatch):
    monkeypatch.setattr(worker, "BACKOFF_FIRST_S", 0.0)
    plan = FaultPlan(at={1: CommitFault.NOT_HELD, 2: CommitFault.HELD})
    shell = shell_of(plan=plan)
    found = Worker(shell.env)
    await found.open()
    stop = asyncio.Event()
    running = asyncio.ensure_future(found.run(stop))
    await shell.append(submission("1"))
    for _ in range(200):
        await asyncio.sleep(0.001)
        if found.reopened >= 2:
            break
    stop.set()
    await asyncio.wait_for(running, 5)
    assert len(plan.struck) == 2


def test_the_pause_is_bounded_however_long_a_partition_fails():
    assert [backoff_s(failures) for failures in (0, 1, 2, 10, 5_000)] == [0.05, 0.1, 0.2, 5.0, 5.0]

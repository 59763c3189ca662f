"""Over a distant log the next turn is decided while a commit is under way: what may be seen of it, and what not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.engine.shell import Shell
from tests.unit.engine.test_task import finish, source
from tpf_streams.core.execution import ExecutionStatus
from tpf_streams.errors import TaskLostError
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.ports import Turn
from tpf_streams.testing.clock import ManualClock


class FarLog(MemoryLog):
    """A commit gets there when `gate` is open; the next one raises `broken`, if it is set."""

    def __init__(self) -> None:
        super().__init__(application_id="pay", partitions=1, clock=ManualClock(), distant=True)
        self.gate = asyncio.Event()
        self.gate.set()
        self.broken: Exception | None = None
        self.positions: list[int] = []

    async def travel(self) -> None:
        await self.gate.wait()

    def commit_turn(self, task: Any, turn: Turn) -> None:
        if self.broken is not None:
            raise self.broken
        self.positions += turn.positions.values()
        super().commit_turn(task, turn)


async def far_shell(items: int) -> tuple[Shell, FarLog]:
    log = FarLog()
    shell = await Shell("Sks", lambda _: source(items), finish, log=log, max_concurrency=4).open()
    await shell.submit()
    return shell, log


async def turns(shell: Shell, count: int = 20) -> None:
    for _ in range(count):
        await shell.task.turn()
        await asyncio.sleep(0)


async def test_a_stream_comes_to_its_outputs_over_a_distant_log():
    shell, _ = await far_shell(6)
    while rows := shell.open_interactions():
        for row in reversed(rows):
            await shell.answer(row, {"n": row.item_index})
        await shell.settle()
    assert sorted(it["done"]["n"] for it in shell.outputs()) == list(range(6))
    assert (shell.env.budgets.held(1), shell.owed(), shell.task.performer.owners) == (0, [], set())
    await shell.task.close()


async def test_what_is_decided_meanwhile_is_seen_by_decisions_and_by_nobody_else():
    shell, log = await far_shell(6)
    first, second = shell.open_interactions()[:2]
    log.gate.clear()
    await shell.answer(first, {"n": 0})
    await turns(shell)
    positions, told = list(log.positions), shell.observer.count("completion.admitted.total")

    await shell.answer(second, {"n": 1})
    await shell.answer(first, {"n": 0})  # a repeat of what is only decided so far
    await turns(shell)
    assert (log.positions, shell.outputs()) == (positions, [])
    assert shell.observer.count("completion.admitted.total") == told
    execution = shell.execution(first.execution_id)
    assert execution.status is ExecutionStatus.RUNNING

    log.gate.set()
    await shell.settle()
    assert [it["done"]["n"] for it in shell.outputs()] == [0, 1]
    assert shell.observer.count("completion.admitted.total") == told + 2
    assert shell.observer.count("completion.duplicate.total") == 1
    await shell.task.close()


async def test_all_that_comes_while_a_commit_is_under_way_becomes_one_turn():
    shell, log = await far_shell(4)
    rows = shell.open_interactions()
    log.gate.clear()
    for row in rows:
        await shell.answer(row, {"n": row.item_index})
        await turns(shell, 3)
    read = log.positions[-1]
    log.gate.set()
    await shell.settle()
    assert log.positions[-2:] == [read + 1, read + 4], "the one that was under way, and one for the three others"
    await shell.task.close()


async def test_the_source_is_not_read_for_room_that_is_not_committed():
    read: list[int] = []

    def counting(_: object):
        for number in range(20):
            read.append(number)
            yield {"n": number}

    log = FarLog()
    shell = await Shell("Sks", counting, finish, log=log, max_concurrency=4).open()
    await shell.submit()
    log.gate.clear()
    for row in shell.open_interactions():
        await shell.answer(row, {"n": row.item_index})
        await turns(shell, 3)
    assert len(read) <= 5, "window + 1"
    log.gate.set()
    await shell.settle()
    assert len(read) > 5
    await shell.task.close()


async def test_a_commit_that_fails_takes_what_was_decided_on_it_with_it():
    shell, log = await far_shell(4)
    rows = shell.open_interactions()
    log.gate.clear()
    await shell.answer(rows[0], {"n": 0})
    await turns(shell, 3)
    await shell.answer(rows[1], {"n": 1})
    await turns(shell, 3)
    log.broken = TaskLostError("gone")
    log.gate.set()
    with pytest.raises(TaskLostError, match="gone"):
        await turns(shell)
    log.broken = None
    assert shell.outputs() == []

    await shell.reopen()
    await shell.settle()
    assert [it["done"]["n"] for it in shell.outputs()] == [0, 1], "both answers were read again"
    await shell.task.close()


async def test_whoever_closes_waits_for_the_commit_and_its_effects():
    shell, log = await far_shell(4)
    row = shell.open_interactions()[0]
    log.gate.clear()
    await shell.answer(row, {"n": 0})
    await turns(shell, 3)
    assert not shell.task.idle
    closing = asyncio.ensure_future(shell.task.close())
    await asyncio.sleep(0)
    assert not closing.done()
    log.gate.set()
    await closing
    assert shell.observer.count("completion.admitted.total") == 1


async def test_a_failed_commit_wakes_who_waits_for_input():
    shell, log = await far_shell(4)
    log.gate.clear()
    await shell.answer(shell.open_interactions()[0], {"n": 0})
    await turns(shell, 3)
    log.broken = TaskLostError("gone")
    waiting = asyncio.ensure_future(shell.task.wake.wait())
    await asyncio.sleep(0)
    log.gate.set()
    await asyncio.wait_for(waiting, 5)
    with pytest.raises(TaskLostError, match="gone"):
        await shell.task.turn()
    await shell.task.close()

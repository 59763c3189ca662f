"""The memory log's own: crashes, faults, zombies and aborted records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tests.contract.conftest import EVENTS, StepClock, event
from tpf_streams.errors import TaskLostError
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.logs.memory.log import SyncMode
from tpf_streams.ports import Record, TopicPartition, Turn

INPUT = TopicPartition(EVENTS, 0)
OUT = Record("outputs", None, b"out")


class Boom(Exception):
    pass


def boom() -> None:
    raise Boom


@dataclass
class Faults:
    """Does what it is told at the next commit, once."""

    at_before: Callable[[], None] | None = None
    at_after: Callable[[], None] | None = None
    seen: list[int] = field(default_factory=list)

    def before(self, partition: int, turn: Turn) -> None:
        self.seen.append(partition)
        doing, self.at_before = self.at_before, None
        if doing is not None:
            doing()

    def after(self, partition: int, turn: Turn) -> None:
        doing, self.at_after = self.at_after, None
        if doing is not None:
            doing()


def make(sync: SyncMode = "commit", faults: Faults | None = None, zombies_poll: bool = False) -> MemoryLog:
    return MemoryLog(partitions=2, clock=StepClock(), sync=sync, faults=faults, fence_at_commit_only=zombies_poll)


def values(log: MemoryLog, topic: str = "outputs") -> list[bytes | None]:
    return [record.value for record in log.read(topic)]


async def test_what_before_raises_aborts_the_turn_and_leaves_holes_that_nobody_sees():
    faults = Faults(at_before=boom)
    log = make(faults=faults)
    reader = await log.open_reader("g", ["outputs"])
    task = await log.open_task(0)
    with pytest.raises(Boom):
        await task.commit(Turn([OUT, OUT], {b"k": b"v"}, {INPUT: 1}))
    with pytest.raises(TaskLostError):
        await task.commit(Turn())
    assert (values(log), await reader.poll(10)) == ([], [])
    assert (log.store(0).get(b"k"), log.task_positions(0)) == (None, {})
    task = await log.open_task(0)
    await task.commit(Turn([OUT]))
    assert [record.offset for record in await reader.poll(10)] == [2]
    assert (await log.end_offsets(["outputs"]))[TopicPartition("outputs", 0)] == 3


async def test_what_after_raises_leaves_the_turn_held_and_the_task_closed():
    log = make(faults=Faults(at_after=boom))
    task = await log.open_task(0)
    with pytest.raises(Boom):
        await task.commit(Turn([OUT], {b"k": b"v"}, {INPUT: 1}))
    with pytest.raises(TaskLostError):
        await task.poll(1)
    assert (values(log), log.store(0).get(b"k"), log.task_positions(0)) == ([b"out"], b"v", {INPUT: 1})


async def test_a_poll_walks_over_any_number_of_holes():
    faults = Faults()
    log = make(faults=faults)
    for _ in range(3):
        faults.at_before = boom
        with pytest.raises(Boom):
            await (await log.open_task(1)).commit(Turn([event(b"aborted")]))
    await log.append([event(b"real")])
    task = await log.open_task(0)
    assert [record.value for record in await task.poll(1)] == [b"real"]


async def test_a_task_that_is_fenced_in_the_middle_of_its_commit_writes_nothing():
    faults = Faults()
    log = make(faults=faults)
    old = await log.open_task(0)

    def steal() -> None:
        with pytest.raises(StopIteration):
            log.open_task(0).send(None)

    faults.at_before = steal
    with pytest.raises(TaskLostError):
        await old.commit(Turn([OUT], {b"k": b"v"}))
    assert (values(log), log.store(0).get(b"k")) == ([], None)


async def test_a_zombie_sees_its_stale_rows_and_cannot_commit():
    log = make(zombies_poll=True)
    old = await log.open_task(0)
    await old.commit(Turn(rows={b"k": b"old"}))
    new = await log.open_task(0)
    await new.commit(Turn(rows={b"k": b"new"}))
    await log.append([event(b"a")])
    assert (old.store.get(b"k"), new.store.get(b"k")) == (b"old", b"new")
    assert [record.value for record in await old.poll(1)] == [b"a"]
    with pytest.raises(TaskLostError):
        await old.commit(Turn(rows={b"k": b"zombie"}))
    assert log.store(0).get(b"k") == b"new"


@pytest.mark.parametrize(("sync", "held"), [("commit", True), ("interval", False), ("broken", False)])
async def test_a_crash_loses_what_was_not_synced(sync: SyncMode, held: bool):
    log = make(sync)
    await log.append([event(b"a")])
    log.sync()
    task = await log.open_task(0)
    await task.poll(1)
    await task.commit(Turn([OUT], {b"k": b"v"}, {INPUT: 1}))
    log.crash()
    with pytest.raises(TaskLostError):
        await task.commit(Turn())
    assert values(log) == ([b"out"] if held else [])
    again = await log.open_task(0)
    assert again.store.get(b"k") == (b"v" if held else None)
    assert [record.value for record in await again.poll(1)] == ([] if held else [b"a"])
    assert again.incarnation > task.incarnation


async def test_a_crash_loses_the_tail_and_never_the_middle():
    log = make("interval")
    task = await log.open_task(0)
    for n in range(4):
        await task.commit(Turn([Record("outputs", None, b"%d" % n)], {b"k": b"%d" % n, b"k%d" % n: b"v"}))
    assert log.unsynced == 4
    log.crash(keep_unsynced=2)
    assert values(log) == [b"0", b"1"]
    assert list(log.store(0).scan(b"", b"\xff")) == [(b"k", b"1"), (b"k0", b"v"), (b"k1", b"v")]


async def test_interval_syncs_by_the_clock():
    log = make("interval")
    task = await log.open_task(0)
    await task.commit(Turn([OUT]))
    log.clock.ms += 1_000  # type: ignore[attr-defined]
    await task.commit(Turn([OUT]))
    assert log.unsynced == 0


async def test_a_reader_commit_is_lost_with_its_records_unless_a_turn_follows():
    log = make()
    await log.append([Record("answers", None, b"a")])

    async def forward() -> None:
        reader = await log.open_reader("router", ["answers"])
        for record in await reader.poll(10):
            await reader.commit([event(b"forwarded " + (record.value or b""))])

    await forward()
    log.crash()
    assert values(log, EVENTS) == []
    await forward()
    await (await log.open_task(1)).commit(Turn([OUT]))
    log.crash()
    assert values(log, EVENTS) == [b"forwarded a"]
    await forward()
    assert values(log, EVENTS) == [b"forwarded a"]


async def test_a_crash_inside_a_commit_loses_the_turn():
    faults = Faults()
    log = make(faults=faults)
    task = await log.open_task(0)
    faults.at_before = log.crash
    with pytest.raises(TaskLostError):
        await task.commit(Turn([OUT], {b"k": b"v"}))
    assert (values(log), log.store(0).get(b"k")) == ([], None)


async def test_restore_goes_back_to_a_snapshot_but_never_reuses_an_incarnation():
    log = make()
    task = await log.open_task(0)
    await task.commit(Turn([OUT], {b"k": b"1"}))
    snapshot = log.snapshot()
    task = await log.open_task(0)
    await task.commit(Turn([OUT], {b"k": b"2"}, {INPUT: 0}))
    for _ in range(2):
        log.restore(snapshot)
        assert (values(log), log.store(0).get(b"k")) == ([b"out"], b"1")
        again = await log.open_task(0)
        assert again.incarnation > task.incarnation
        await again.commit(Turn([OUT], {b"k": b"3"}))


async def test_with_a_clock_of_the_test_nothing_waits():
    log = make()
    task, reader = await log.open_task(0), await log.open_reader("g", [EVENTS])
    await task.wait(3_600)
    await reader.wait(3_600)

"""MemoryLog: the log of tests, simulation and the TopologyTestDriver. Deterministic: no I/O, no sleeping.

It is honest about what a real log may do: an older TaskLog of a partition is fenced and keeps its stale rows, a commit
may raise although the turn holds, aborted records leave holes in the offsets, and unsynced writes are lost by `crash`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from tpf_streams.errors import LogError
from tpf_streams.logs.clock import SystemClock
from tpf_streams.logs.groups import GroupReader
from tpf_streams.logs.memory.state import MemoryPartition, MemoryState
from tpf_streams.logs.memory.task import MemoryTaskLog
from tpf_streams.ports import Clock, InputRecord, ReadableStore, Record, TaskGroup, TopicPartition, Turn

SyncMode: TypeAlias = Literal["commit", "interval", "broken"]
"""commit: a turn is durable when commit returns. interval: durable `sync_interval_ms` later, or at `sync()`.
broken: claims what `commit` claims and syncs nothing; a checker that does not notice it is no checker."""


class CommitFaults(Protocol):
    """The crash points of a commit. What `before` raises aborts the turn; what `after` raises leaves it held."""

    def before(self, partition: int, turn: Turn) -> None: ...

    def after(self, partition: int, turn: Turn) -> None: ...


class MemoryLog:
    """Log in memory. With a `clock` of the caller's `wait` returns at once; without one it really waits."""

    def __init__(
        self,
        *,
        application_id: str = "app",
        partitions: int = 8,
        topics: Mapping[str, int] | None = None,
        clock: Clock | None = None,
        sync: SyncMode = "commit",
        sync_interval_ms: int = 100,
        faults: CommitFaults | None = None,
        fence_at_commit_only: bool = False,
        blocking_waits: bool | None = None,
        distant: bool = False,
    ) -> None:
        self.events_topic = f"{application_id}-events"
        self.clock = clock or SystemClock()
        self.blocking_waits = clock is None if blocking_waits is None else blocking_waits
        self.sync_mode = sync
        self.sync_interval_ms = sync_interval_ms
        self.faults = faults
        self.fence_at_commit_only = fence_at_commit_only
        self.distant = distant
        internal = dict.fromkeys((self.events_topic, f"{application_id}-lifecycle"), partitions)
        self._state = MemoryState(partitions, {**(topics or {}), **internal})
        self._open: dict[int, MemoryTaskLog] = {}
        self._synced_ms = self.clock.now_ms()

    @property
    def partitions(self) -> int:
        return len(self._state.stores)

    async def travel(self) -> None:
        """The way of a commit to a distant log, or of its answer back."""
        if self.distant:
            await asyncio.sleep(0)

    # --- the Log port -------------------------------------------------------------------------------------------

    async def join(self, group: TaskGroup) -> None:
        """One process has every partition, and keeps it."""
        group.assigned(range(self.partitions))

    async def open_task(self, partition: int) -> MemoryTaskLog:
        state = self._state
        if not 0 <= partition < self.partitions:
            raise LogError(f"there is no partition {partition}: the application has {self.partitions}")
        predecessor = self._open.get(partition)
        if predecessor is not None:
            predecessor.fence()
            # A zombie has its own disk: it must go on seeing its stale rows, or a test could not catch it acting on
            # rows that only its successor wrote.
            state.stores[partition] = state.stores[partition].copy()
        state.incarnations[partition] += 1
        part = state.topic(self.events_topic)[partition]
        position = state.positions[partition].get(part.name, 0)
        task = MemoryTaskLog(self, part, state.incarnations[partition], state.stores[partition], position)
        self._open[partition] = task
        return task

    async def open_reader(self, group: str, topics: Sequence[str]) -> GroupReader:
        parts = [part for topic in topics for part in self._state.topic(topic)]
        return GroupReader(self, self._state.group(group), parts)

    async def append(self, records: Sequence[Record]) -> None:
        state = self._state
        routed = state.route(records)
        self._tick()
        if self.sync_mode != "commit":
            state.unsynced.append(state.undo_of(routed))
        state.append(routed)
        self._sync_if_due()

    async def end_offsets(self, topics: Sequence[str]) -> dict[TopicPartition, int]:
        return {part.name: part.end for topic in topics for part in self._state.topic(topic)}

    def read(self, topic: str, start: int = 0, limit: int | None = None) -> Iterator[InputRecord]:
        left = limit
        for part in list(self._state.topics.get(topic, ())):
            for record in part.records[start:]:
                if left is not None and left <= 0:
                    return
                if record is not None:
                    yield record
                    left = None if left is None else left - 1

    async def history(self, topic: str, partition: int, start: int = 0) -> AsyncIterator[list[InputRecord]]:
        """The records of one partition from offset `start` to its end of now, in lots."""
        yield self._state.topic(topic)[partition].fetch(start, 2**63 - 1)[0]

    async def close(self) -> None:
        for task in list(self._open.values()):
            await task.close()
        for group in self._state.groups.values():
            group.dissolve()
        self.sync()

    # --- what tests do to it ------------------------------------------------------------------------------------

    def store(self, partition: int) -> ReadableStore:
        """The committed rows of a partition, for views and checkers."""
        return self._state.stores[partition]

    @property
    def unseen(self) -> tuple[int, ...]:
        """Every row is in this process."""
        return ()

    def is_current(self, partition: int) -> bool:
        return True

    def task_positions(self, partition: int) -> dict[TopicPartition, int]:
        """The committed input positions of a task."""
        return dict(self._state.positions[partition])

    def sync(self) -> None:
        """Make everything written so far survive `crash`."""
        self._state.unsynced.clear()
        self._synced_ms = self._state.now_ms

    @property
    def unsynced(self) -> int:
        """How many writes a crash could lose now."""
        return len(self._state.unsynced)

    def crash(self, keep_unsynced: int = 0) -> None:
        """The machine stops: open tasks and readers are gone, and all unsynced writes but the oldest few."""
        for task in self._open.values():
            task.die()
        self._open.clear()
        for group in self._state.groups.values():
            group.dissolve()
        self._state.lose(keep_unsynced)

    def snapshot(self) -> MemoryState:
        """A copy of all that is stored now, for `restore`."""
        return self._state.copy()

    def restore(self, snapshot: MemoryState) -> None:
        """Crash, and come back with the stored state of `snapshot`, which stays usable."""
        self.crash()
        passed, self._state = self._state.incarnations, snapshot.copy()
        # An incarnation number must never come twice, or a result of the lost future would pass for a fresh one.
        self._state.incarnations = [max(pair) for pair in zip(passed, self._state.incarnations, strict=True)]

    # --- what tasks and readers do ------------------------------------------------------------------------------

    def commit_turn(self, task: MemoryTaskLog, turn: Turn) -> None:
        """Apply a turn, or raise. The task has checked itself and closes itself if this raises."""
        partition, state, faults = task.partition, self._state, self.faults
        routed = state.route(turn.records)
        if faults is not None:
            try:
                faults.before(partition, turn)
                task.check()
            except BaseException:
                if state is self._state:
                    self._abort(routed)
                raise
        self._tick()
        if self.sync_mode != "commit":
            undo = state.undo_of(routed)
            undo.partition = partition
            undo.rows = dict(zip(turn.rows, task.store.get_many(list(turn.rows)), strict=True))
            undo.positions = dict(state.positions[partition])
            state.unsynced.append(undo)
        state.append(routed)
        state.stores[partition].write(turn.rows)
        state.positions[partition].update(turn.positions)
        self._sync_if_due()
        if faults is not None:
            faults.after(partition, turn)

    async def commit_group(
        self, group: str, positions: Mapping[TopicPartition, int], records: Sequence[Record]
    ) -> None:
        """Not synced by itself in any mode, as in the local log: position and records are lost or kept together."""
        state = self._state
        routed = state.route(records)
        self._tick()
        undo = state.undo_of(routed)
        undo.group = group
        undo.committed = dict(state.group(group).committed)
        state.unsynced.append(undo)
        state.append(routed)
        state.group(group).committed.update(positions)

    def release(self, task: MemoryTaskLog) -> None:
        """The task is closed; an open successor is not touched."""
        if self._open.get(task.partition) is task:
            del self._open[task.partition]

    def _abort(self, routed: Sequence[tuple[MemoryPartition, Record]]) -> None:
        for part, _ in routed:
            part.abort()

    def _tick(self) -> None:
        # Append times never go back, whatever the clock does: deadlines are compared with them.
        self._state.now_ms = max(self._state.now_ms, self.clock.now_ms())

    def _sync_if_due(self) -> None:
        if self.sync_mode == "commit":
            self._state.unsynced.clear()
        elif self.sync_mode == "interval" and self._state.now_ms - self._synced_ms >= self.sync_interval_ms:
            self.sync()

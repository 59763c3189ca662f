"""What a memory log holds, and how much of it would survive a crash of the machine.

Writes are applied at once and visible at once, like writes in a page cache. What is not yet synced keeps an undo entry;
`lose` takes entries back from the end, because a journal loses its tail and never its middle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tpf_streams.logs.groups import ReaderGroup
from tpf_streams.logs.memory.rows import MemoryRows
from tpf_streams.logs.partitioning import partition_of
from tpf_streams.logs.waiting import wake
from tpf_streams.ports import InputRecord, Record, TopicPartition


class MemoryPartition:
    """Records of one partition; index = offset. None is an aborted record: it takes an offset and nobody sees it."""

    __slots__ = ("holes", "name", "records", "waiters")

    def __init__(self, topic: str, partition: int) -> None:
        self.name = TopicPartition(topic, partition)
        self.records: list[InputRecord | None] = []
        self.holes = 0
        self.waiters: set[asyncio.Event] = set()

    @property
    def start(self) -> int:
        return 0

    @property
    def end(self) -> int:
        return len(self.records)

    def fetch(self, offset: int, limit: int) -> tuple[list[InputRecord], int]:
        while True:
            chunk = self.records[offset : offset + limit]
            offset += len(chunk)
            seen = [record for record in chunk if record is not None] if self.holes else chunk
            # A chunk of nothing but aborted records is no end of the log.
            if seen or not chunk:
                return seen, offset  # type: ignore[return-value]  # without holes there is no None in it

    def append(self, record: Record, now_ms: int) -> None:
        topic, records = self.name.topic, self.records
        records.append(
            InputRecord(
                topic, self.name.partition, len(records), now_ms, record.key, record.value, tuple(record.headers)
            )
        )

    def abort(self) -> None:
        self.records.append(None)
        self.holes += 1

    def truncate(self, end: int) -> None:
        dropped = self.records[end:]
        del self.records[end:]
        self.holes -= sum(1 for record in dropped if record is None)


@dataclass(slots=True)
class Undo:
    """How to take one write back: the ends of partitions, rows and positions as they were before it."""

    ends: list[tuple[MemoryPartition, int]]
    partition: int | None = None
    rows: dict[bytes, bytes | None] = field(default_factory=dict)
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    group: str | None = None
    committed: dict[TopicPartition, int] = field(default_factory=dict)


class MemoryState:
    """Topics, rows, positions and groups of one application."""

    def __init__(self, partitions: int, counts: Mapping[str, int]) -> None:
        self.counts = dict(counts)
        self.topics: dict[str, list[MemoryPartition]] = {}
        self.stores = [MemoryRows() for _ in range(partitions)]
        self.positions: list[dict[TopicPartition, int]] = [{} for _ in range(partitions)]
        self.incarnations = [0] * partitions
        self.groups: dict[str, ReaderGroup] = {}
        self.unsynced: list[Undo] = []
        self.now_ms = 0

    def topic(self, name: str) -> list[MemoryPartition]:
        found = self.topics.get(name)
        if found is None:
            found = self.topics[name] = [MemoryPartition(name, index) for index in range(self.counts.get(name, 1))]
        return found

    def group(self, name: str) -> ReaderGroup:
        found = self.groups.get(name)
        if found is None:
            found = self.groups[name] = ReaderGroup(name)
        return found

    def route(self, records: Sequence[Record]) -> list[tuple[MemoryPartition, Record]]:
        """Where each record goes. Raises before anything is written, so that a bad record leaves no half turn."""
        routed = []
        for record in records:
            parts = self.topic(record.topic)
            routed.append((parts[partition_of(record, len(parts))], record))
        return routed

    def append(self, routed: Sequence[tuple[MemoryPartition, Record]]) -> None:
        for part, record in routed:
            part.append(record, self.now_ms)
        for part in {id(part): part for part, _ in routed}.values():
            if part.waiters:
                wake(part)

    def undo_of(self, routed: Sequence[tuple[MemoryPartition, Record]]) -> Undo:
        return Undo([(part, part.end) for part in {id(part): part for part, _ in routed}.values()])

    def lose(self, keep: int) -> None:
        """Take back every unsynced write but the first `keep`."""
        while len(self.unsynced) > keep:
            undo = self.unsynced.pop()
            for part, end in undo.ends:
                part.truncate(end)
            if undo.partition is not None:
                self.stores[undo.partition].write(undo.rows)
                self.positions[undo.partition] = undo.positions
            if undo.group is not None:
                self.groups[undo.group].committed = undo.committed
        self.unsynced.clear()

    def copy(self) -> MemoryState:
        """An independent state, without readers and with nothing left to lose."""
        twin = MemoryState(len(self.stores), self.counts)
        for name, parts in self.topics.items():
            for mine, theirs in zip(parts, twin.topic(name), strict=True):
                theirs.records, theirs.holes = list(mine.records), mine.holes
        twin.stores = [store.copy() for store in self.stores]
        twin.positions = [dict(positions) for positions in self.positions]
        twin.incarnations = list(self.incarnations)
        for name, group in self.groups.items():
            twin.group(name).committed = dict(group.committed)
        twin.now_ms = self.now_ms
        return twin

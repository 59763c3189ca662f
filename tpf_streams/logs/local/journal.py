"""The journal: topics, positions and groups over one store, and the one way to write to it.

A write is one atomic batch: records, rows and positions of a turn hold together or not at all (architecture D3, D4).
There is no second changelog, because the rows are in the same batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import orjson

from tpf_streams.errors import LogCorruptError, LogError, LogFailedError, LogMismatchError
from tpf_streams.logs.groups import ReaderGroup
from tpf_streams.logs.local import keys
from tpf_streams.logs.local.partition import LocalPartition
from tpf_streams.logs.local.retention import Retention, Stretches
from tpf_streams.logs.local.store import JournalStore
from tpf_streams.logs.partitioning import partition_of
from tpf_streams.logs.waiting import wake
from tpf_streams.ports import Clock, InputRecord, Record, TopicPartition

TRIM_RECORDS = 4_096
"""Consumed records of a partition are deleted so many at a time. Each range delete in a memtable costs the next read
about a microsecond per range delete already there (seen: 80 us at 100), so they must be few."""
TASK = "task"

Publish: TypeAlias = Callable[[], None]


class Journal:
    """All state of one local log. Lives in one event loop."""

    def __init__(
        self,
        store: JournalStore,
        clock: Clock,
        partitions: int,
        counts: Mapping[str, int],
        keep: frozenset[str],
        retained: Mapping[str, Retention] | None = None,
    ) -> None:
        self.store = store
        self.topics: dict[str, list[LocalPartition]] = {}
        self.groups: dict[str, ReaderGroup] = {}
        self.positions: list[dict[TopicPartition, int]] = [{} for _ in range(partitions)]
        self.incarnations = [0] * partitions
        self._clock = clock
        self._now_ms = 0
        self._counts = counts
        self._keep = keep
        self._retained = retained or {}
        self._stretches: dict[LocalPartition, Stretches] = {}
        self._failure: str | None = None
        # Facts that join the next batch: a topic's number must hold with the first key that uses it.
        self._unsaved: dict[bytes, bytes | None] = {}
        self._load()

    # --- topics ---------------------------------------------------------------------------------------------------

    def topic(self, name: str) -> list[LocalPartition]:
        """The partitions of a topic, which exists from its first use."""
        found = self.topics.get(name)
        if found is None:
            count = self._counts.get(name, 1)
            number = len(self.topics)
            self._unsaved[keys.TOPICS + name.encode()] = keys.TOPIC.pack(number, count)
            found = self.topics[name] = [LocalPartition(self.store, name, number, index) for index in range(count)]
            self._retain(name)
        return found

    def _retain(self, name: str) -> None:
        if name in self._retained:
            for part in self.topics[name]:
                self._stretches[part] = Stretches(self.store, part, self._retained[name])

    def group(self, name: str, partitions: Sequence[LocalPartition]) -> ReaderGroup:
        """A reader group, from now on a consumer of `partitions`."""
        if "\0" in name:
            raise LogError(f"a group name holds no NUL: {name!r}")
        group = self.groups.setdefault(name, ReaderGroup(name))
        for part in partitions:
            if part.name not in group.committed:
                # Stored before it first commits, or records that it never saw could be trimmed after a restart.
                position = group.committed[part.name] = part.start
                self._unsaved[keys.group_key(name, part.address)] = keys.U64.pack(position)
            part.pass_floor(f"group {name}", group.committed[part.name])
        return group

    # --- writing --------------------------------------------------------------------------------------------------

    def write(self, records: Sequence[Record], changes: Mapping[bytes, bytes | None]) -> Publish:
        """One atomic batch. The caller calls what is returned when the records may be seen."""
        self.check()
        self._now_ms = now_ms = max(self._now_ms, self._clock.now_ms())
        appended = self._route(records)
        # Changes over first facts: a group's position may be stored for the first time and moved by the same batch.
        batch = {**self._unsaved, **changes}
        for part, mine in appended.items():
            offset = part.next
            prefix, pack = part.prefix, keys.U64.pack
            for record in mine:
                batch[prefix + pack(offset)] = keys.encode_record(record, now_ms)
                offset += 1
            if part in self._stretches:
                self._note(part, offset - len(mine), offset, batch)
        self._store_write(batch)
        self._unsaved.clear()
        ranges = [(part, mine, part.next) for part, mine in appended.items()]
        for part, mine in appended.items():
            part.next += len(mine)
            if part in self._stretches:
                self._forget(part)
        return lambda: _publish(ranges, now_ms)

    def move_task(self, task: int, positions: Mapping[TopicPartition, int], batch: dict[bytes, bytes | None]) -> None:
        """Add the input positions of a task to a batch."""
        for name, position in positions.items():
            batch[keys.position_key(task, self._partition(name).address)] = keys.U64.pack(position)

    def task_moved(self, task: int, positions: Mapping[TopicPartition, int]) -> None:
        """The batch was written."""
        self.positions[task].update(positions)
        for name, position in positions.items():
            part = self._partition(name)
            if TASK in part.floors:
                part.pass_floor(TASK, position)
                self._trim(part)

    def move_group(self, group: str, positions: Mapping[TopicPartition, int], batch: dict[bytes, bytes | None]) -> None:
        """Add the positions of a reader group to a batch."""
        for name, position in positions.items():
            batch[keys.group_key(group, self._partition(name).address)] = keys.U64.pack(position)

    def group_moved(self, group: str, positions: Mapping[TopicPartition, int]) -> None:
        """The batch was written."""
        self.groups[group].committed.update(positions)
        for name, position in positions.items():
            part = self._partition(name)
            part.pass_floor(f"group {group}", position)
            self._trim(part)

    def fail(self, error: BaseException) -> LogFailedError:
        """Accept nothing more: what follows a failed write may stand on a hole. What to raise."""
        self._failure = self._failure or str(error)
        return LogFailedError(f"a write to the journal failed, and whether it holds is not known: {error}")

    @property
    def failed(self) -> bool:
        return self._failure is not None

    def check(self) -> None:
        if self._failure is not None:
            raise LogFailedError(f"the journal takes no more writes since one failed: {self._failure}")

    # --- inside ---------------------------------------------------------------------------------------------------

    def _route(self, records: Sequence[Record]) -> dict[LocalPartition, list[Record]]:
        routed: dict[LocalPartition, list[Record]] = {}
        for record in records:
            parts = self.topics.get(record.topic) or self.topic(record.topic)
            part = parts[partition_of(record, len(parts))]
            mine = routed.get(part)
            if mine is None:
                routed[part] = [record]
            else:
                mine.append(record)
        return routed

    def _note(self, part: LocalPartition, start: int, end: int, batch: dict[bytes, bytes | None]) -> None:
        for offset in range(start, end):
            key = part.key(offset)
            size = len(key) + len(batch[key] or b"")
            self._stretches[part].append(size, offset, self._now_ms, batch)

    def _forget(self, part: LocalPartition) -> None:
        try:
            self._stretches[part].trim(self._now_ms)
        except LogError as error:
            raise self.fail(error) from error

    def _store_write(self, batch: Mapping[bytes, bytes | None]) -> None:
        try:
            self.store.write(batch)
        except LogError as error:
            raise self.fail(error) from error

    def _trim(self, part: LocalPartition) -> None:
        # The last record stays: it carries the partition's end and its newest timestamp over a restart.
        start = min(part.floor(), part.end - 1)
        if start - part.start < TRIM_RECORDS or part.name.topic in self._keep:
            return
        # A write of its own, behind the positions that allow it: a crash can lose the trim and keep them, never the
        # other way round.
        try:
            self.store.delete_range(part.key(part.start), part.key(start))
        except LogError as error:
            raise self.fail(error) from error
        part.start = start

    def _partition(self, name: TopicPartition) -> LocalPartition:
        parts = self.topics.get(name.topic) or self.topic(name.topic)
        if not 0 <= name.partition < len(parts):
            raise LogError(f"topic {name.topic!r} has {len(parts)} partition(s); there is no {name.partition}")
        return parts[name.partition]

    def _load(self) -> None:
        addresses: dict[bytes, LocalPartition] = {}
        stored = {key[1:].decode(): keys.TOPIC.unpack(value) for key, value in self._range(keys.TOPICS)}
        for name, (number, count) in stored.items():
            if self._counts.get(name, count) != count:
                raise LogMismatchError(f"topic {name!r} was made with {count} partition(s), not {self._counts[name]}")
            parts = self.topics[name] = [LocalPartition(self.store, name, number, index) for index in range(count)]
            for part in parts:
                addresses[part.address] = part
                self._now_ms = max(self._now_ms, part.load())
            self._retain(name)
        if sorted(number for number, _ in stored.values()) != list(range(len(stored))):
            raise LogCorruptError("topics are missing in the journal: records would be written over others")
        for key, value in self._range(keys.POSITIONS):
            self.positions[keys.U16.unpack(key[1:3])[0]][addresses[key[3:]].name] = keys.U64.unpack(value)[0]
        for key, value in self._range(keys.INCARNATIONS):
            self.incarnations[keys.U16.unpack(key[1:])[0]] = keys.U64.unpack(value)[0]
        for key, value in self._range(keys.GROUPS):
            name, part, position = key[1:-7].decode(), addresses[key[-6:]], keys.U64.unpack(value)[0]
            self.groups.setdefault(name, ReaderGroup(name)).committed[part.name] = position
            part.pass_floor(f"group {name}", position)

    def _range(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self.store.scan(prefix, keys.after(prefix))


def _publish(ranges: Sequence[tuple[LocalPartition, list[Record], int]], now_ms: int) -> None:
    for part, records, offset in ranges:
        seen: list[InputRecord] = []
        if part.floors:
            topic, partition = part.name.topic, part.name.partition
            for at, record in enumerate(records, offset):
                headers = tuple(record.headers)
                seen.append(InputRecord(topic, partition, at, now_ms, record.key, record.value, headers))
        part.publish(seen, offset + len(records))
        if part.waiters:
            wake(part)


def read_header(store: JournalStore) -> dict[str, object] | None:
    """Who wrote this journal, or None when it is new."""
    data = store.get(keys.HEADER)
    if data is None:
        return None
    header: dict[str, object] = orjson.loads(data)
    return header

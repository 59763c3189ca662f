"""The local log with somebody who listens. The engine is not changed: it is handed this log instead of the bare one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.measure import Stopwatch
from tpf_streams.logs.local import LocalLog, OpenStore
from tpf_streams.ports import InputRecord, ReadableStore, Record, RecordReader, TaskGroup, TaskLog, TopicPartition, Turn


class Listener:
    """What a benchmark hears. Here nothing is done with it; a listener overrides what it needs."""

    def read(self, topics: Sequence[str], records: Sequence[InputRecord]) -> None:
        """A reader group was given records."""

    def forwarding(self, records: Sequence[Record]) -> None:
        """A reader group is about to append."""

    def forwarded(self, records: Sequence[Record]) -> None:
        """What it appended holds and can be seen."""

    def polled(self, partition: int, records: Sequence[InputRecord]) -> None:
        """A task was given input."""

    def committing(self, partition: int, turn: Turn) -> None:
        """A task's turn is about to be written."""

    def committed(self, partition: int, turn: Turn) -> None:
        """Its commit has returned."""

    def figures(self) -> dict[str, Any]:
        """What was found, for the report."""
        return {}


class NotedLogs:
    """Stands where the runtime opens its LocalLog. `watch` runs from the opening of the log to its end."""

    def __init__(self, listener: Listener, watch: Stopwatch, open_store: OpenStore | None = None) -> None:
        self._listener = listener
        self._watch = watch
        self._open_store = open_store

    def open(self, data_dir: str | Path, open_store: OpenStore, **settings: Any) -> NotedLog:
        log = LocalLog.open(data_dir, self._open_store or open_store, **settings)
        self._watch.start()
        return NotedLog(log, self._listener, self._watch)


class NotedLog:
    """ViewableLog."""

    def __init__(self, log: LocalLog, listener: Listener, watch: Stopwatch) -> None:
        self._log = log
        self._listener = listener
        self._watch = watch
        self._closed = False

    @property
    def partitions(self) -> int:
        return self._log.partitions

    async def join(self, group: TaskGroup) -> None:
        await self._log.join(group)

    async def open_task(self, partition: int) -> TaskLog:
        return NotedTaskLog(await self._log.open_task(partition), self._listener)

    async def open_reader(self, group: str, topics: Sequence[str]) -> RecordReader:
        return NotedReader(await self._log.open_reader(group, topics), topics, self._listener)

    async def append(self, records: Sequence[Record]) -> None:
        await self._log.append(records)

    async def end_offsets(self, topics: Sequence[str]) -> dict[TopicPartition, int]:
        return await self._log.end_offsets(topics)

    def read(self, topic: str, start: int = 0, limit: int | None = None) -> Iterator[InputRecord]:
        return self._log.read(topic, start, limit)

    def store(self, partition: int) -> ReadableStore:
        return self._log.store(partition)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._watch.stop()
        await self._log.close()


class NotedTaskLog:
    """TaskLog."""

    def __init__(self, log: TaskLog, listener: Listener) -> None:
        self._log = log
        self._listener = listener
        self.partition = log.partition
        self.incarnation = log.incarnation
        self.store = log.store
        self.distant = log.distant

    @property
    def position(self) -> int:
        return self._log.position

    async def poll(self, max_records: int) -> list[InputRecord]:
        found = await self._log.poll(max_records)
        if found:
            self._listener.polled(self.partition, found)
        return found

    async def wait(self, timeout_s: float) -> None:
        await self._log.wait(timeout_s)

    async def commit(self, turn: Turn) -> None:
        self._listener.committing(self.partition, turn)
        await self._log.commit(turn)
        self._listener.committed(self.partition, turn)

    def hasten(self) -> None:
        self._log.hasten()

    async def close(self) -> None:
        await self._log.close()


class NotedReader:
    """RecordReader."""

    def __init__(self, reader: RecordReader, topics: Sequence[str], listener: Listener) -> None:
        self._reader = reader
        self._topics = topics
        self._listener = listener

    async def poll(self, max_records: int) -> list[InputRecord]:
        found = await self._reader.poll(max_records)
        if found:
            self._listener.read(self._topics, found)
        return found

    async def wait(self, timeout_s: float) -> None:
        await self._reader.wait(timeout_s)

    async def commit(
        self, records: Sequence[Record] = (), positions: Mapping[TopicPartition, int] | None = None
    ) -> None:
        self._listener.forwarding(records)
        await self._reader.commit(records, positions)
        self._listener.forwarded(records)

    def positions(self) -> dict[TopicPartition, int]:
        return self._reader.positions()

    async def close(self) -> None:
        await self._reader.close()

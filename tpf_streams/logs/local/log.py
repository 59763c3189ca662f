"""LocalLog: the log of one process. One database holds records, rows, positions and reader groups.

Durable without a broker: with `sync: commit` a turn is on disk when its commit returns. Reader groups do not sync by
themselves. The database's write-ahead log keeps writes in order and a sync covers everything before it, so records that
a reader forwarded are durable with the first turn that used them; lost, they are lost together with the position and
are read again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import orjson

from tpf_streams.errors import LogCorruptError, LogError, LogMismatchError, TaskLostError
from tpf_streams.logs.clock import SystemClock
from tpf_streams.logs.groups import GroupReader
from tpf_streams.logs.local import keys
from tpf_streams.logs.local.directory import DataDirectory, Marker
from tpf_streams.logs.local.journal import TASK, Journal, read_header
from tpf_streams.logs.local.retention import Retention
from tpf_streams.logs.local.store import JournalStore, OpenStore, TaskRows
from tpf_streams.logs.local.syncer import Syncer, SyncMode
from tpf_streams.logs.local.task import LocalTaskLog
from tpf_streams.ports import Clock, InputRecord, ReadableStore, Record, TaskGroup, TopicPartition

READ_CHUNK = 1_000
HISTORY_CHUNK = 16
"""Records of a history may be near a MiB each."""
DEFAULT_MEMORY_BYTES = 64 * 1024 * 1024


class LocalLog:
    """Log over a data directory that this process owns. Make one with `open`."""

    blocking_waits = True

    def __init__(self, directory: DataDirectory, epoch: str, journal: Journal, events: str, syncer: Syncer) -> None:
        self.journal = journal
        self.events_topic = events
        self.syncer = syncer
        self.epoch = epoch
        self._directory = directory
        self._open: dict[int, LocalTaskLog] = {}
        self._closed = False

    @classmethod
    def open(
        cls,
        data_dir: str | Path,
        open_store: OpenStore,
        *,
        application_id: str = "app",
        partitions: int = 8,
        identity: str = "",
        topics: Mapping[str, int] | None = None,
        keep: Collection[str] = (),
        sync: SyncMode = "commit",
        sync_interval_ms: int = 100,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        lifecycle: Retention | None = None,
        clock: Clock | None = None,
    ) -> LocalLog:
        """Claim and open a data directory. `topics`: partition counts other than 1. `keep`: topics never trimmed.
        `lifecycle`: what is kept of the lifecycle topic, which nobody need consume.

        `identity` stands for what ids are made of; another one than the first is refused, because the same work would
        come under new ids and be done again. Empty: not known, not compared.

        Topics that nobody in the application consumes are kept anyway.
        """
        events = f"{application_id}-events"
        directory = DataDirectory(data_dir)
        store: JournalStore | None = None
        try:
            store = open_store(directory.database, memory_bytes)
            wanted = {"application": application_id, "partitions": partitions, "identity": identity}
            epoch = _identify(directory, store, wanted)
            retained = {f"{application_id}-lifecycle": lifecycle or Retention()}
            counts = {**(topics or {}), events: partitions, **dict.fromkeys(retained, partitions)}
            journal = Journal(store, clock or SystemClock(), partitions, counts, frozenset(keep), retained)
            for part in journal.topic(events):
                task = part.name.partition
                part.pass_floor(TASK, journal.positions[task].get(part.name, 0))
        except BaseException:
            if store is not None:
                store.close()
            directory.release()
            raise
        return cls(directory, epoch, journal, events, Syncer(store.sync, sync, sync_interval_ms, journal.fail))

    @property
    def partitions(self) -> int:
        return len(self.journal.positions)

    async def join(self, group: TaskGroup) -> None:
        """One process has every partition, and keeps it."""
        group.assigned(range(self.partitions))

    async def open_task(self, partition: int) -> LocalTaskLog:
        self._check()
        journal = self.journal
        if not 0 <= partition < self.partitions:
            raise LogError(f"there is no partition {partition}: the application has {self.partitions}")
        predecessor = self._open.get(partition)
        if predecessor is not None:
            predecessor.lose("was opened again")
        journal.incarnations[partition] += 1
        incarnation = journal.incarnations[partition]
        publish = journal.write((), {keys.incarnation_key(partition): keys.U64.pack(incarnation)})
        # A turn of the predecessor that waits for its sync is already in the positions read here, and is made durable
        # by the same sync or an earlier one.
        inputs = journal.topic(self.events_topic)[partition]
        task = LocalTaskLog(self, inputs, incarnation, journal.positions[partition].get(inputs.name, 0))
        self._open[partition] = task
        await self.syncer.settle(publish, durable=True)
        task.check()
        return task

    async def open_reader(self, group: str, topics: Sequence[str]) -> GroupReader:
        self._check()
        parts = [part for topic in topics for part in self.journal.topic(topic)]
        return GroupReader(self, self.journal.group(group, parts), parts)

    async def append(self, records: Sequence[Record]) -> None:
        self._check()
        await self.syncer.settle(self.journal.write(records, {}), durable=True)

    async def commit_group(
        self, group: str, positions: Mapping[TopicPartition, int], records: Sequence[Record]
    ) -> None:
        """What a reader commits: records and positions in one batch, not synced by itself (see above)."""
        self._check()
        batch: dict[bytes, bytes | None] = {}
        self.journal.move_group(group, positions, batch)
        publish = self.journal.write(records, batch)
        self.journal.group_moved(group, positions)
        await self.syncer.settle(publish, durable=False)

    async def end_offsets(self, topics: Sequence[str]) -> dict[TopicPartition, int]:
        self._check()
        return {part.name: part.end for topic in topics for part in self.journal.topic(topic)}

    def read(self, topic: str, start: int = 0, limit: int | None = None) -> Iterator[InputRecord]:
        """In chunks: an iterator of the database left alive by a reader would keep the directory locked after close."""
        left = limit
        for part in list(self.journal.topics.get(topic, ())):
            offset = start
            while left is None or left > 0:
                self._check()
                found, offset = part.fetch(offset, READ_CHUNK if left is None else min(left, READ_CHUNK))
                if not found:
                    break
                left = None if left is None else left - len(found)
                yield from found

    async def history(self, topic: str, partition: int, start: int = 0) -> AsyncIterator[list[InputRecord]]:
        """The records of one partition from offset `start` to its end of now, in lots; others get their turn."""
        part = self.journal.topic(topic)[partition]
        offset, end = max(start, part.start), part.end
        while offset < end:
            self._check()
            found, offset = part.fetch(offset, min(HISTORY_CHUNK, end - offset))
            if not found:
                return
            yield found
            await asyncio.sleep(0)

    def store(self, partition: int) -> ReadableStore:
        """The rows of a partition, for views."""
        return TaskRows(self.journal.store, partition)

    @property
    def unseen(self) -> tuple[int, ...]:
        """Every row is in this process."""
        return ()

    def is_current(self, partition: int) -> bool:
        return True

    def release(self, task: LocalTaskLog) -> None:
        """The task is closed; an open successor is not touched."""
        if self._open.get(task.partition) is task:
            del self._open[task.partition]

    async def close(self) -> None:
        """Finish what is under way, make all of it durable, and give the directory up. Idempotent."""
        if self._closed:
            return
        self._closed = True
        for task in list(self._open.values()):
            await task.close()
        for group in self.journal.groups.values():
            group.dissolve()
        await self.syncer.close()
        try:
            self._close_store()
        finally:
            self._directory.release()

    def _close_store(self) -> None:
        store = self.journal.store
        if self.journal.failed:
            # The failure was told by the commit that met it; the database may refuse to flush once more.
            with contextlib.suppress(LogError):
                store.close()
            return
        try:
            store.sync()
            self._directory.mark(Marker(keys.FORMAT, self.epoch, store.sequence()))
        finally:
            store.close()

    def _check(self) -> None:
        if self._closed:
            raise TaskLostError("the log is closed")


def _identify(directory: DataDirectory, store: JournalStore, wanted: Mapping[str, object]) -> str:
    """Check that this is the journal it should be, or begin one; its epoch id."""
    header, marker = read_header(store), directory.marker()
    if header is None:
        if marker is not None:
            raise LogCorruptError(
                f"{directory.path}: the database is empty, and it was not: put the directory back from a copy, or "
                "start with another one"
            )
        header = {"format": keys.FORMAT, "epoch": os.urandom(16).hex(), **wanted}
        store.write({keys.HEADER: orjson.dumps(header)})
    _compare(directory.path, header, wanted)
    if marker is not None and (marker.epoch != header["epoch"] or marker.sequence > store.sequence()):
        raise LogCorruptError(
            f"{directory.path}: the database is not the one, or is older than the one, last used here"
        )
    store.sync()
    directory.mark(Marker(keys.FORMAT, str(header["epoch"]), store.sequence()))
    return str(header["epoch"])


def _compare(path: Path, header: Mapping[str, object], wanted: Mapping[str, object]) -> None:
    application_id, partitions = wanted["application"], wanted["partitions"]
    if header["format"] != keys.FORMAT:
        raise LogMismatchError(
            f"{path} has journal format {header['format']}; this version reads {keys.FORMAT}: use the newer one"
        )
    if header["application"] != application_id:
        raise LogMismatchError(
            f"{path} belongs to application {header['application']!r}, not {application_id!r}: use another directory"
        )
    if header["partitions"] != partitions:
        raise LogMismatchError(
            f"{path} was made with {header['partitions']} partitions, not {partitions}: partitions cannot be changed; "
            f"set {header['partitions']}, or start with an empty directory"
        )
    if wanted["identity"] and header.get("identity") and header["identity"] != wanted["identity"]:
        raise LogMismatchError(
            f"{path} was begun with another pipeline.id-secret or pipeline id: all ids would change, and what was done "
            "would be done again; set the old values (they are never rotated), or start with an empty directory"
        )

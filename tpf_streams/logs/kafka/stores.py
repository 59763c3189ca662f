"""The local copies of the rows: one store a partition, in a directory that this worker has claimed.

    <data dir>/<worker number>/lock     held while the process lives
    <data dir>/<worker number>/<partition>/

A frozen process keeps its number, and its successor on the same host takes the next: nobody waits for the other's lock.
The changelog is the truth: a copy that cannot be trusted is deleted and restored in full.
"""

from __future__ import annotations

import logging
import os
import shutil
import struct
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

from tpf_streams.errors import LogCorruptError, LogError, LogOwnedError, TaskLostError
from tpf_streams.logs.claim import claim
from tpf_streams.logs.kafka.batches import Entry
from tpf_streams.logs.kafka.changelog import POSITION, ROW, position_key, position_of
from tpf_streams.ports import StateStore, TopicPartition

log = logging.getLogger(__name__)

WORKERS_MAX = 1_000
_OURS = b"\xff\xff"
"""Before the keys of what is no row: no slot is this high (there are at most 1,024)."""
_MARK = _OURS + b"n"
_MARKED = struct.Struct(">B16sQQ")
_VERSION = 1

OpenStore = Callable[[Path], StateStore]


class TaskStore:
    """The rows of one partition, how far they are in the changelog, and its position. StateStore for those who read."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self.get, self.get_many, self.scan = store.get, store.get_many, store.scan
        self.epoch, self.next_offset, self.written_ms = _read_mark(store)

    def apply(self, entries: Iterable[Entry], epoch: str, next_offset: int, now_ms: int) -> None:
        """Changelog records, and how far they reach: all or nothing."""
        writes: dict[bytes, bytes | None] = {}
        for key, value, _ in entries:
            place = _place(key or b"")
            if place is not None:
                writes[place] = value
        writes[_MARK] = _MARKED.pack(_VERSION, bytes.fromhex(epoch), next_offset, now_ms)
        self._store.write(writes)
        self.epoch, self.next_offset, self.written_ms = epoch, next_offset, now_ms

    def position(self, at: TopicPartition) -> int | None:
        value = self._store.get(_OURS + position_key(at))
        return None if value is None else position_of(value)

    def close(self) -> None:
        self._store.close()


def _place(changelog_key: bytes) -> bytes | None:
    """Where a changelog record lies in the store; None for one that only the log itself needs."""
    kind = changelog_key[:1]
    if kind == ROW:
        return changelog_key[1:]
    return _OURS + changelog_key if kind == POSITION else None


def _read_mark(store: StateStore) -> tuple[str, int, int]:
    value = store.get(_MARK)
    if value is None:
        return "", 0, 0
    try:
        version, epoch, next_offset, written_ms = _MARKED.unpack(value)
    except struct.error as error:
        raise LogCorruptError(f"the mark of a local store cannot be read: {error}") from error
    if version != _VERSION:
        raise LogCorruptError(f"a local store of version {version}")
    return epoch.hex(), next_offset, written_ms


class TaskStores:
    """The stores of one worker. A closed task's store stays open: if the partition comes back, it is nearly whole.

    Called from threads, because opening lasts. A cancelled opening goes on in its thread: without the lock the next one
    would find the database in use by its own process, and after `close` it would be opened for nobody.
    """

    def __init__(self, data_dir: Path, open_store: OpenStore) -> None:
        self._open_store = open_store
        self.directory, self._lock = _claim_number(data_dir)
        self._stores: dict[int, TaskStore] = {}
        self._scratch: list[StateStore] = []
        self._one = threading.Lock()
        self._closed = False

    def open(self, partition: int) -> TaskStore:
        """The copy as it was left; an empty one for one that cannot be read. Raises LogError."""
        with self._one:
            self._check()
            found = self._stores.get(partition)
            return self._found(partition) if found is None else found

    def anew(self, partition: int) -> TaskStore:
        """Forget the copy and begin an empty one."""
        with self._one:
            self._check()
            return self._anew(partition)

    def _found(self, partition: int) -> TaskStore:
        try:
            found = self._stores[partition] = self._opened(partition)
        except LogOwnedError:
            raise
        except LogError:
            log.warning("partition %d: its local store cannot be read and is restored in full", partition)
            found = self._anew(partition)
        return found

    def _anew(self, partition: int) -> TaskStore:
        old = self._stores.pop(partition, None)
        if old is not None:
            old.close()
        shutil.rmtree(self._path(partition), ignore_errors=True)
        found = self._stores[partition] = self._opened(partition)
        return found

    def scratch(self, name: str) -> StateStore:
        """An empty store beside the copies, for rows that are no partition's copy. Closed with the others at the
        latest: whoever asked for it may have been cancelled meanwhile."""
        with self._one:
            self._check()
            path = self.directory / name
            shutil.rmtree(path, ignore_errors=True)
            found = self._open_store(path)
            self._scratch.append(found)
            return found

    def get(self, partition: int) -> TaskStore | None:
        return self._stores.get(partition)

    def close_others(self, mine: Collection[int]) -> None:
        """Give back what the copies of partitions that have gone elsewhere hold: files, and memory from the budget.

        `mine` must name those that are being opened, too. Not while a thread opens one: it may last, and the caller's
        loop has heartbeats to send.
        """
        if not self._one.acquire(blocking=False):
            return
        try:
            for partition in self._stores.keys() - set(mine):
                self._stores.pop(partition).close()
        finally:
            self._one.release()

    def close(self) -> None:
        """Idempotent."""
        with self._one:
            self._closed = True
            stores: list[TaskStore | StateStore] = [*self._stores.values(), *self._scratch]
            for store in stores:
                try:
                    store.close()
                except LogError:
                    # The others and the directory are given up all the same.
                    log.warning("a local store did not close well", exc_info=True)
            self._stores.clear()
            self._scratch.clear()
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1

    def _opened(self, partition: int) -> TaskStore:
        store = self._open_store(self._path(partition))
        try:
            return TaskStore(store)
        except BaseException:
            store.close()
            raise

    def _check(self) -> None:
        if self._closed:
            raise TaskLostError(f"{self.directory} was given up: another worker may have it by now")

    def _path(self, partition: int) -> Path:
        return self.directory / str(partition)


class NoRows:
    """The rows of a partition that is not here."""

    def get(self, key: bytes) -> bytes | None:
        return None

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [None] * len(keys)

    def scan(self, start: bytes, end: bytes, limit: int | None = None) -> Iterator[tuple[bytes, bytes]]:
        return iter(())


def _claim_number(data_dir: Path) -> tuple[Path, int]:
    for number in range(WORKERS_MAX):
        directory = data_dir / str(number)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return directory, claim(directory)
        except LogOwnedError:
            continue
    raise LogOwnedError(f"{data_dir} is in use by {WORKERS_MAX} workers")

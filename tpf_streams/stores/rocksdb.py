"""A state store in RocksDB.

A write goes to the write-ahead log at once, so it survives the death of the process; `sync` makes it survive the death
of the machine. Habits of rocksdict 0.3.29, all seen, that shape this file:

- `items()` ends silently at a corrupt block: scans use the plain iterator and ask for its status.
- An iterator's upper bound points into the bytes that its ReadOptions holds and keeps neither alive. When they are
  freed the scan ends anywhere: the generator holds them. `set_iterate_lower_bound` sets the upper bound: not used.
- `Rdict.write` holds the GIL, `flush_wal` gives it up: writes are not synced by their own option but by a flush, which
  may run in a thread.
- A living iterator keeps the directory locked after `close`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    RdictIter,
    ReadOptions,
    WriteBatch,
    WriteBufferManager,
)

from tpf_streams.errors import LogCorruptError, LogError, LogOwnedError

MIB = 1024 * 1024
DEFAULT_MEMORY_BYTES = 64 * MIB
LEAST_MEMORY_BYTES = 4 * MIB
WAL_BYTES = 64 * MIB  # bounds the time of a restart after a crash: about a second of replay


@dataclass(frozen=True, slots=True)
class RocksDbMemory:
    """Where one budget goes. Memtables are charged to the block cache, so the cache's size bounds both."""

    total_bytes: int
    write_buffer_bytes: int
    max_open_files: int

    def __str__(self) -> str:
        cache = self.total_bytes - self.write_buffer_bytes
        return (
            f"RocksDB memory {self.total_bytes / MIB:.0f} MiB: {cache / MIB:.0f} MiB blocks, "
            f"{self.write_buffer_bytes / MIB:.0f} MiB write buffers, at most {self.max_open_files} open files"
        )


def rocksdb_options(memory_bytes: int = DEFAULT_MEMORY_BYTES) -> tuple[Options, RocksDbMemory]:
    """Options bounded by one budget. Databases opened with the same Options share it."""
    if memory_bytes < LEAST_MEMORY_BYTES:
        raise ValueError(f"RocksDB needs at least {LEAST_MEMORY_BYTES} bytes, not {memory_bytes}")
    memory = RocksDbMemory(memory_bytes, write_buffer_bytes=memory_bytes // 4, max_open_files=256)
    cache = Cache(memory.total_bytes)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(_tables(cache))
    # allow_stall False: a stall would hold the event loop, since rocksdict keeps the GIL during a write.
    options.set_write_buffer_manager(
        WriteBufferManager.new_write_buffer_manager_with_cache(memory.write_buffer_bytes, False, cache)
    )
    options.set_write_buffer_size(memory.write_buffer_bytes // 2)
    options.set_max_write_buffer_number(3)
    options.set_max_open_files(memory.max_open_files)
    options.set_max_total_wal_size(WAL_BYTES)
    options.set_max_background_jobs(2)
    options.set_compression_type(DBCompressionType.lz4())
    # The default recovery stops at the first damaged record and silently drops acknowledged ones behind it (seen).
    # This mode forgives an incomplete last record, which a crash leaves, and refuses damage before it.
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    options.set_paranoid_checks(True)
    options.set_keep_log_file_num(3)
    options.set_max_log_file_size(MIB)
    options.set_stats_dump_period_sec(0)
    return options, memory


def _tables(cache: Cache) -> BlockBasedOptions:
    tables = BlockBasedOptions()
    tables.set_block_cache(cache)
    # Outside the cache, indexes and filters grow with the data and no setting bounds them.
    tables.set_cache_index_and_filter_blocks(True)
    tables.set_pin_l0_filter_and_index_blocks_in_cache(True)
    tables.set_bloom_filter(10, False)
    tables.set_format_version(5)
    return tables


def storage_error(error: Exception, path: str | Path) -> LogError:
    """What rocksdict's one exception type means: the text is all it gives."""
    text = str(error)
    if "lock hold by current process" in text or "While lock file" in text:
        return LogOwnedError(f"{path} is open in another process, or an iterator over it is still alive: {text}")
    if "Corruption" in text or "No such file" in text:
        return LogCorruptError(f"{path} cannot be read: {text}; put it back from a copy, or start with another one")
    return LogError(f"{path}: {text}")


def _check_current(directory: Path) -> None:
    """RocksDB takes a directory without CURRENT for a new one and deletes the files of the old one (seen): one small
    file lost, and with the next opening everything. A first creation that was killed has neither tables nor logs."""
    if (directory / "CURRENT").exists():
        return
    if any(file.suffix in (".sst", ".log") for file in directory.iterdir()):
        raise LogCorruptError(
            f"{directory} has lost its file CURRENT; put it back from a copy, or start with another one"
        )


class RocksDbStateStore:
    """StateStore over one RocksDB directory; also what the local log needs of a journal."""

    def __init__(self, path: str | Path, memory: int | Options = DEFAULT_MEMORY_BYTES) -> None:
        self._path = str(path)
        options = memory if isinstance(memory, Options) else rocksdb_options(memory)[0]
        Path(path).mkdir(parents=True, exist_ok=True)
        _check_current(Path(path))
        try:
            self._db = Rdict(self._path, options)
        except Exception as error:
            raise storage_error(error, path) from error

    def get(self, key: bytes) -> bytes | None:
        try:
            return self._db.get(key)
        except Exception as error:
            raise storage_error(error, self._path) from error

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        try:
            return self._db.get(list(keys)) or []
        except Exception as error:
            raise storage_error(error, self._path) from error

    def scan(self, start: bytes, end: bytes, limit: int | None = None) -> Iterator[tuple[bytes, bytes]]:
        if start >= end:
            return iter(())
        # Made here and not at the first next(): RocksDB's iterator sees the store as of its creation.
        options = ReadOptions()
        options.set_iterate_upper_bound(end)
        # A scan reads its blocks once. Kept, those of one published file would fill the whole cache (seen: +30 MiB).
        options.fill_cache(False)  # type: ignore[call-arg]  # the stub forgets the argument
        try:
            iterator = self._db.iter(options)
            iterator.seek(start)
        except Exception as error:
            raise storage_error(error, self._path) from error
        return self._pairs(iterator, options, limit)

    def write(self, rows: Mapping[bytes, bytes | None]) -> None:
        batch = WriteBatch(raw_mode=True)
        for key, value in rows.items():
            if value is None:
                batch.delete(key)
            else:
                batch[key] = value
        self._write(batch)

    def delete_range(self, start: bytes, end: bytes) -> None:
        """Forget start <= key < end. Each call costs later reads a little until it is flushed: use it for thousands."""
        batch = WriteBatch(raw_mode=True)
        batch.delete_range(start, end)
        self._write(batch)

    def last(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        """The greatest key of start <= key < end, and its value."""
        try:
            iterator = self._db.iter(ReadOptions())
            iterator.seek_for_prev(end)
            if iterator.valid() and iterator.key() == end:
                iterator.prev()
            found = (iterator.key(), iterator.value()) if iterator.valid() and iterator.key() >= start else None
            iterator.status()
        except Exception as error:
            raise storage_error(error, self._path) from error
        return found

    def sync(self) -> None:
        """Return when all earlier writes are on disk. May be called from another thread than the writes."""
        try:
            self._db.flush_wal(True)
        except Exception as error:
            raise storage_error(error, self._path) from error

    def sequence(self) -> int:
        """A number that grows with every write and never goes back, unless writes were lost."""
        return self._db.latest_sequence_number()

    def close(self) -> None:
        """Flush and close. After a failed write RocksDB may refuse to flush; the directory is given up all the same."""
        try:
            self._db.close()
        except Exception as error:
            raise storage_error(error, self._path) from error

    def _write(self, batch: WriteBatch) -> None:
        try:
            self._db.write(batch)
        except Exception as error:
            raise storage_error(error, self._path) from error

    def _pairs(self, iterator: RdictIter, _bound: ReadOptions, limit: int | None) -> Iterator[tuple[bytes, bytes]]:
        valid, key, value, step = iterator.valid, iterator.key, iterator.value, iterator.next
        left = -1 if limit is None else limit
        try:
            while left and valid():
                yield key(), value()
                left -= 1
                step()
            # Without this a damaged block looks like the end of the range.
            iterator.status()
        except Exception as error:
            raise storage_error(error, self._path) from error

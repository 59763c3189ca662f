"""A journal store on a disk that forgets: what was not synced is gone after a crash of the machine.

SIGKILL cannot show durability, since the page cache survives it. This can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tpf_streams.stores.memory import MemoryStateStore

Write = tuple[dict[bytes, bytes | None], tuple[bytes, bytes] | None]


class Disk:
    """What survives, and the writes since the last sync, in order."""

    def __init__(self) -> None:
        self.durable: dict[bytes, bytes] = {}
        self.unsynced: list[Write] = []
        self.syncs = 0
        self.fail_write: Exception | None = None
        self.fail_sync: Exception | None = None

    def open(self, path: Path, memory_bytes: int) -> LossyStore:
        """An OpenStore; opening is what follows a crash."""
        self.unsynced.clear()
        return LossyStore(self)

    def sync(self) -> None:
        if self.fail_sync is not None:
            raise self.fail_sync
        self.syncs += 1
        writes = self.unsynced[:]
        for rows, gone in writes:
            for key, value in rows.items():
                if value is None:
                    self.durable.pop(key, None)
                else:
                    self.durable[key] = value
            if gone is not None:
                for key in [key for key in self.durable if gone[0] <= key < gone[1]]:
                    del self.durable[key]
        del self.unsynced[: len(writes)]


class LossyStore:
    """JournalStore over a Disk; the page cache is a memory store."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._rows = MemoryStateStore(disk.durable)
        self._sequence = len(disk.durable)

    def get(self, key: bytes) -> bytes | None:
        return self._rows.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._rows.get_many(keys)

    def scan(self, start: bytes, end: bytes, limit: int | None = None) -> Iterator[tuple[bytes, bytes]]:
        return self._rows.scan(start, end, limit)

    def write(self, rows: Mapping[bytes, bytes | None]) -> None:
        if self._disk.fail_write is not None:
            raise self._disk.fail_write
        self._disk.unsynced.append((dict(rows), None))
        self._rows.write(rows)
        self._sequence += 1

    def delete_range(self, start: bytes, end: bytes) -> None:
        self._disk.unsynced.append(({}, (start, end)))
        self._rows.write({key: None for key, _ in self._rows.scan(start, end)})

    def last(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        pairs = list(self._rows.scan(start, end))
        return pairs[-1] if pairs else None

    def sync(self) -> None:
        self._disk.sync()

    def sequence(self) -> int:
        return 1 << 40  # the disk model has no sequence; damage is tested on the real database

    def close(self) -> None:
        self._rows.close()

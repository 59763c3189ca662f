"""What the local log asks of its database. `stores.rocksdb.RocksDbStateStore` is one.

The log is handed the store and knows no database: adapters do not import each other, and a test may hand it a store
that forgets what was not synced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from tpf_streams.logs.local.keys import rows_prefix
from tpf_streams.ports import StateStore


class JournalStore(StateStore, Protocol):
    """A store whose writes are kept in order: what survives a crash is a prefix of them, and all before a `sync`."""

    def sync(self) -> None:
        """Return when every earlier write is durable. Called from another thread."""
        ...

    def delete_range(self, start: bytes, end: bytes) -> None: ...

    def last(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        """The greatest key of start <= key < end, and its value."""
        ...

    def sequence(self) -> int:
        """A number that grows with every write, and is smaller only if writes were lost."""
        ...


OpenStore: TypeAlias = Callable[[Path, int], JournalStore]
"""Opens the store at a path within a budget of memory in bytes."""


class TaskRows:
    """ReadableStore: the rows of one task."""

    __slots__ = ("_prefix", "_store")

    def __init__(self, store: JournalStore, task: int) -> None:
        self._store = store
        self._prefix = rows_prefix(task)

    def get(self, key: bytes) -> bytes | None:
        return self._store.get(self._prefix + key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        prefix = self._prefix
        return self._store.get_many([prefix + key for key in keys])

    def scan(self, start: bytes, end: bytes, limit: int | None = None) -> Iterator[tuple[bytes, bytes]]:
        prefix = self._prefix
        cut = len(prefix)
        pairs = self._store.scan(prefix + start, prefix + end, limit)
        return ((key[cut:], value) for key, value in pairs)

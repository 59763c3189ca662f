"""The committed rows of one partition of a memory log.

`stores.memory` has a store for millions of keys; adapters do not import each other, and here a short one will do.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock


class MemoryRows:
    """ReadableStore: a dict, and its keys kept in order."""

    __slots__ = ("_keys", "_lock", "_rows")

    def __init__(self) -> None:
        self._rows: dict[bytes, bytes] = {}
        self._keys: list[bytes] = []
        # A step reads its list in the pool while turns go on: between its two bisections nothing may move.
        self._lock = Lock()

    def get(self, key: bytes) -> bytes | None:
        return self._rows.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return list(map(self._rows.get, keys))

    def scan(self, start: bytes, end: bytes, limit: int | None = None) -> Iterator[tuple[bytes, bytes]]:
        """The pairs are copied at the call: a scan must not see turns committed while it is consumed."""
        with self._lock:
            return iter(self._pairs(start, end, limit))

    def _pairs(self, start: bytes, end: bytes, limit: int | None) -> list[tuple[bytes, bytes]]:
        keys, rows = self._keys, self._rows
        low, high = bisect_left(keys, start), bisect_left(keys, end)
        if limit is not None:
            high = min(high, low + limit)
        return [(key, rows[key]) for key in keys[low:high]]

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        keys, rows = self._keys, self._rows
        with self._lock:
            for key, value in changes.items():
                if value is not None:
                    if key not in rows:
                        insort(keys, key)
                    rows[key] = value
                elif rows.pop(key, None) is not None:
                    del keys[bisect_left(keys, key)]

    def copy(self) -> MemoryRows:
        twin = MemoryRows()
        twin._rows, twin._keys = dict(self._rows), list(self._keys)
        return twin

    def __len__(self) -> int:
        return len(self._rows)

"""A state store in memory: an ordered map over a dict and a list of keys that is sorted only when a scan asks."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence

FEW = 32
"""So many keys are put in or taken out one by one: a pass over a million keys for a turn that moved two costs 10 ms."""


class MemoryStateStore:
    """StateStore for tests and simulation; the memory log has rows of its own (logs.memory.rows)."""

    def __init__(self, rows: Mapping[bytes, bytes] | None = None) -> None:
        self._rows: dict[bytes, bytes] = dict(rows or {})
        self._sorted: list[bytes] = []
        self._unsorted: list[bytes] = list(self._rows)
        # Deleted keys whose entry is still in _sorted or _unsorted. Without it a key deleted and put again would be
        # listed twice and a scan would return it twice.
        self._ghosts: set[bytes] = set()

    def get(self, key: bytes) -> bytes | None:
        return self._rows.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return list(map(self._rows.get, keys))

    def scan(self, start: bytes, end: bytes, limit: int | None = None) -> Iterator[tuple[bytes, bytes]]:
        """The pairs are copied at the call: a scan must not see writes made while it is consumed."""
        keys = self._ordered()
        low, high = bisect_left(keys, start), bisect_left(keys, end)
        if limit is not None:
            high = min(high, low + max(limit, 0))
        rows = self._rows
        return iter([(key, rows[key]) for key in keys[low:high]])

    def write(self, rows: Mapping[bytes, bytes | None]) -> None:
        mine, ghosts = self._rows, self._ghosts
        for key, value in rows.items():
            if value is None:
                if mine.pop(key, None) is not None:
                    ghosts.add(key)
            else:
                if key not in mine:
                    self._enter(key)
                mine[key] = value

    def copy(self) -> MemoryStateStore:
        """An independent store with the same rows."""
        return MemoryStateStore(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def close(self) -> None:
        """Nothing to give back."""

    def _enter(self, key: bytes) -> None:
        if key in self._ghosts:
            self._ghosts.discard(key)
        else:
            self._unsorted.append(key)

    def _ordered(self) -> list[bytes]:
        if self._ghosts:
            self._unlist(self._ghosts)
            self._ghosts = set()
        if len(self._unsorted) <= FEW:
            for key in self._unsorted:
                insort(self._sorted, key)
        else:
            # Timsort merges the sorted run with the tail in near linear time, far below insort for many new keys.
            self._sorted.extend(self._unsorted)
            self._sorted.sort()
        self._unsorted = []
        return self._sorted

    def _unlist(self, ghosts: set[bytes]) -> None:
        fresh = ghosts.intersection(self._unsorted)
        self._unsorted = [key for key in self._unsorted if key not in fresh]
        old = ghosts - fresh
        if len(old) <= FEW:
            for key in old:
                del self._sorted[bisect_left(self._sorted, key)]
        else:
            self._sorted = [key for key in self._sorted if key not in old]

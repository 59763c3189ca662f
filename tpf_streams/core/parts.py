"""A list as rows: one an item, in order, read a bounded piece at a time (contract 0.21)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol

from tpf_streams.core.execution import PartRecord
from tpf_streams.core.rows import decode
from tpf_streams.core.step import Json

PAGE = 100
"""Rows read at once: at the most some 25 MiB, of a list of any length."""
ROWS_MAX = 10_000
"""Rows of a list that comes whole. Of more items, which only somebody without limits can have, a row takes several: a
turn must not write a million rows."""


class Pages(Protocol):
    """The part of a store that reading a list needs."""

    def scan(self, start: bytes, end: bytes, limit: int | None = None) -> Iterator[tuple[bytes, bytes]]: ...


class Parts:
    """The items of a list that is complete. Each iteration begins anew and holds no iterator of the store open: one
    that lived as long as a slow stream would keep everything that was deleted since."""

    def __init__(self, store: Pages, bounds: tuple[bytes, bytes]) -> None:
        self._store = store
        self._bounds = bounds

    def __iter__(self) -> Iterator[Json]:
        start, end = self._bounds
        while True:
            found = list(self._store.scan(start, end, PAGE))
            for _, value in found:
                yield from decode(PartRecord, value).payloads
            if len(found) < PAGE:
                return
            start = found[-1][0] + b"\0"

    def since(self, position: int) -> Iterator[Json]:
        """The items from number `position` on."""
        return islice(self, position, None)


def in_rows(items: Sequence[Json]) -> Iterator[PartRecord]:
    """A whole list as its rows."""
    size = 1 + len(items) // ROWS_MAX
    return (PartRecord(list(items[place : place + size])) for place in range(0, len(items), size))

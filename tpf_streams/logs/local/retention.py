"""How much is kept of a topic that nobody consumes to its end: the youngest, by age and by bytes (lifecycle events).

The records of a partition lie in stretches. A stretch that is full is noted in the journal with its end, its last
timestamp and its bytes, in the batch of the next one; so a start need read no more than the last, open one. Whole
stretches go, the oldest first, one range delete each.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from tpf_streams.logs.local.keys import SEGMENTS, U64, after, decode_record
from tpf_streams.logs.local.partition import LocalPartition
from tpf_streams.logs.local.store import JournalStore

_NOTE = struct.Struct(">QQ")
STRETCHES = 64
"""Of the bytes that are kept: what is too old or too much lies about by one part in so many, at most."""
RECORDS_MAX = 65_536
"""Of one stretch, so that a start never reads more."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept of each partition: `age_ms` at least, but no more than `bytes` of keys and values."""

    age_ms: int = 7 * 24 * 3600 * 1000
    bytes: int = 256 * 1024 * 1024


class Stretch(NamedTuple):
    """A full one: the offset behind it, its last timestamp, its bytes."""

    end: int
    last_ms: int
    size: int


class Stretches:
    """What is kept of one partition."""

    def __init__(self, store: JournalStore, part: LocalPartition, retention: Retention) -> None:
        self._store = store
        self._part = part
        self._retention = retention
        self._prefix = SEGMENTS + part.address
        self._full: deque[Stretch] = deque()
        self._kept = 0
        self._load()

    def _load(self) -> None:
        for key, value in self._store.scan(self._prefix, after(self._prefix)):
            self._add(Stretch(U64.unpack(key[-8:])[0], *_NOTE.unpack(value)))
        self._begin()
        start, end = self._part.key(self._full[-1].end if self._full else 0), self._part.key(2**64 - 1)
        for key, data in self._store.scan(start, end):
            record = decode_record(self._part.name, U64.unpack(key[-8:])[0], data)
            self._count(len(key) + len(data), record.timestamp_ms)

    def _begin(self) -> None:
        self._size = self._records = self._first_ms = self._last_ms = 0

    def _count(self, size: int, now_ms: int) -> None:
        self._first_ms = self._first_ms or now_ms
        self._last_ms = now_ms
        self._size += size
        self._records += 1

    def _add(self, stretch: Stretch) -> None:
        self._full.append(stretch)
        self._kept += stretch.size

    def append(self, size: int, offset: int, now_ms: int, batch: dict[bytes, bytes | None]) -> None:
        """A record of `size` bytes at `offset` is in `batch`; where the stretch before it is full, that is noted."""
        full = self._size * STRETCHES >= self._retention.bytes or self._records >= RECORDS_MAX
        old = self._records and (now_ms - self._first_ms) * STRETCHES >= self._retention.age_ms
        if full or old:
            stretch = Stretch(offset, self._last_ms, self._size)
            batch[self._prefix + U64.pack(stretch.end)] = _NOTE.pack(stretch.last_ms, stretch.size)
            self._add(stretch)
            self._begin()
        self._count(size, now_ms)

    def trim(self, now_ms: int) -> None:
        """Delete what is not kept any more. Raises LogError. The last record, which carries the partition's end over a
        restart, is never in a full stretch."""
        while self._full and self._over(now_ms):
            stretch = self._full.popleft()
            self._kept -= stretch.size
            # The note goes first: what a crash leaves of the records goes with the next stretch.
            self._store.write({self._prefix + U64.pack(stretch.end): None})
            self._store.delete_range(self._part.key(self._part.start), self._part.key(stretch.end))
            self._part.start = stretch.end

    def _over(self, now_ms: int) -> bool:
        over_bytes = self._kept + self._size > self._retention.bytes
        return over_bytes or self._full[0].last_ms < now_ms - self._retention.age_ms

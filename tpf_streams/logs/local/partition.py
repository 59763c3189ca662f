"""One partition of one topic in the journal: its offsets, its consumers, and its newest records in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tpf_streams.logs.local.keys import RECORDS, TOPIC, U64, decode_record
from tpf_streams.logs.local.store import JournalStore
from tpf_streams.ports import InputRecord, TopicPartition

RECENT_RECORDS_MAX = 8_192
RECENT_BYTES_MAX = 4 * 1024 * 1024
"""Per partition with a consumer. A consumer further behind reads from the store, at twice the cost."""
RECORD_OVERHEAD_BYTES = 250
"""What a record costs in memory beside its content; without it a million empty records would count as nothing."""


class LocalPartition:
    """start: the first offset still kept. end: behind the last visible record. next: the next offset to give out.

    `next` runs ahead of `end` while a write waits for its sync: nobody may read what a crash could still take back.
    """

    __slots__ = (
        "_base",
        "_bytes",
        "_recent",
        "_store",
        "address",
        "end",
        "floors",
        "name",
        "next",
        "prefix",
        "start",
        "waiters",
    )

    def __init__(self, store: JournalStore, topic: str, number: int, partition: int) -> None:
        self._store = store
        self.name = TopicPartition(topic, partition)
        self.address = TOPIC.pack(number, partition)
        self.prefix = RECORDS + self.address
        self.start = self.end = self.next = 0
        self.waiters: set[asyncio.Event] = set()
        # Position of each consumer ever seen; records below the lowest may go.
        self.floors: dict[str, int] = {}
        self._recent: list[InputRecord] = []
        self._base = 0  # offset of _recent[0]; _base + len(_recent) == end
        self._bytes = 0

    def key(self, offset: int) -> bytes:
        return self.prefix + U64.pack(offset)

    def load(self) -> int:
        """Find start and end in the store; the timestamp of the last record."""
        low, high = self.key(0), self.key(2**64 - 1)
        last = self._store.last(low, high)
        if last is None:
            return 0
        first = next(self._store.scan(low, high, 1))
        self.start = U64.unpack(first[0][-8:])[0]
        newest = decode_record(self.name, U64.unpack(last[0][-8:])[0], last[1])
        self.end = self.next = self._base = newest.offset + 1
        return newest.timestamp_ms

    def fetch(self, offset: int, limit: int) -> tuple[list[InputRecord], int]:
        """Visible records from `offset`, and the offset to go on from."""
        offset = max(offset, self.start)
        if offset >= self._base:
            index = offset - self._base
            found = self._recent[index : index + limit]
        else:
            # Never beyond _base: `end` may move while records are taken from memory, and a gap would be lost input.
            pairs = self._store.scan(self.key(offset), self.key(min(self._base, offset + limit)))
            found = [decode_record(self.name, U64.unpack(key[-8:])[0], data) for key, data in pairs]
        return found, (found[-1].offset + 1 if found else offset)

    def publish(self, records: Sequence[InputRecord], end: int) -> None:
        """Make everything below `end` visible. Without a consumer nothing is kept in memory."""
        self.end = end
        if not self.floors:
            self._base = end
            return
        self._recent.extend(records)
        for record in records:
            self._bytes += len(record.value or b"") + RECORD_OVERHEAD_BYTES
        if len(self._recent) > RECENT_RECORDS_MAX or self._bytes > RECENT_BYTES_MAX:
            self._forget(len(self._recent) // 2)

    def pass_floor(self, consumer: str, position: int) -> None:
        """A consumer's stored position."""
        self.floors[consumer] = position
        if position - self._base >= 1024:
            self._forget(min(self.floor(), self.end) - self._base)

    def floor(self) -> int:
        """Records below this offset were consumed by everybody who ever consumed."""
        return min(self.floors.values(), default=0)

    def _forget(self, count: int) -> None:
        if count > 0:
            del self._recent[:count]
            self._base += count
            self._bytes = sum(len(record.value or b"") + RECORD_OVERHEAD_BYTES for record in self._recent)

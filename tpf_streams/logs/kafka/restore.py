"""Bringing a local copy up to the end of the changelog, and finding out whether it can be brought up at all."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition

from tpf_streams.logs.kafka.changelog import OPENING_KEY, Header
from tpf_streams.logs.kafka.stores import TaskStore

log = logging.getLogger(__name__)

POLL_MS = 200
RECORDS_MAX = 5_000
HEADER_S = 30.0
TOLD_AFTER = 50_000
"""Records of a restore that is long enough to be told of."""


class Restorer:
    """Reads changelogs of a worker's partitions, one at a time: a consumer costs 50 to 130 ms to open."""

    def __init__(self, consumer: AIOKafkaConsumer, topic: str, now_ms: Callable[[], int]) -> None:
        self._consumer = consumer
        self._topic = topic
        self._now_ms = now_ms
        self._alone = asyncio.Lock()
        self.restored = 0
        """Records applied so far, of all partitions."""
        self.remaining: dict[int, int] = {}
        """Offsets still to go, of the partitions that are being restored."""

    async def header(self, partition: int) -> Header | None:
        """What a changelog is: its first record but for openings; None where there is none. Raises LogCorruptError."""
        at = KafkaPartition(self._topic, partition)
        async with self._alone, asyncio.timeout(HEADER_S):
            begin = (await self._consumer.beginning_offsets([at]))[at]
            end = (await self._consumer.end_offsets([at]))[at]
            with self._reading(at, begin):
                while (await self._consumer.position(at)) < end:
                    for record in (await self._consumer.getmany(at, timeout_ms=POLL_MS, max_records=10)).get(at, []):
                        if record.key != OPENING_KEY:
                            return Header.of(record.key, record.value, f"{self._topic}/{partition}")
        return None

    async def range(self, partition: int) -> tuple[int, int]:
        """The offsets between which the changelog can be read."""
        at = KafkaPartition(self._topic, partition)
        # Not alone: who waits for a marker must not wait for the long restore of another partition.
        begin = (await self._consumer.beginning_offsets([at]))[at]
        return begin, (await self._consumer.end_offsets([at]))[at]

    async def restore(self, partition: int, store: TaskStore, epoch: str, end: int) -> int:
        """Apply the records from the store's mark to `end`; -> how many. The last record of a key decides.

        Until the client's position has passed the end: it walks over markers and aborted records, which a count of
        records would wait for in vain. Until then the copy is as old as it was: one that is left half-way, again and
        again, must not look young, or deletions that the broker has forgotten meanwhile would be missed.
        """
        at = KafkaPartition(self._topic, partition)
        count, told = 0, TOLD_AFTER
        written_ms = store.written_ms or self._now_ms()
        with self._underway(partition, max(0, end - store.next_offset)):
            async with self._alone:
                with self._reading(at, store.next_offset):
                    while (position := await self._consumer.position(at)) < end:
                        found = (await self._consumer.getmany(at, timeout_ms=POLL_MS, max_records=RECORDS_MAX)).get(
                            at, []
                        )
                        if found:
                            entries = [(record.key, record.value, ()) for record in found]
                            store.apply(entries, epoch, found[-1].offset + 1, written_ms)
                        count += len(found)
                        self.restored += len(found)
                        self.remaining[partition] = end - position
                        if count >= told:
                            log.info("partition %d: %d records restored, at %d of %d", partition, count, position, end)
                            told += TOLD_AFTER
        store.apply((), epoch, position, self._now_ms())
        return count

    @contextlib.contextmanager
    def _underway(self, partition: int, remaining: int) -> Iterator[None]:
        self.remaining[partition] = remaining
        try:
            yield
        finally:
            del self.remaining[partition]

    @contextlib.contextmanager
    def _reading(self, at: KafkaPartition, offset: int) -> Iterator[None]:
        # Nothing is awaited in between: with an await the client began at the end of the log in 34 of 40 tries (seen).
        self._consumer.assign([at])
        self._consumer.seek(at, offset)
        try:
            yield
        finally:
            # Else it would go on fetching what the task itself writes. Not `unsubscribe`: a client without any
            # assignment lets its fetcher die (seen), and the next restore waits for ever.
            self._consumer.pause(at)

"""A group's own reading of whole topics: the completion router, a provider.

At least once: records are appended first, then the position. A rebalance in between refuses the position, and whoever
has the partition now reads again; that is no failure, and closing for it would rebalance the group once more.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, ConsumerRecord
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

from tpf_streams.errors import LogError
from tpf_streams.logs.kafka.settings import FETCH_WAIT_MS, KafkaSettings
from tpf_streams.logs.kafka.stopping import stopped
from tpf_streams.ports import InputRecord, Record, TopicPartition

log = logging.getLogger(__name__)

Append = Callable[[Sequence[Record]], Awaitable[None]]


def input_record(record: ConsumerRecord) -> InputRecord:
    """A record as read; the adapter's only place that knows the client's shape of it."""
    return InputRecord(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        tuple(record.headers),
    )


class KafkaReader(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is untyped
    """ports.RecordReader. Positions are the client's own, which also walk over markers and aborted records."""

    def __init__(self, settings: KafkaSettings, group: str, topics: Sequence[str], append: Append) -> None:
        self._topics = list(topics)
        self._append = append
        self._positions: dict[TopicPartition, int] = {}
        self._waiting: list[InputRecord] = []
        self._consumer = AIOKafkaConsumer(
            **settings.connection,
            **settings.membership,
            group_id=group,
            isolation_level=settings.readers_isolation,
            auto_offset_reset="earliest",  # answers given before the first start, too
            fetch_max_wait_ms=FETCH_WAIT_MS,
        )

    async def open(self) -> None:
        self._consumer.subscribe(self._topics, listener=self)
        await self._consumer.start()

    async def on_partitions_revoked(self, revoked: set[KafkaPartition]) -> None:
        """What was read and not committed is read again by the next owner."""
        self._waiting.clear()
        self._positions.clear()

    async def on_partitions_assigned(self, assigned: set[KafkaPartition]) -> None: ...

    async def poll(self, max_records: int) -> list[InputRecord]:
        found = await self._take(max_records, 0)
        await self._note_positions(found)
        return found

    async def wait(self, timeout_s: float) -> None:
        if not self._waiting:
            self._waiting = await self._fetch(1_000, timeout_s)

    async def commit(
        self, records: Sequence[Record] = (), positions: Mapping[TopicPartition, int] | None = None
    ) -> None:
        if records:
            await self._append(records)
        moved = self._positions if positions is None else positions
        mine = {KafkaPartition(at.topic, at.partition): offset for at, offset in moved.items() if at in self._positions}
        if not mine:
            return
        try:
            await self._consumer.commit(mine)
        except (CommitFailedError, IllegalStateError):
            log.info("the group was rebalanced before a position was stored; its records are read again")
        except KafkaError as error:
            raise LogError(f"positions were not stored: {type(error).__name__}: {error}") from error

    def positions(self) -> dict[TopicPartition, int]:
        return dict(self._positions)

    async def close(self) -> None:
        await stopped(self._consumer)

    async def _take(self, max_records: int, timeout_s: float) -> list[InputRecord]:
        if not self._waiting:
            self._waiting = await self._fetch(max_records, timeout_s)
        found, self._waiting = self._waiting[:max_records], self._waiting[max_records:]
        return found

    async def _fetch(self, max_records: int, timeout_s: float) -> list[InputRecord]:
        try:
            batches = await self._consumer.getmany(timeout_ms=round(timeout_s * 1000), max_records=max_records)
        except KafkaError as error:
            raise LogError(f"{', '.join(self._topics)}: {type(error).__name__}: {error}") from error
        return [input_record(record) for batch in batches.values() for record in batch]

    async def _note_positions(self, found: Sequence[InputRecord]) -> None:
        """With everything handed on, the client's positions hold; else those behind what was."""
        if self._waiting:
            for record in found:
                self._positions[TopicPartition(record.topic, record.partition)] = record.offset + 1
            return
        for at in self._consumer.assignment():
            with contextlib.suppress(IllegalStateError):
                self._positions[TopicPartition(at.topic, at.partition)] = await self._consumer.position(at)

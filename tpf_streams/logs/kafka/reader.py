"""A group's own reading of whole topics: the completion router, a provider.

At least once: records are appended first, then the position. A rebalance in between refuses the position, and whoever
has the partition now reads again; that is no failure, and closing for it would rebalance the group once more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, zip_longest

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, ConsumerRecord
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.errors import CommitFailedError, ConsumerStoppedError, IllegalStateError, KafkaError

from tpf_streams.errors import LogError, TaskLostError
from tpf_streams.logs.kafka.settings import FETCH_WAIT_MS, KafkaSettings
from tpf_streams.logs.kafka.stopping import CLOSE_S, LEAVE_S, leave
from tpf_streams.ports import InputRecord, Record, TopicPartition

log = logging.getLogger(__name__)

STORE_EVERY_S = 0.25
"""Positions are stored this often under load, and whenever there is nothing to read: with every batch they took half of
its time (seen: 11 of 22 ms). A crash in between reads so much again."""

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

    def __init__(
        self,
        settings: KafkaSettings,
        group: str,
        topics: Sequence[str],
        append: Append,
        released: Callable[[KafkaReader], None],
    ) -> None:
        self._topics = list(topics)
        self._append = append
        self._released = released
        self._positions: dict[TopicPartition, int] = {}
        self._done: dict[TopicPartition, int] = {}
        self._stored_s = time.monotonic()
        self._waiting: deque[InputRecord] = deque()
        self._rebalances = 0
        self._consumer = AIOKafkaConsumer(
            **settings.connection,
            **settings.membership,
            group_id=group,
            isolation_level=settings.readers_isolation,
            auto_offset_reset="earliest",  # answers given before the first start, too
            fetch_max_wait_ms=FETCH_WAIT_MS,
        )

    async def open(self) -> None:
        """Returns behind the first assignment, with its positions known."""
        self._consumer.subscribe(self._topics, listener=self)
        await self._consumer.start()
        await self._note_positions(())

    async def on_partitions_revoked(self, revoked: set[KafkaPartition]) -> None:
        """What was read and not committed is read again by the next owner."""
        self._rebalances += 1
        try:
            await self._store()
        except LogError:
            log.warning("positions were not stored when they were revoked", exc_info=True)
        self._waiting.clear()
        self._positions.clear()
        self._done.clear()

    async def on_partitions_assigned(self, assigned: set[KafkaPartition]) -> None: ...

    async def poll(self, max_records: int) -> list[InputRecord]:
        if not self._waiting:
            await self._fetch(0)
        found = [self._waiting.popleft() for _ in range(min(max_records, len(self._waiting)))]
        await self._note_positions(found)
        return found

    async def wait(self, timeout_s: float) -> None:
        await self._store()
        if not self._waiting:
            await self._fetch(timeout_s)

    async def commit(
        self, records: Sequence[Record] = (), positions: Mapping[TopicPartition, int] | None = None
    ) -> None:
        if records:
            await self._append(records)
        self._done.update(self._positions if positions is None else positions)
        if time.monotonic() - self._stored_s >= STORE_EVERY_S:
            await self._store()

    async def _store(self) -> None:
        """Store what is done. Raises LogError, but not for a group that was rebalanced meanwhile."""
        done = {at: offset for at, offset in self._done.items() if at in self._positions}
        self._stored_s = time.monotonic()
        if not done:
            return
        try:
            await self._consumer.commit({KafkaPartition(at.topic, at.partition): to for at, to in done.items()})
        except (CommitFailedError, IllegalStateError):
            log.info("the group was rebalanced before a position was stored; its records are read again")
        except KafkaError as error:
            raise LogError(f"positions were not stored: {type(error).__name__}: {error}") from error
        for at, offset in done.items():
            if self._done.get(at) == offset:
                del self._done[at]

    def positions(self) -> dict[TopicPartition, int]:
        return dict(self._positions)

    async def close(self) -> None:
        """Idempotent; never raises. Where no broker has answered once, none is waited for a second time."""
        leave_s = CLOSE_S
        with contextlib.suppress(LogError, TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self._store()
            leave_s = LEAVE_S
        await leave(self._consumer, leave_s)
        # Else whoever opens a reader again and again, for as long as its broker is gone, would have all of them.
        self._released(self)

    async def _fetch(self, timeout_s: float) -> None:
        """Everything that the client has: with a limit it would empty one partition before it looks at the next."""
        try:
            found = await self._consumer.getmany(timeout_ms=round(timeout_s * 1000))
        except ConsumerStoppedError as error:
            raise TaskLostError(f"the reader of {', '.join(self._topics)} is closed") from error
        except KafkaError as error:
            raise LogError(f"{', '.join(self._topics)}: {type(error).__name__}: {error}") from error
        self._waiting.extend(map(input_record, _in_turn(found.values())))

    async def _note_positions(self, found: Sequence[InputRecord]) -> None:
        """With everything handed on, the client's positions hold; else those behind what was.

        A rebalance may come while a position is waited for. What was noted before it must not come back: with one
        partition of another member among them, no commit of this reader would be taken any more.
        """
        rebalances = self._rebalances
        if self._waiting:
            for record in found:
                self._positions[TopicPartition(record.topic, record.partition)] = record.offset + 1
            return
        moved: dict[TopicPartition, int] = {}
        for at in self._consumer.assignment():
            with contextlib.suppress(IllegalStateError):
                moved[TopicPartition(at.topic, at.partition)] = await self._consumer.position(at)
        if self._rebalances == rebalances:
            self._positions.update(moved)


def _in_turn(batches: Collection[Sequence[ConsumerRecord]]) -> Iterator[ConsumerRecord]:
    """One record of each partition after another, so that a busy one does not keep the others waiting."""
    return (record for record in chain.from_iterable(zip_longest(*batches)) if record is not None)

"""One opened partition: a transactional producer, the rows, and the inputs from the committed position on."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.errors import KafkaError

from tpf_streams.errors import LogError, TaskLostError
from tpf_streams.logs.kafka.batches import (
    BATCH_BYTES,
    Entry,
    Sent,
    UnderWay,
    abandon,
    by_partition,
    delivered,
    read,
    send,
)
from tpf_streams.logs.kafka.changelog import entries_of
from tpf_streams.logs.kafka.membership import InputQueue, Membership
from tpf_streams.logs.kafka.settings import KafkaSettings
from tpf_streams.logs.kafka.stopping import stop
from tpf_streams.logs.kafka.stores import TaskStore
from tpf_streams.ports import InputRecord, ReadableStore, Record, TopicPartition, Turn

COMMIT_S = 60.0
"""A commit that lasts longer is given up: its outcome is unknown then, as that of any broken commit."""
ANSWER_S = 2.5
"""A cluster of which nobody says a word for this long will not answer a commit that somebody waits for, either."""

CLIENT_FAILURES = (KafkaError, LogError, AssertionError, OSError, TimeoutError)
"""What a dead producer may answer with; AssertionError is its word for "fenced" from the second call on."""


class TaskProducer:
    """The transactional producer of one incarnation of one partition. Its opening fences the predecessor's."""

    def __init__(self, settings: KafkaSettings, partition: int, limits: Mapping[str, int]) -> None:
        self._limits = limits
        self._time_ms = 0
        self._producer = AIOKafkaProducer(
            **settings.connection,
            transactional_id=f"{settings.application_id}-{partition}",
            transaction_timeout_ms=settings.transaction_timeout_ms,
            linger_ms=0,
            max_batch_size=BATCH_BYTES,
        )

    async def open(self) -> None:
        """InitProducerId: whatever the predecessor had open is settled behind it, but perhaps not yet readable."""
        await self._producer.start()

    async def transaction(
        self,
        changelog: TopicPartition,
        entries: list[Entry],
        records: Sequence[Record] = (),
        settled: Collection[TopicPartition] = (),
    ) -> Sent | None:
        """One transaction; -> where the last changelog batch lies, None without one. Raises CLIENT_FAILURES.

        Every batch is awaited before the commit, which would succeed without a refused one. Begun late: the
        coordinator's time-out runs from the first partition on. `settled`: partitions that get this transaction's
        marker although it has no record for them. Its records have one time, which no other transaction of this
        producer has: by it the parts of one are known for such (see unsettled.py).
        """
        producer = self._producer
        self._time_ms = time_ms = max(self._time_ms + 1, time.time_ns() // 1_000_000)
        groups = await by_partition(producer, records)
        await producer.begin_transaction()
        self._join(settled)
        under_way: list[UnderWay] = []
        try:
            await send(producer, (changelog.topic, changelog.partition), entries, self._limits, under_way, time_ms)
            changes = len(under_way)
            for at, group in groups.items():
                await send(producer, at, group, self._limits, under_way, time_ms)
        except BaseException:
            abandon(under_way)
            raise
        sent = await delivered(under_way)
        await producer.commit_transaction()
        return sent[changes - 1] if changes else None

    async def end(self, settled: Collection[TopicPartition], *, aborted: bool) -> None:
        """A transaction without a record, for its markers. Raises CLIENT_FAILURES."""
        await self._producer.begin_transaction()
        self._join(settled)
        await (self._producer.abort_transaction() if aborted else self._producer.commit_transaction())

    def _join(self, settled: Collection[TopicPartition]) -> None:
        for each in settled:
            self._producer._txn_manager.maybe_add_partition_to_txn(KafkaPartition(each.topic, each.partition))

    @property
    def id(self) -> int:
        """Kafka's number of the transactional id, the same for all incarnations of a partition."""
        return int(self._producer._txn_manager.producer_id)

    async def stop(self) -> None:
        """No abort: what is open stays open until the successor's opening. Never raises, never lasts."""
        await stop(self._producer)
        waiter = self._producer._txn_manager._transaction_waiter
        if waiter is not None and waiter.done():
            read(waiter)  # of a transaction that failed before its end was asked for


class KafkaTaskLog:
    """ports.TaskLog of one incarnation. Any failure of a commit ends it: nobody knows what became of the turn."""

    distant = True

    def __init__(
        self,
        incarnation: int,
        changelog: TopicPartition,
        epoch: str,
        producer: TaskProducer,
        store: TaskStore,
        membership: Membership,
        queue: InputQueue,
        now_ms: Callable[[], int],
        answers: Callable[[float], Awaitable[bool]],
        released: Callable[[KafkaTaskLog], None],
    ) -> None:
        self.partition = changelog.partition
        self.incarnation = incarnation
        self.position = 0
        self._changelog = changelog
        self._epoch = epoch
        self._producer = producer
        self._store = store
        self._membership = membership
        self._queue = queue
        self._now_ms = now_ms
        self._answers = answers
        self._released = released
        self._closed = False
        self._commit_s = COMMIT_S
        self._limit: asyncio.Timeout | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def store(self) -> ReadableStore:
        return self._store

    @property
    def is_open(self) -> bool:
        """False from the moment that the partition is revoked or a commit has failed, before anybody has closed it."""
        return not self._closed and self._queue.lost is None

    async def poll(self, max_records: int) -> list[InputRecord]:
        self._check()
        found = self._queue.take(max_records)
        self._membership.drained(self._queue)
        return found

    async def wait(self, timeout_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._queue.filled.wait()

    async def commit(self, turn: Turn) -> None:
        self._check()
        entries = entries_of(turn.rows, turn.positions)
        try:
            async with asyncio.timeout(self._commit_s) as self._limit:
                sent = await self._producer.transaction(self._changelog, entries, turn.records)
        except BaseException as error:
            await self._lose()
            if isinstance(error, CLIENT_FAILURES):
                raise TaskLostError(
                    f"partition {self.partition}: the outcome of a commit is unknown: {type(error).__name__}: {error}"
                ) from error
            raise
        finally:
            self._limit = None
        if self._closed:
            # The copy is a successor's by now, and may be further than this turn.
            raise TaskLostError(f"partition {self.partition} was closed while a turn was committed")
        self.position = max([self.position, *turn.positions.values()])
        if sent is not None:
            await self._apply(entries, sent.next_offset)

    async def _apply(self, entries: list[Entry], reached: int) -> None:
        """What has been committed, into the local copy. A failure here ends the incarnation too: the copy is behind."""
        try:
            self._store.apply(entries, self._epoch, reached, self._now_ms())
        except BaseException:
            await self._lose()
            raise

    def hasten(self) -> None:
        """No commit is given up while the cluster is there: it will be answered."""
        if self._watch is None and not self._closed:
            self._watch = asyncio.ensure_future(self._give_up_without_cluster())

    async def _give_up_without_cluster(self) -> None:
        """Also a commit that begins later; what became of it the rows tell at the next opening."""
        while await self._answers(ANSWER_S):  # noqa: ASYNC110 - a broker does not tell that it is gone
            await asyncio.sleep(ANSWER_S / 3)
        self._commit_s = 0.0
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time())

    async def close(self) -> None:
        if not self._closed:
            await self._lose()
        self._released(self)

    async def _lose(self) -> None:
        self._closed = True
        if self._watch is not None:
            self._watch.cancel()
        self._membership.shut(self._queue, "is closed")
        await self._producer.stop()

    def _check(self) -> None:
        if not self.is_open:
            why = self._queue.lost or "is closed"
            raise TaskLostError(f"partition {self.partition}, incarnation {self.incarnation} {why}")

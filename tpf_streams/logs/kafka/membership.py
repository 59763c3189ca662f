"""This worker's part in the engine's group: which partitions it has, and their input records.

One consumer and one dispatcher for all tasks of the worker: a task that polled for itself would make its siblings wait
for what lies unread in its buffer. The group gives partitions and nothing else: positions come from the rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, ConsumerRecord
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import IllegalStateError, KafkaError

from tpf_streams.errors import LogError, TaskLostError
from tpf_streams.logs.clock import elapsed_s
from tpf_streams.logs.kafka.reader import input_record
from tpf_streams.logs.kafka.settings import FETCH_WAIT_MS, KafkaSettings
from tpf_streams.logs.kafka.stopping import leave
from tpf_streams.ports import InputRecord, TaskGroup

log = logging.getLogger(__name__)

DISPATCH_WAIT_MS = 500
QUEUE_MAX = 2_000
"""Records of one partition that wait for its task; behind these it is paused, and read no further."""
FAILED_WAIT_S = 0.5
JOIN_S = 60.0


class InputQueue:
    """Records of one partition on their way to its task."""

    def __init__(self, partition: KafkaPartition) -> None:
        self.partition = partition
        self.filled = asyncio.Event()
        self.lost: str | None = None
        self.paused = False
        self._records: deque[InputRecord] = deque()

    def __len__(self) -> int:
        return len(self._records)

    def put(self, records: Iterable[InputRecord]) -> None:
        self._records.extend(records)
        self.filled.set()

    def take(self, max_records: int) -> list[InputRecord]:
        found = [self._records.popleft() for _ in range(min(max_records, len(self._records)))]
        if not self._records and self.lost is None:
            self.filled.clear()
        return found

    def lose(self, why: str) -> None:
        """Whoever waits here is woken, and told at its next poll."""
        self.lost = self.lost or why
        self.filled.set()


class Membership(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is untyped
    """One member of `<application id>-engine`."""

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self._topic = topic
        self._partitions = settings.partitions
        self._session_s = settings.session_timeout_ms / 1000
        self._seen_s: float | None = None
        self._group: TaskGroup | None = None
        self._queues: dict[int, InputQueue] = {}
        self._assigned = asyncio.Event()
        self._dispatcher: asyncio.Task[None] | None = None
        self._consumer = AIOKafkaConsumer(
            **settings.connection,
            **settings.membership,
            group_id=f"{settings.application_id}-engine",
            isolation_level="read_committed",
            auto_offset_reset="none",
            partition_assignment_strategy=(RangePartitionAssignor,),
            fetch_max_wait_ms=FETCH_WAIT_MS,
        )

    async def join(self, group: TaskGroup) -> None:
        """Returns behind the first assignment, which may be empty. Raises LogError."""
        self._group = group
        try:
            self._consumer.subscribe([self._topic], listener=self)
            await self._consumer.start()
            self._note_heartbeats()
            self._dispatcher = asyncio.ensure_future(self._dispatch())
            async with asyncio.timeout(JOIN_S):
                await self._assigned.wait()
        except (KafkaError, TimeoutError) as error:
            raise LogError(f"the engine's group cannot be joined: {type(error).__name__}: {error}") from error

    async def finish(self) -> None:
        """Have the group end what is under way, and tell it no more. Idempotent; never raises."""
        group, self._group = self._group, None
        if group is not None:
            try:
                await group.revoked(list(range(self._partitions)))
            except Exception:
                log.exception("what was under way did not end well")

    async def close(self) -> None:
        """Leave, behind `finish`. Idempotent; never raises."""
        if self._dispatcher is not None:
            self._dispatcher.cancel()
            await asyncio.gather(self._dispatcher, return_exceptions=True)
        await leave(self._consumer)

    # The group

    async def on_partitions_revoked(self, revoked: set[KafkaPartition]) -> None:
        """Turns under way are finished first; the rest of the group waits for it. Never raises: it would be swallowed.

        No task is waited for that reads here: they take from their queues, and the dispatcher may stand in the client.
        """
        numbers = sorted(self._numbers(revoked))
        for number in numbers:
            self._shut_partition(number, "was revoked")
        if self._group is not None and numbers:
            await self._group.revoked(numbers)

    async def on_partitions_assigned(self, assigned: set[KafkaPartition]) -> None:
        """Paused, with any position, and without an await: a partition without a position would be looked up in vain,
        and one that is not paused would be read from a place that is not its task's."""
        self._consumer.pause(*assigned)
        for at in assigned:
            self._consumer.seek(at, 0)
        unused = len(assigned) - len(numbers := sorted(self._numbers(assigned)))
        if unused:
            log.warning("%d partitions of %s are beyond the application's %d", unused, self._topic, self._partitions)
        if self._group is not None:
            self._group.assigned(numbers)
        self._assigned.set()

    def _numbers(self, parts: Iterable[KafkaPartition]) -> Iterator[int]:
        return (at.partition for at in parts if at.partition < self._partitions)

    async def confirm(self, partition: int, offset: int) -> None:
        """Raises TaskLostError unless this worker has the partition in the group's present generation.

        An ordinary OffsetCommit says so. Without it two workers would fence each other for ever (seen: 110 to 178
        times in 8 s), each taking the other's fencing for its own coordinator's time-out.
        """
        at = KafkaPartition(self._topic, partition)
        asked_s = elapsed_s()
        try:
            await self._consumer.commit({at: offset})
        except KafkaError as error:
            raise TaskLostError(f"partition {partition} is not this worker's: {type(error).__name__}") from error
        self._seen_s = asked_s

    @property
    def is_current(self) -> bool:
        """Whether the group cannot have given this member up: it counts a session from what it hears of a member, and
        it heard of this one no earlier than that was sent. A process that was frozen for longer is none any more, and
        learns it by its next heartbeat; until then its rows may be those of before."""
        return self._seen_s is not None and elapsed_s() - self._seen_s < self._session_s

    def _note_heartbeats(self) -> None:
        """The client keeps to itself when a heartbeat was answered."""
        coordinator = self._consumer._coordinator
        beat = coordinator._do_heartbeat

        async def noted() -> bool:
            sent_s = elapsed_s()
            answered: bool = await beat()
            if answered:
                self._seen_s = sent_s
            return answered

        coordinator._do_heartbeat = noted

    @property
    def assigned_now(self) -> set[int]:
        return set(self._numbers(self._consumer.assignment()))

    async def store_positions(self, positions: dict[int, int]) -> None:
        """Tell lag tools how far the tasks are. Nothing is read from it."""
        mine = self._consumer.assignment()
        offsets = {KafkaPartition(self._topic, part): offset for part, offset in positions.items()}
        told = {at: offset for at, offset in offsets.items() if at in mine}
        if told:
            with contextlib.suppress(KafkaError):
                await self._consumer.commit(told)

    # Its inputs

    def read(self, partition: int, offset: int) -> InputQueue:
        """Read the partition from `offset` on. Raises TaskLostError when it is gone already."""
        at = KafkaPartition(self._topic, partition)
        self._shut_partition(partition, "was opened again")
        queue = self._queues[partition] = InputQueue(at)
        try:
            self._consumer.seek(at, offset)
            self._consumer.resume(at)
        except IllegalStateError as error:
            self.shut(queue, "was revoked")
            raise TaskLostError(f"partition {partition} was revoked while it was opened") from error
        return queue

    def shut(self, queue: InputQueue, why: str) -> None:
        """Read no more for this queue's task. What its successor reads of the same partition goes on."""
        queue.lose(why)
        if self._queues.get(queue.partition.partition) is queue:
            del self._queues[queue.partition.partition]
            with contextlib.suppress(IllegalStateError):
                self._consumer.pause(queue.partition)

    def _shut_partition(self, partition: int, why: str) -> None:
        if partition in self._queues:
            self.shut(self._queues[partition], why)

    def drained(self, queue: InputQueue) -> None:
        """A task has taken from its queue: one that was full is read on."""
        if queue.paused and len(queue) < QUEUE_MAX // 2 and queue.lost is None:
            queue.paused = False
            with contextlib.suppress(IllegalStateError):
                self._consumer.resume(queue.partition)

    async def _dispatch(self) -> None:
        while True:
            try:
                found = await self._consumer.getmany(timeout_ms=DISPATCH_WAIT_MS)
            except Exception as error:
                # One partition's error stands for all: whoever is hit is opened anew at its position. Also what is no
                # error of the client's kind: nobody would miss a dispatcher that ended, and no task would read again.
                log.warning("reading %s failed: %s: %s", self._topic, type(error).__name__, error)
                for queue in list(self._queues.values()):
                    self.shut(queue, f"could not be read: {type(error).__name__}")
                await asyncio.sleep(FAILED_WAIT_S)
                continue
            for at, records in found.items():
                if at.partition in self._queues:
                    self._put(self._queues[at.partition], records)

    def _put(self, queue: InputQueue, records: Sequence[ConsumerRecord]) -> None:
        queue.put(map(input_record, records))
        if len(queue) >= QUEUE_MAX:
            queue.paused = True
            self._consumer.pause(queue.partition)

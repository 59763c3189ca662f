"""The last transaction of a predecessor, where some of its partitions have no marker: how it ended in the others.

A node that dies and comes back alone may call a transaction complete without having written all of its markers (Kafka
4.4.0: it knows of the transaction before it knows who leads the partitions). What has none is then neither there nor
not there, until the same producer id ends another transaction in the same partition, and with the end of that one. So
the first end behind such a transaction must be the one that it had: a commit behind an abort made half of a turn come
true (seen: outputs of a turn whose rows were aborted).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.errors import LeaderNotAvailableError, for_code
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.record.control_record import ControlRecord
from aiokafka.record.memory_records import MemoryRecords

from tpf_streams.ports import TopicPartition

READ_UNCOMMITTED = 0
BYTES_MAX = 8 * 1024 * 1024
PARTITION_BYTES_MAX = 1024 * 1024
CLOCKS_APART_MS = 60_000
"""Markers bear the time of a broker, records that of a worker."""
ABORT = 0


@dataclass(slots=True)
class Tail:
    """What one producer id has in the end of one partition."""

    waiting_ms: list[int] = field(default_factory=list)
    """Times of its batches that no marker of it follows."""
    waiting_epochs: set[int] = field(default_factory=set)
    abort_epochs: set[int] = field(default_factory=set)
    """Of its abort markers."""

    def add(self, batch: Any) -> None:
        """The next batch of that producer id."""
        if not batch.is_control_batch:
            self.waiting_ms.append(batch.max_timestamp)
            self.waiting_epochs.add(batch.producer_epoch)
            return
        self.waiting_ms.clear()
        self.waiting_epochs.clear()
        if any(ControlRecord.parse(record.key).type_ == ABORT for record in batch):
            self.abort_epochs.add(batch.producer_epoch)


async def was_aborted(consumer: AIOKafkaConsumer, producer_id: int, written: Collection[TopicPartition]) -> bool:
    """Whether records of this producer id wait for a marker in any of `written`, and belong to a transaction that
    was aborted. One that has no marker anywhere counts as committed, for a client may have been told that it was.

    Asked behind InitProducerId, when nothing of that id is under way. `consumer` reads what is committed. Raises
    KafkaError.
    """
    partitions = [KafkaPartition(each.topic, each.partition) for each in written]
    tails = await _tails(consumer, producer_id, await consumer.end_offsets(partitions))
    waiting_ms = [each for tail in tails for each in tail.waiting_ms]
    if not waiting_ms:
        return False
    # Where the transaction has its marker nothing waits for one: it is looked for by time.
    times = dict.fromkeys(partitions, min(waiting_ms) - CLOCKS_APART_MS)
    found = {at: each.offset for at, each in (await consumer.offsets_for_times(times)).items() if each is not None}
    epoch = max(epoch for tail in tails for epoch in tail.waiting_epochs)
    # A marker of an earlier epoch is one of an earlier transaction; who aborts in another's name raises the epoch.
    return any(each >= epoch for tail in await _tails(consumer, producer_id, found) for each in tail.abort_epochs)


async def _tails(
    consumer: AIOKafkaConsumer, producer_id: int, starts: Mapping[KafkaPartition, int]
) -> Collection[Tail]:
    """From each offset to the end of now, in as few requests as there are leaders where nothing is there."""
    tails = {at: Tail() for at in starts}
    ends: dict[KafkaPartition, int] = {}
    offsets = dict(starts)
    while offsets:
        for at, end, batches in await _fetched(consumer, offsets):
            for batch in batches:
                offsets[at] = batch.next_offset
                if batch.producer_id == producer_id:
                    tails[at].add(batch)
            # The end as it was first: others go on writing.
            if offsets[at] >= ends.setdefault(at, end):
                del offsets[at]
    return tails.values()


async def _fetched(
    consumer: AIOKafkaConsumer, offsets: Mapping[KafkaPartition, int]
) -> list[tuple[KafkaPartition, int, Iterator[Any]]]:
    """-> for each partition its end and the batches that came, which may be none: a response has its limit. The
    consumer's own `getmany` gives records without their producers, and no markers."""
    client = consumer._client
    by_leader: dict[int, dict[str, list[tuple[int, int, int]]]] = defaultdict(lambda: defaultdict(list))
    for at, offset in offsets.items():
        leader = client.cluster.leader_for_partition(at)
        if leader is None or leader < 0:
            raise LeaderNotAvailableError(f"{at.topic}/{at.partition}")
        by_leader[leader][at.topic].append((at.partition, offset, PARTITION_BYTES_MAX))
    found: list[tuple[KafkaPartition, int, Iterator[Any]]] = []
    for leader, topics in by_leader.items():
        request = FetchRequest(0, 0, BYTES_MAX, READ_UNCOMMITTED, list(topics.items()))
        for topic, parts in (await client.send(leader, request)).topics:
            for partition, error, end, *_, data in parts:
                if error:
                    raise for_code(error)(f"{topic}/{partition}")
                found.append((KafkaPartition(topic, partition), end, _batches(data)))
    return found


def _batches(data: bytes) -> Iterator[Any]:
    records = MemoryRecords(data)
    while records.has_next():
        batch = records.next_batch()
        if batch is None:
            return
        yield batch

"""The last transaction of a predecessor, where some of its partitions have no marker: how it ended in the others.

A node that dies and comes back alone may call a transaction complete without having written all of its markers (Kafka
4.4.0: it knows of the transaction before it knows who leads the partitions). What has none is then neither there nor
not there, until the same producer id ends another transaction in the same partition, and with the end of that one. So
the first end behind such a transaction must be the one that it had: a commit behind an abort made half of a turn come
true.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
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
LOG_APPEND_TIME = 1


@dataclass(slots=True)
class Span:
    """One transaction in one partition. `aborted` None: it has no marker there."""

    epoch: int
    time_ms: int
    by_broker: bool
    """Whose time it is. A worker gives all records of a transaction one time, and no two transactions the same."""
    aborted: bool | None = None


@dataclass(slots=True)
class Tail:
    """What one producer id has in the end of one partition."""

    spans: list[Span] = field(default_factory=list)
    lone_aborts: set[int] = field(default_factory=set)
    """Epochs of its abort markers that end nothing: of transactions whose records never came here."""

    def add(self, batch: Any) -> None:
        """The next batch of that producer id."""
        under_way = self.waiting
        if batch.is_control_batch:
            aborted = any(ControlRecord.parse(record.key).type_ == ABORT for record in batch)
            if under_way is not None:
                under_way.aborted = aborted
            elif aborted:
                self.lone_aborts.add(batch.producer_epoch)
        elif under_way is None:
            by_broker = batch.timestamp_type == LOG_APPEND_TIME
            self.spans.append(Span(batch.producer_epoch, batch.max_timestamp, by_broker))

    @property
    def waiting(self) -> Span | None:
        last = self.spans[-1] if self.spans else None
        return last if last is not None and last.aborted is None else None


async def unsettled(
    consumer: AIOKafkaConsumer, producer_id: int, changelog: TopicPartition, written: Collection[TopicPartition]
) -> dict[TopicPartition, bool]:
    """Where records of this producer id wait for a marker -> whether the transaction that they are of was aborted.

    One that has no marker anywhere counts as committed, for a client may have been told that it was. Asked behind
    InitProducerId, when nothing of that id is under way. `consumer` reads what is committed. Raises KafkaError.
    """
    partitions = [KafkaPartition(each.topic, each.partition) for each in {changelog, *written}]
    tails = await _tails(consumer, producer_id, await consumer.end_offsets(partitions))
    waiting = {at: tail.waiting for at, tail in tails.items() if tail.waiting is not None}
    if not waiting:
        return {}
    # Where the transaction has its marker nothing waits for one: it is looked for by time.
    times = dict.fromkeys(partitions, min(span.time_ms for span in waiting.values()) - CLOCKS_APART_MS)
    starts = {at: each.offset for at, each in (await consumer.offsets_for_times(times)).items() if each is not None}
    earlier = await _tails(consumer, producer_id, starts)
    home = KafkaPartition(changelog.topic, changelog.partition)
    spans = [span for tail in (*tails.values(), *earlier.values()) for span in tail.spans]
    changes = [span for found in (tails, earlier) if home in found for span in found[home].spans]
    lone = {epoch for found in (tails, earlier) if home in found for epoch in found[home].lone_aborts}
    return {
        TopicPartition(at.topic, at.partition): _was_aborted(span, spans, changes, lone) for at, span in waiting.items()
    }


def _was_aborted(waiting: Span, spans: Iterable[Span], changes: Collection[Span], lone: Set[int]) -> bool:
    """`spans`: everywhere; `changes`: of the changelog, where each turn begins; `lone` of it, too."""
    if waiting.by_broker:
        # Its time says little beside that of workers: it is of the last turn, nothing having followed it here.
        turns = [span for span in changes if span.epoch == waiting.epoch]
        return bool(turns) and max(turns, key=lambda span: span.time_ms).aborted is True
    same = [span for span in spans if (span.epoch, span.time_ms) == (waiting.epoch, waiting.time_ms)]
    ends = {span.aborted for span in same} - {None}
    if ends:
        return True in ends
    # Its changes never came, so it cannot have been committed: who aborts in another's name raises the epoch by one.
    return all(span not in changes for span in same) and bool(lone & {waiting.epoch, waiting.epoch + 1})


async def _tails(
    consumer: AIOKafkaConsumer, producer_id: int, starts: Mapping[KafkaPartition, int]
) -> dict[KafkaPartition, Tail]:
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
    return tails


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
                    client.force_metadata_update()
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

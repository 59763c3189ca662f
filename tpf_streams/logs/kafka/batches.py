"""Records to the broker in batches: a few calls a partition, where `send` is a call, a task and a future a record."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.producer.message_accumulator import BatchBuilder

from tpf_streams.core.identity import murmur2
from tpf_streams.errors import LogError
from tpf_streams.ports import Headers, Record

BATCH_BYTES = 1024 * 1024
"""Of one batch. A single record may be larger: the first of a batch always fits, and the topic's own limit decides."""
RECORD_BYTES, HEADER_BYTES = 40, 16
"""What a record and a header need beside their contents, at most."""

Entry: TypeAlias = tuple[bytes | None, bytes | None, Headers]
UnderWay: TypeAlias = tuple["asyncio.Future[Any]", int]
"""A batch that has been handed over: the broker's answer to come, and how many records it has."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Where the last batch of a partition begins, and how many records are in it."""

    base_offset: int
    count: int

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.count


async def by_partition(producer: AIOKafkaProducer, records: Iterable[Record]) -> dict[tuple[str, int], list[Entry]]:
    """The records of each partition in their order. Raises LogError for a partition that is not there."""
    counts: dict[str, Sequence[int]] = {}
    found: dict[tuple[str, int], list[Entry]] = {}
    for record in records:
        if record.topic not in counts:
            counts[record.topic] = sorted(await producer.partitions_for(record.topic))
        partition = _partition(record, counts[record.topic])
        found.setdefault((record.topic, partition), []).append((record.key, record.value, record.headers))
    return found


def _partition(record: Record, partitions: Sequence[int]) -> int:
    """Its own, or its place's, or its key's as every Kafka client has it; at random without any of them."""
    if record.partition is not None:
        if record.partition not in partitions:
            raise LogError(f"{record.topic} has {len(partitions)} partitions; there is no {record.partition}")
        return record.partition
    if record.place is not None:
        return partitions[record.place % len(partitions)]
    if record.key is None:
        return random.choice(partitions)
    return partitions[(murmur2(record.key) & 0x7FFFFFFF) % len(partitions)]


async def send(
    producer: AIOKafkaProducer,
    at: tuple[str, int],
    entries: Iterable[Entry],
    limits: Mapping[str, int],
    under_way: list[UnderWay],
    time_ms: int | None = None,
) -> None:
    """Hand the records over, in as few batches as they fit into; `under_way` has them even when a later one fails.

    `limits`: what a topic takes. It holds for a batch, not for a record: small records, each of them allowed, would be
    refused together. `time_ms`: of the records; without it each has that of now.
    """
    topic, partition = at
    limit = min(limits.get(topic, BATCH_BYTES), BATCH_BYTES)
    batch = producer.create_batch()
    for entry in entries:
        if batch.record_count() and batch.size() + _bytes_of(entry) > limit:
            under_way.append(await _hand_over(producer, batch, topic, partition))
            batch = producer.create_batch()
        key, value, headers = entry
        appended = batch.append(key=key, value=value, timestamp=time_ms, headers=list(headers))
        assert appended is not None, "a record was left out of its batch"
    if batch.record_count():
        under_way.append(await _hand_over(producer, batch, topic, partition))


async def _hand_over(producer: AIOKafkaProducer, batch: BatchBuilder, topic: str, partition: int) -> UnderWay:
    sent = await producer.send_batch(batch, topic, partition=partition)
    for queued in producer._message_accumulator._batches.get(KafkaPartition(topic, partition), ()):
        queued._drain_waiter.add_done_callback(read)
    return sent, batch.record_count()


def read(future: asyncio.Future[Any]) -> None:
    """Of futures that the client keeps for itself. A failure sets them all; it is told once, and again by the loop, at
    some later time and with a traceback, for each that nobody has read."""
    if not future.cancelled():
        future.exception()


def _bytes_of(entry: Entry) -> int:
    key, value, headers = entry
    own = len(key or b"") + len(value or b"") + RECORD_BYTES
    return own + sum(len(name.encode()) + len(content) + HEADER_BYTES for name, content in headers)


async def delivered(under_way: Sequence[UnderWay]) -> list[Sent]:
    """Wait for every batch. Raises the first refusal, and only when all are known: a commit would succeed without a
    refused batch, and a failure that nobody reads is a warning at some later time."""
    results = await asyncio.gather(*(future for future, _ in under_way), return_exceptions=True)
    sent: list[Sent] = []
    for result, (_, count) in zip(results, under_way, strict=True):
        if isinstance(result, BaseException):
            raise result
        sent.append(Sent(result.offset, count))
    return sent


def abandon(under_way: Sequence[UnderWay]) -> None:
    """Of batches whose sending has failed or is given up: what becomes of them is nobody's. Not waited for, because
    without a broker the answers take as long as a request may, and so would the end of a cancelled caller."""
    for future, _ in under_way:
        future.add_done_callback(read)


async def send_records(producer: AIOKafkaProducer, records: Iterable[Record], limits: Mapping[str, int]) -> None:
    """Append outside a transaction; returns when the broker has every record."""
    under_way: list[UnderWay] = []
    try:
        for at, entries in (await by_partition(producer, records)).items():
            await send(producer, at, entries, limits, under_way)
    except BaseException:
        abandon(under_way)
        raise
    await delivered(under_way)

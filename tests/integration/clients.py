"""aiokafka as the broker tests use it: fresh names, clients that are closed again, and the reading of a whole log."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

POLL_MS = 100


def fresh(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


async def new_partition(bootstrap: str, **config: str | int) -> TopicPartition:
    """Partition 0 of a new topic; `max_message_bytes=100` sets `max.message.bytes`."""
    topic = NewTopic(fresh("rules"), 1, 1, topic_configs={k.replace("_", "."): str(v) for k, v in config.items()})
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([topic])
    finally:
        await admin.close()
    return TopicPartition(topic.name, 0)


@contextlib.asynccontextmanager
async def transactional(bootstrap: str, transactional_id: str, **options: object) -> AsyncIterator[AIOKafkaProducer]:
    """Started, hence with InitProducerId done. Leaving the block finishes no transaction that is open."""
    settings = {"linger_ms": 0, "transaction_timeout_ms": 30_000, "retry_backoff_ms": 20} | options
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id, **settings)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def send_values(producer: AIOKafkaProducer, at: TopicPartition, values: Iterable[bytes]) -> None:
    """Send one batch and wait until the broker has it."""
    batch = producer.create_batch()
    for value in values:
        assert batch.append(key=value, value=value, timestamp=None) is not None
    await (await producer.send_batch(batch, at.topic, partition=at.partition))


async def commit_values(producer: AIOKafkaProducer, at: TopicPartition, *values: bytes) -> None:
    await producer.begin_transaction()
    await send_values(producer, at, values)
    await producer.commit_transaction()


async def abort_values(producer: AIOKafkaProducer, at: TopicPartition, *values: bytes) -> None:
    await producer.begin_transaction()
    await send_values(producer, at, values)
    await producer.abort_transaction()


@contextlib.asynccontextmanager
async def reader(
    bootstrap: str, isolation_level: str = "read_committed", **options: object
) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level=isolation_level,
        enable_auto_commit=False,
        auto_offset_reset="none",  # a position is sought or it is an error, never guessed
        fetch_max_wait_ms=50,
        **options,
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def end_offset(bootstrap: str, at: TopicPartition, isolation_level: str = "read_committed") -> int:
    """The last stable offset, or with "read_uncommitted" the high watermark."""
    async with reader(bootstrap, isolation_level) as consumer:
        return int((await consumer.end_offsets([at]))[at])


async def read_to_end(bootstrap: str, at: TopicPartition, start: int | None = None) -> list[ConsumerRecord]:
    """Every committed record from `start`, in the engine's order: end, assign, seek, poll until the position is there.

    Nothing is awaited between assign and seek: see the rules' test of an explicit seek.
    """
    async with reader(bootstrap) as consumer:
        end = (await consumer.end_offsets([at]))[at]
        if start is None:
            start = (await consumer.beginning_offsets([at]))[at]
        consumer.assign([at])
        consumer.seek(at, start)
        return await poll_to(consumer, at, end)


async def poll_to(consumer: AIOKafkaConsumer, at: TopicPartition, end: int) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    while await consumer.position(at) < end:
        for records in (await consumer.getmany(at, timeout_ms=POLL_MS)).values():
            found.extend(records)
    return found


async def settled(bootstrap: str, at: TopicPartition) -> None:
    """Wait for the markers: a commit returns before they are written, so a stranger's end may still be short of it."""

    async def stable() -> bool:
        return await end_offset(bootstrap, at) == await end_offset(bootstrap, at, "read_uncommitted")

    await eventually(stable)


async def values_in(bootstrap: str, at: TopicPartition) -> list[bytes]:
    """What is committed once no transaction is open any more."""
    await settled(bootstrap, at)
    return [record.value for record in await read_to_end(bootstrap, at)]


async def eventually(condition: Callable[[], Awaitable[bool]], timeout_s: float = 30.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not await condition():
            await asyncio.sleep(0.1)

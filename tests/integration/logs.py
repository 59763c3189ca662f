"""KafkaLog as the broker tests use it: opened and closed, a group that does what a test wants, time to wait for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from aiokafka import TopicPartition as KafkaPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.contract.reading import read_all
from tests.integration.clients import settled
from tpf_streams.logs.kafka import KafkaLog, KafkaSettings, TopicSpec
from tpf_streams.logs.kafka.topics import FoundTopic, describe
from tpf_streams.ports import InputRecord, Record, TopicPartition
from tpf_streams.stores.rocksdb import RocksDbStateStore

PATIENCE_S = 30.0
STORE_BYTES = 4 * 1024 * 1024


class Members:
    """A TaskGroup that notes what it is told, and waits in `revoked` for as long as the test says."""

    def __init__(self) -> None:
        self.partitions: set[int] = set()
        self.told: list[tuple[str, tuple[int, ...]]] = []
        self.before_revoked: Callable[[], Any] | None = None
        self._changed = asyncio.Event()

    def assigned(self, partitions: Collection[int]) -> None:
        self._note("assigned", partitions)
        self.partitions.update(partitions)

    async def revoked(self, partitions: Collection[int]) -> None:
        self._note("revoked", partitions)
        if self.before_revoked is not None:
            await self.before_revoked()
        self.partitions.difference_update(partitions)
        self._note("given up", partitions)

    async def has(self, partitions: set[int]) -> None:
        """Until exactly these are this member's."""
        await self.until(lambda: self.partitions == partitions)

    async def shares(self, count: int) -> None:
        await self.until(lambda: len(self.partitions) == count)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def _note(self, what: str, partitions: Collection[int]) -> None:
        self.told.append((what, tuple(sorted(partitions))))
        self._changed.set()


@contextlib.asynccontextmanager
async def opened(
    bootstrap: str,
    application_id: str,
    data_dir: Path,
    *,
    members: Members | None = None,
    joined: bool = True,
    partitions: int = 1,
    topics: Sequence[TopicSpec] = (),
    identity: str = "",
    **settings: Any,
) -> AsyncIterator[KafkaLog]:
    """An open log, a member of its group unless `joined` is false."""
    found = await KafkaLog.open(
        KafkaSettings(bootstrap, application_id, partitions=partitions, **settings),
        data_dir,
        lambda path: RocksDbStateStore(path, STORE_BYTES),
        topics=topics,
        identity=identity,
    )
    try:
        if joined:
            await found.join(members or Members())
        yield found
    finally:
        await found.close()


def events_of(application_id: str, partition: int = 0) -> TopicPartition:
    return TopicPartition(f"{application_id}-events", partition)


def changelog_of(application_id: str, partition: int = 0) -> KafkaPartition:
    return KafkaPartition(f"{application_id}-changelog", partition)


def event(application_id: str, value: bytes, partition: int = 0) -> Record:
    return Record(f"{application_id}-events", None, value, (), partition)


async def create_topic(bootstrap: str, name: str, partitions: int = 1, **config: str | int) -> str:
    """`max_message_bytes=100` sets `max.message.bytes`."""
    topic = NewTopic(name, partitions, 1, topic_configs={k.replace("_", "."): str(v) for k, v in config.items()})
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        response = await admin.create_topics([topic])
        assert [error for _, error, *_ in response.topic_errors] == [0]
    finally:
        await admin.close()
    return name


async def described(bootstrap: str, names: Sequence[str]) -> dict[str, FoundTopic]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        return await describe(admin, names)
    finally:
        await admin.close()


async def committed(bootstrap: str, log: KafkaLog, topic: str) -> list[InputRecord]:
    """Everything committed in a topic, with the markers waited for."""
    for at in await log.end_offsets([topic]):
        await settled(bootstrap, KafkaPartition(at.topic, at.partition))
    return await read_all(log, topic)

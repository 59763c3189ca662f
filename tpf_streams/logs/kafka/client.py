"""What stands beside the tasks: appending, readers by group, ends of topics. Enough for a provider or an operator."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from tpf_streams.errors import LogError
from tpf_streams.logs.kafka.batches import BATCH_BYTES, send_records
from tpf_streams.logs.kafka.history import history
from tpf_streams.logs.kafka.reader import KafkaReader
from tpf_streams.logs.kafka.settings import FETCH_WAIT_MS, RETRY_MS, KafkaSettings
from tpf_streams.logs.kafka.stopping import stop
from tpf_streams.logs.kafka.topics import TopicSpec, describe, ensure_topics
from tpf_streams.ports import InputRecord, Record, TopicPartition


@contextlib.contextmanager
def told(what: str) -> Iterator[None]:
    """Whatever a client raises, also the AssertionError that a dead producer answers with, as a LogError."""
    try:
        yield
    except (KafkaError, AssertionError, OSError, TimeoutError) as error:
        raise LogError(f"{what}: {type(error).__name__}: {error}") from error


class KafkaClient:
    """One connection to a cluster, without any task. Make one with `open`."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self._producer = AIOKafkaProducer(
            **settings.connection, enable_idempotence=True, linger_ms=0, max_batch_size=BATCH_BYTES
        )
        self.consumer = AIOKafkaConsumer(
            **settings.connection,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="none",  # a position is sought or it is an error, never guessed
            fetch_max_wait_ms=FETCH_WAIT_MS,
        )
        self._readers: set[KafkaReader] = set()
        self.limits: dict[str, int] = {}
        """Bytes of the largest batch that a topic takes, where they are known."""

    @classmethod
    async def open(cls, settings: KafkaSettings) -> KafkaClient:
        """Raises LogError where no broker answers."""
        client = cls(settings)
        try:
            with told(f"no Kafka at {settings.bootstrap_servers}"):
                await client._producer.start()
                await client.consumer.start()
        except BaseException:
            await client.close()
            raise
        return client

    async def ensure(self, topics: Sequence[TopicSpec]) -> None:
        """Create what is missing, check the rest. Raises LogMismatchError, LogError."""
        settings = self.settings
        async with self.admin() as admin:
            found = await ensure_topics(admin, topics, create=settings.create_topics, replication=settings.replication)
        self.limits |= {name: topic.number("max.message.bytes", BATCH_BYTES) for name, topic in found.items()}

    @contextlib.asynccontextmanager
    async def admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        with told("Kafka's administration"):
            admin = AIOKafkaAdminClient(**self.settings.connection)
            try:
                await admin.start()  # may have connections when it fails
                yield admin
            finally:
                await admin.close()

    async def answers(self, within_s: float) -> bool:
        """Whether any broker of the cluster says a word. Asked again after an error: a lost connection is no outage."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while True:
                    with contextlib.suppress(KafkaError, OSError):
                        await self.consumer._client.fetch_all_metadata()
                        return True
                    await asyncio.sleep(RETRY_MS / 1000)
        return False

    async def append(self, records: Sequence[Record]) -> None:
        with told("records were not appended"):
            await send_records(self._producer, records, self.limits)

    async def end_offsets(self, topics: Sequence[str]) -> dict[TopicPartition, int]:
        """Last stable offsets: behind it a transaction may be open still."""
        with told("the ends of topics cannot be read"):
            parts = [KafkaPartition(topic, part) for topic in topics for part in await self.partitions_of(topic)]
            found = await self.consumer.end_offsets(parts)
        return {TopicPartition(part.topic, part.partition): offset for part, offset in found.items()}

    async def partitions_of(self, topic: str) -> list[int]:
        """Raises LogError for a topic that is not there."""
        with told(f"topic {topic}"):
            return sorted(await self._producer.partitions_for(topic))

    async def open_reader(self, group: str, topics: Sequence[str]) -> KafkaReader:
        reader = KafkaReader(self.settings, group, topics, self.append, self._readers.discard)
        self._readers.add(reader)
        try:
            with told(f"group {group}"):
                await reader.open()
        except BaseException:
            await reader.close()
            raise
        return reader

    @property
    def partitions(self) -> int:
        """Of the application's internal topics."""
        return self.settings.partitions

    async def history(self, topic: str, partition: int, start: int = 0) -> AsyncIterator[list[InputRecord]]:
        """The committed records of one partition from offset `start` to its end of now, in lots. Raises LogError."""
        async with self.admin() as admin:
            topics = await describe(admin, [topic])
        if topic not in topics:
            raise LogError(f"there is no topic {topic}: nothing of this application ran on that cluster")
        count = topics[topic].partitions
        if partition >= count:
            raise LogError(
                f"topic {topic} has {count} partitions and no {partition}: set topology.partitions to {count}"
            )
        async for found in history(self.settings, topic, partition, start):
            yield found

    async def close(self) -> None:
        """Idempotent; never raises. Side by side, because each may last without its broker."""
        await asyncio.gather(*(reader.close() for reader in self._readers), stop(self.consumer), stop(self._producer))

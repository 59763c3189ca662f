"""KafkaLog: the application's log on a cluster, as one worker of the group sees it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from aiokafka import TopicPartition as KafkaPartition
from aiokafka.admin.records_to_delete import RecordsToDelete

from tpf_streams.errors import LogCorruptError, LogError, TaskLostError
from tpf_streams.logs.clock import SystemClock
from tpf_streams.logs.kafka.batches import Entry
from tpf_streams.logs.kafka.changelog import OPENING_KEY, Header
from tpf_streams.logs.kafka.client import KafkaClient, told
from tpf_streams.logs.kafka.follower import ChangelogFollower, Rows, TopicFollower
from tpf_streams.logs.kafka.membership import Membership
from tpf_streams.logs.kafka.reader import KafkaReader, input_record
from tpf_streams.logs.kafka.restore import Restorer
from tpf_streams.logs.kafka.settings import KafkaSettings
from tpf_streams.logs.kafka.stores import NoRows, OpenStore, TaskStore, TaskStores
from tpf_streams.logs.kafka.task import CLIENT_FAILURES, KafkaTaskLog, TaskProducer
from tpf_streams.logs.kafka.topics import TopicSpec, TopicUse, describe, internal_topics
from tpf_streams.logs.kafka.unsettled import unsettled
from tpf_streams.ports import Clock, InputRecord, ReadableStore, Record, TaskGroup, TopicPartition

log = logging.getLogger(__name__)

STABLE_S = 15.0
SETTLE_S = 60.0
"""A transaction's marker is written within milliseconds of its end, or by the next one of its id."""
STABLE_POLL_S = 0.01
OFFSETS_EVERY_S = 5.0
PURGE_EVERY_S = 60.0
DELETE_RETENTION_MS = 24 * 3600 * 1000
"""Kafka's default of delete.retention.ms."""


class KafkaLog:
    """ports.Log over Apache Kafka. Make one with `open`; `join` makes it a member of the engine's group."""

    def __init__(
        self, client: KafkaClient, stores: TaskStores, clock: Clock, identity: str, written: Sequence[str] = ()
    ) -> None:
        settings = self._settings = client.settings
        self._client = client
        self._stores = stores
        self._clock = clock
        self._identity = identity
        self._written = [f"{settings.application_id}-{name}" for name in ("dead-letters", "item-rejects")]
        self._written += written
        self._events = f"{settings.application_id}-events"
        self._changelog = f"{settings.application_id}-changelog"
        self._lifecycle = f"{settings.application_id}-lifecycle"
        self._owners = f"{settings.application_id}-owners"
        self._restorer = Restorer(client.consumer, self._changelog, clock.now_ms)
        self._membership = Membership(settings, self._events)
        self._open: dict[int, KafkaTaskLog] = {}
        self._opening: Counter[int] = Counter()
        self._headers: dict[int, Header] = {}
        self._copies_trusted_ms = DELETE_RETENTION_MS // 2
        self._upkeep: asyncio.Task[None] | None = None
        self._follower: ChangelogFollower | None = None
        self._owners_follower: TopicFollower | None = None
        self._closed = False

    @classmethod
    async def open(
        cls,
        settings: KafkaSettings,
        data_dir: Path,
        open_store: OpenStore,
        *,
        topics: Sequence[TopicSpec] = (),
        identity: str = "",
        clock: Clock | None = None,
    ) -> KafkaLog:
        """Reach the cluster, make or check the topics, claim a directory for the local copies.

        `topics`: what the pipeline needs besides the internal ones. `identity` stands for what ids are made of.
        Raises LogError where no broker answers, LogMismatchError for topics that cannot serve.
        """
        client = await KafkaClient.open(settings)
        try:
            internal = internal_topics(settings.application_id, settings.partitions, settings.lifecycle_kept)
            await client.ensure([*internal, *topics])
            stores = TaskStores(data_dir, open_store)
        except BaseException:
            await client.close()
            raise
        written = [topic.name for topic in topics if topic.use is not TopicUse.RESPONSES]
        found = cls(client, stores, clock or SystemClock(), identity, written)
        try:
            await found._identify()
        except BaseException:
            await found.close()
            raise
        return found

    @property
    def partitions(self) -> int:
        return self._settings.partitions

    @property
    def directory(self) -> Path:
        """What this worker has claimed for its local copies."""
        return self._stores.directory

    @property
    def restore_progress(self) -> tuple[int, int]:
        """Changelog records restored since the start, and those that the restores under way still have before them."""
        return self._restorer.restored, sum(self._restorer.remaining.values())

    async def join(self, group: TaskGroup) -> None:
        await self._membership.join(group)
        self._upkeep = asyncio.ensure_future(self._keep_up())

    async def open_task(self, partition: int) -> KafkaTaskLog:
        """Raises TaskLostError, LogError."""
        self._opening[partition] += 1
        try:
            return await self._open_task(partition)
        finally:
            self._opening[partition] -= 1

    async def _open_task(self, partition: int) -> KafkaTaskLog:
        """In this order and no other: confirmed as a member, predecessor fenced, rows restored, inputs sought."""
        if not 0 <= partition < self.partitions:
            raise LogError(f"there is no partition {partition}: the application has {self.partitions}")
        previous = self._open.pop(partition, None)
        if previous is not None:
            await previous.close()
        store = await asyncio.to_thread(self._stores.open, partition)
        await self._membership.confirm(partition, store.position(self._input(partition)) or 0)
        producer = TaskProducer(self._settings, partition, self._client.limits)
        try:
            await producer.open()
            return await self._opened(partition, producer, store)
        except BaseException as error:
            await producer.stop()
            if isinstance(error, CLIENT_FAILURES) and not isinstance(error, LogError):
                raise TaskLostError(f"partition {partition} was not opened: {type(error).__name__}: {error}") from error
            raise

    async def _opened(self, partition: int, producer: TaskProducer, store: TaskStore) -> KafkaTaskLog:
        changelog = TopicPartition(self._changelog, partition)
        # The opening is a transaction of its own. Its markers settle what a predecessor may have left without one (a
        # broker that died right behind a commit): here no end of the log is believed before it lies behind the own
        # marker, and elsewhere requests and outputs would be hidden, until another turn came to the same partition.
        written = await self._written_by(partition)
        await self._settle(partition, producer, changelog, written)
        opening: list[Entry] = [(OPENING_KEY, str(self._clock.now_ms()).encode(), ())]
        sent = await producer.transaction(changelog, opening, settled=written)
        assert sent is not None, "an opening is a record"
        own = sent.base_offset
        header, fresh = await self._header(changelog, producer, own)
        store = await self._trusted(partition, store, header, own)
        await self._catch_up(partition, store, header, own)
        position = await self._position(partition, store, fresh=fresh)
        queue = self._membership.read(partition, position)
        task = KafkaTaskLog(
            own,
            changelog,
            header.epoch,
            producer,
            store,
            self._membership,
            queue,
            now_ms=self._clock.now_ms,
            answers=self._client.answers,
            released=self._released,
        )
        task.position = position
        self._open[partition] = task
        return task

    async def _settle(
        self, partition: int, producer: TaskProducer, changelog: TopicPartition, written: list[TopicPartition]
    ) -> None:
        """End what a predecessor left without a marker, each part of it as the others ended. By itself: an opening that
        broke off would abort it."""
        # The submission of another life, and the end of one, go to any partition's events in the turn's transaction.
        everywhere = {*written, *map(self._input, range(self.partitions))}
        async with asyncio.timeout(SETTLE_S):
            found = await unsettled(self._client.consumer, producer.id, changelog, everywhere)
            for aborted in (True, False):
                parts = [at for at, end in found.items() if end is aborted]
                if parts:
                    end = "aborted" if aborted else "committed"
                    log.warning("partition %d: a transaction was not %s everywhere; it is now", partition, end)
                    await producer.end(parts, aborted=aborted)

    async def _written_by(self, partition: int) -> list[TopicPartition]:
        """Where turns of this partition may have written."""
        written = [
            TopicPartition(topic, each) for topic in self._written for each in await self._client.partitions_of(topic)
        ]
        own = [TopicPartition(topic, partition) for topic in (self._lifecycle, self._owners)]
        return [self._input(partition), *own, *written]

    async def _header(self, changelog: TopicPartition, producer: TaskProducer, own: int) -> tuple[Header, bool]:
        """What the changelog is, and whether it was begun just now. Read once a process."""
        partition = changelog.partition
        if partition in self._headers:
            return self._headers[partition], False
        await self._until_stable(partition, own)
        header = await self._restorer.header(partition)
        fresh = header is None
        if header is None:
            header = Header.new(self.partitions, self._identity)
            await producer.transaction(changelog, [header.entry])
        header.check(self.partitions, self._identity, f"{self._changelog}/{partition}")
        self._headers[partition] = header
        return header, fresh

    async def _trusted(self, partition: int, store: TaskStore, header: Header, own: int) -> TaskStore:
        """The local copy, or an empty one where it cannot be brought up: of another log, from outside its range, or so
        old that a deletion may have been compacted away, and with it deleted rows would rise again."""
        if store.epoch == "":
            return store
        begin, _ = await self._restorer.range(partition)
        age_ms = self._clock.now_ms() - store.written_ms
        if store.epoch == header.epoch and begin <= store.next_offset <= own and age_ms < self._copies_trusted_ms:
            return store
        log.info("partition %d: the local copy cannot be brought up to date and is restored in full", partition)
        return await asyncio.to_thread(self._stores.anew, partition)

    async def _catch_up(self, partition: int, store: TaskStore, header: Header, own: int) -> None:
        """Between a copy that is whole and this opening lies nothing but the marker of the last turn."""
        if store.epoch and own - store.next_offset <= 1:
            store.apply((), header.epoch, own + 1, self._clock.now_ms())
            return
        await self._until_stable(partition, own)
        await self._restorer.restore(partition, store, header.epoch, own + 1)

    async def _until_stable(self, partition: int, own: int) -> None:
        async with asyncio.timeout(STABLE_S):
            while (await self._restorer.range(partition))[1] <= own:  # noqa: ASYNC110 - the broker tells nobody
                await asyncio.sleep(STABLE_POLL_S)

    async def _position(self, partition: int, store: TaskStore, *, fresh: bool) -> int:
        """Where the inputs are read on. Raises LogCorruptError where records are gone that nobody has read."""
        at = KafkaPartition(self._events, partition)
        begin = (await self._client.consumer.beginning_offsets([at]))[at]
        position = store.position(self._input(partition))
        place = f"{self._events}/{partition}"
        if position is None and fresh and begin > 0:
            raise LogCorruptError(
                f"{self._changelog}/{partition} is empty, and {place} was read before: put the changelog back, or use "
                "another application id"
            )
        if position is not None and position < begin:
            raise LogCorruptError(f"{place} begins at {begin}, and was read only to {position}: records are lost")
        return begin if position is None else position

    def _input(self, partition: int) -> TopicPartition:
        return TopicPartition(self._events, partition)

    async def open_reader(self, group: str, topics: Sequence[str]) -> KafkaReader:
        return await self._client.open_reader(group, topics)

    async def append(self, records: Sequence[Record]) -> None:
        await self._client.append(records)

    async def end_offsets(self, topics: Sequence[str]) -> dict[TopicPartition, int]:
        return await self._client.end_offsets(topics)

    def history(self, topic: str, partition: int, start: int = 0) -> AsyncIterator[list[InputRecord]]:
        """The committed records of one partition from offset `start` to its end of now, in lots. Raises LogError."""
        return self._client.history(topic, partition, start)

    def store(self, partition: int) -> ReadableStore:
        """The rows of a partition of this worker, for views; of one that is elsewhere those that are followed."""
        found = self._stores.get(partition) if partition in self._open else None
        if found is not None:
            return found
        return NoRows() if self._follower is None else self._follower.rows

    @property
    def unseen(self) -> list[int]:
        """The partitions that are not open here: other workers have them, or nobody yet."""
        return [partition for partition in range(self.partitions) if partition not in self._open]

    async def follow(self, wanted: Callable[[bytes], bool], moved: Callable[[Rows], None]) -> None:
        """From now on have the rows with `wanted` store keys of what is elsewhere, too; behind the first `join`.

        `moved` is called with each lot of them. Returns when those of now are there. Raises LogError.
        """
        rows = await asyncio.to_thread(self._stores.scratch, "elsewhere")
        self._follower = ChangelogFollower(self._settings, self._changelog, rows, lambda: self.unseen, wanted, moved)
        await self._follower.open()
        await self._follower.known()

    async def known(self) -> None:
        """Return when the rows that are followed are those of now. Raises LogError."""
        if self._follower is not None:
            await self._follower.known()

    async def follow_owners(self, told: Callable[[Sequence[InputRecord]], None]) -> None:
        """From now on tell the records of the owners topic, from the first that is kept, in their order. Returns at
        once; raises LogError."""
        self._owners_follower = TopicFollower(
            self._settings,
            self._owners,
            lambda: range(self.partitions),
            lambda records: told([input_record(record) for record in records]),
        )
        await self._owners_follower.open()

    def is_current(self, partition: int) -> bool:
        """Whether the rows of an open partition are for certain those of now: nobody else can have it meanwhile."""
        task = self._open.get(partition)
        return task is not None and task.is_open and self._membership.is_current

    async def close(self) -> None:
        """Leave the group with every turn finished. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self._upkeep is not None:
            self._upkeep.cancel()
            await asyncio.gather(self._upkeep, return_exceptions=True)
        try:
            await self._membership.finish()
            # Side by side: without its broker each of them lasts as long as it may, and so would their sum.
            ends = [self._membership.close(), self._client.close(), *(task.close() for task in self._open.values())]
            followers = (self._follower, self._owners_follower)
            ends += [follower.close() for follower in followers if follower is not None]
            for failure in await asyncio.gather(*ends, return_exceptions=True):
                if isinstance(failure, Exception):
                    log.error("a part of the log did not close well", exc_info=failure)
        finally:
            self._stores.close()

    def _released(self, task: KafkaTaskLog) -> None:
        if self._open.get(task.partition) is task:
            del self._open[task.partition]

    async def _identify(self) -> None:
        """Refuse a log of another shape before anything is opened, and learn how long copies can be trusted."""
        async with self._client.admin() as admin:
            found = await describe(admin, [self._changelog])
        kept_ms = found[self._changelog].number("delete.retention.ms", DELETE_RETENTION_MS)
        self._copies_trusted_ms = kept_ms // 2
        with told(f"{self._changelog} cannot be read"):
            # Also those beyond the application's: of a log begun with more, only they may have a header yet.
            # One header is enough: the rest is looked at when its task is opened.
            for partition in range(found[self._changelog].partitions):
                header = await self._restorer.header(partition)
                if header is not None:
                    header.check(self.partitions, self._identity, f"{self._changelog}/{partition}")
                    break

    async def _keep_up(self) -> None:
        """Positions for lag tools, and the end of events that have been read: nothing depends on either."""
        purged_s = self._clock.monotonic_s()
        while True:
            await asyncio.sleep(OFFSETS_EVERY_S)
            positions = {partition: task.position for partition, task in self._open.items()}
            try:
                await self._membership.store_positions(positions)
                if self._clock.monotonic_s() - purged_s >= PURGE_EVERY_S:
                    purged_s = self._clock.monotonic_s()
                    await self._purge(positions)
                    self._give_back()
            except Exception:
                # Nobody would notice the end of this loop before the disk of a broker is full.
                log.exception("the upkeep of %s failed; it is tried again", self._events)

    def _give_back(self) -> None:
        """A partition that was revoked while it is opened is none of this worker's, and its copy is in use all the
        same: a restore would go on in a closed database."""
        self._stores.close_others(self._membership.assigned_now | self._open.keys() | (+self._opening).keys())

    async def _purge(self, positions: dict[int, int]) -> None:
        behind = {
            KafkaPartition(self._events, partition): RecordsToDelete(position)
            for partition, position in positions.items()
            if position > 0
        }
        if not behind:
            return
        try:
            async with self._client.admin() as admin:
                await admin.delete_records(behind)
        except LogError:
            log.warning("events that have been read were not deleted; it is tried again", exc_info=True)

"""Following topics of the application without a part in it: what other workers have, for what a person asks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from aiokafka import AIOKafkaConsumer, ConsumerRecord
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.errors import KafkaError

from tpf_streams.errors import LogError
from tpf_streams.logs.kafka.changelog import ROW
from tpf_streams.logs.kafka.settings import KafkaSettings
from tpf_streams.logs.kafka.stopping import stop
from tpf_streams.ports import ReadableStore, StateStore

log = logging.getLogger(__name__)

FETCH_MS = 500
"""Nobody's latency hangs on it: records end a fetch at once, and this long is an idle one."""
RECORDS_MAX = 5_000
KNOWN_S = 60.0
FAILED_WAIT_S = 1.0

Rows = Mapping[bytes, bytes | None]


class TopicFollower:
    """`followed`: the partitions to read now, each from its beginning and on from where it was left. `told` gets the
    committed records of one partition after another, and must not raise."""

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        followed: Callable[[], Sequence[int]],
        told: Callable[[Sequence[ConsumerRecord]], None],
    ) -> None:
        self._topic = topic
        self._followed = followed
        self._told = told
        self._next: dict[KafkaPartition, int] = {}
        self._fetched = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._consumer = AIOKafkaConsumer(
            **settings.connection,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=FETCH_MS,
        )

    async def open(self) -> None:
        """Raises LogError."""
        try:
            await self._consumer.start()
        except KafkaError as error:
            raise LogError(f"{self._topic} cannot be followed: {type(error).__name__}: {error}") from error
        self._work = asyncio.ensure_future(self._follow())

    async def known(self) -> None:
        """Return when everything up to now has been told. Raises LogError when it cannot be read."""
        try:
            async with asyncio.timeout(KNOWN_S):
                ends = await self._consumer.end_offsets(self._parts())
                while any(self._next.get(at, 0) < ends.get(at, 0) for at in self._parts()):
                    self._fetched.clear()
                    await self._fetched.wait()
        except (KafkaError, TimeoutError) as error:
            raise LogError(f"{self._topic} cannot be followed: {type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """Idempotent; never raises."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        await stop(self._consumer)

    def _parts(self) -> list[KafkaPartition]:
        return [KafkaPartition(self._topic, number) for number in self._followed()]

    async def _follow(self) -> None:
        while True:
            try:
                await self._fetch(self._parts())
            except KafkaError as error:
                log.warning("%s cannot be followed; it is tried again: %s", self._topic, error)
                await asyncio.sleep(FAILED_WAIT_S)
            except Exception:
                # Nobody would notice the end of this loop: what is elsewhere would stay as it was, for good.
                log.exception("%s cannot be followed; it is tried again", self._topic)
                await asyncio.sleep(FAILED_WAIT_S)

    async def _fetch(self, parts: list[KafkaPartition]) -> None:
        if not parts:
            await asyncio.sleep(FETCH_MS / 1000)
            return
        await self._turn_to(parts)
        for found in (await self._consumer.getmany(timeout_ms=FETCH_MS, max_records=RECORDS_MAX)).values():
            self._told(found)
        for at in parts:
            self._next[at] = await self._consumer.position(at)
        self._fetched.set()

    async def _turn_to(self, parts: list[KafkaPartition]) -> None:
        """Read these, each on from where it was left."""
        if self._consumer.assignment() == set(parts):
            return
        new = [at for at in parts if at not in self._next]
        self._next |= await self._consumer.beginning_offsets(new) if new else {}
        # Nothing is awaited in between: with an await the client began at the end of the log in 34 of 40 tries (seen).
        self._consumer.assign(parts)
        for at in parts:
            self._consumer.seek(at, self._next[at])


class ChangelogFollower(TopicFollower):
    """The rows of partitions that other workers have.

    Nothing is decided by them. They lie in a store of their own, made anew by every process, and are as old as the last
    fetch. A partition that comes here is not followed while it is open, and is followed on from there when it goes.

    `store` stays its owner's to close. `elsewhere`: the partitions to follow now. `wanted`: which rows, by store key.
    `moved` is told of new ones.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        store: StateStore,
        elsewhere: Callable[[], Sequence[int]],
        wanted: Callable[[bytes], bool],
        moved: Callable[[Rows], None],
    ) -> None:
        super().__init__(settings, topic, elsewhere, self._apply)
        self._store = store
        self._wanted = wanted
        self._moved = moved

    @property
    def rows(self) -> ReadableStore:
        """The rows of every partition followed; store keys begin with the partition's slot, so they keep apart."""
        return self._store

    def _apply(self, records: Sequence[ConsumerRecord]) -> None:
        keyed = ((record.key or b"", record.value) for record in records)
        rows = {key[1:]: value for key, value in keyed if key[:1] == ROW and self._wanted(key[1:])}
        if rows:
            self._store.write(rows)
            self._moved(rows)

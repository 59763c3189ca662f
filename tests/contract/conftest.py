"""Adapters of the ports Log and StateStore, opened anew or again. A further adapter is one more harness class."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import pytest
from aiokafka import TopicPartition as KafkaPartition

from tests.integration.clients import settled
from tpf_streams.logs.kafka import KafkaLog, KafkaSettings, TopicSpec, TopicUse
from tpf_streams.logs.local import LocalLog
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.ports import Log, ReadableLog, Record, StateStore, TopicPartition
from tpf_streams.stores.memory import MemoryStateStore
from tpf_streams.stores.rocksdb import RocksDbStateStore

SMALL_MEMORY_BYTES = 4 * 1024 * 1024
EVENTS = "app-events"
"""Of a log with the default application id, as the unit tests of one adapter use it."""


@dataclass(frozen=True, slots=True)
class Names:
    """Topics of one test: fresh ones, because a broker is shared. `answers` has two partitions, `outputs` one."""

    application_id: str

    @property
    def events(self) -> str:
        return f"{self.application_id}-events"

    @property
    def answers(self) -> str:
        return f"{self.application_id}-answers"

    @property
    def outputs(self) -> str:
        return f"{self.application_id}-outputs"

    @property
    def input(self) -> TopicPartition:
        """What the task of partition 0 reads."""
        return TopicPartition(self.events, 0)

    def event(self, value: bytes, partition: int = 0) -> Record:
        return Record(self.events, b"key", value, (), partition)

    def output(self, value: bytes) -> Record:
        return Record(self.outputs, None, value)

    def answer(self, value: bytes, partition: int) -> Record:
        return Record(self.answers, None, value, (), partition)


class StepClock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.ms = 1_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        return self.ms / 1_000

    async def sleep(self, seconds: float) -> None:
        self.ms += int(seconds * 1_000)


class LogHarness(Protocol):
    """One adapter: `open` gives the log over what was stored before, after closing the one given last."""

    async def open(self) -> Log: ...

    async def settled(self, topic: str) -> None:
        """Until the end of the topic shows what has been committed; a broker is a little later than its answer."""
        ...

    async def close(self) -> None: ...


class InProcessHarness:
    """What the adapters without a broker have in common: a clock that a test may drive, and nothing to wait for."""

    def __init__(self, names: Names, path: Path) -> None:
        self.clock = StepClock()
        self.settings: dict[str, Any] = {
            "application_id": names.application_id,
            "partitions": 2,
            "topics": {names.answers: 2},
            "clock": self.clock,
        }
        self.path = path / "data"

    async def settled(self, topic: str) -> None: ...

    async def close(self) -> None: ...


class MemoryHarness(InProcessHarness):
    _log: MemoryLog | None = None

    async def open(self) -> ReadableLog:
        await self.close()
        if self._log is None:
            self._log = MemoryLog(blocking_waits=True, **self.settings)
        return self._log

    async def close(self) -> None:
        if self._log is not None:
            await self._log.close()


class LocalHarness(InProcessHarness):
    sync: Mapping[str, Any] = MappingProxyType({})
    _log: LocalLog | None = None

    async def open(self) -> ReadableLog:
        await self.close()
        settings = {"memory_bytes": SMALL_MEMORY_BYTES, **self.sync, **self.settings}
        self._log = LocalLog.open(self.path, RocksDbStateStore, **settings)
        return self._log

    async def close(self) -> None:
        if self._log is not None:
            await self._log.close()


class LocalIntervalHarness(LocalHarness):
    sync = MappingProxyType({"sync": "interval", "sync_interval_ms": 1})


class EveryPartition:
    """A TaskGroup of one process that opens its tasks by hand."""

    def assigned(self, partitions: Collection[int]) -> None: ...

    async def revoked(self, partitions: Collection[int]) -> None: ...


class KafkaHarness:
    def __init__(self, names: Names, path: Path, bootstrap_servers: str) -> None:
        self._settings = KafkaSettings(bootstrap_servers, names.application_id, partitions=2)
        self._topics = [TopicSpec(names.answers, TopicUse.RESPONSES, 2), TopicSpec(names.outputs, TopicUse.OUTPUTS, 1)]
        self._path = path / "data"
        self._log: KafkaLog | None = None

    async def open(self) -> Log:
        await self.close()
        self._log = await KafkaLog.open(
            self._settings, self._path, lambda at: RocksDbStateStore(at, SMALL_MEMORY_BYTES), topics=self._topics
        )
        await self._log.join(EveryPartition())
        return self._log

    async def settled(self, topic: str) -> None:
        assert self._log is not None
        for at in await self._log.end_offsets([topic]):
            await settled(self._settings.bootstrap_servers, KafkaPartition(at.topic, at.partition))

    async def close(self) -> None:
        if self._log is not None:
            await self._log.close()


InProcess: TypeAlias = MemoryHarness | LocalHarness

IN_PROCESS: dict[str, Callable[[Names, Path], InProcess]] = {
    "memory": MemoryHarness,
    "local": LocalHarness,
    "local-interval": LocalIntervalHarness,
}


@pytest.fixture
def names() -> Names:
    return Names(f"contract-{uuid.uuid4().hex[:12]}")


@pytest.fixture(params=[*IN_PROCESS, pytest.param("kafka", marks=pytest.mark.broker)])
async def harness(request: pytest.FixtureRequest, names: Names, tmp_path: Path) -> AsyncIterator[LogHarness]:
    made: LogHarness
    if request.param == "kafka":
        made = KafkaHarness(names, tmp_path, request.getfixturevalue("bootstrap_servers"))
    else:
        made = IN_PROCESS[request.param](names, tmp_path)
    yield made
    await made.close()


@pytest.fixture
async def log(harness: LogHarness) -> Log:
    return await harness.open()


@pytest.fixture(params=list(IN_PROCESS))
async def in_process(request: pytest.FixtureRequest, names: Names, tmp_path: Path) -> AsyncIterator[InProcess]:
    """Adapters whose clock a test drives, and whose records can be looked at without a reader."""
    made = IN_PROCESS[request.param](names, tmp_path)
    yield made
    await made.close()


@pytest.fixture(params=["memory", "rocksdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StateStore]:
    made: StateStore
    if request.param == "memory":
        made = MemoryStateStore()
    else:
        made = RocksDbStateStore(tmp_path / "db", SMALL_MEMORY_BYTES)
    yield made
    made.close()


def event(value: bytes, partition: int = 0) -> Record:
    return Record(EVENTS, b"key", value, (), partition)

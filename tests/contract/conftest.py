"""Adapters of the ports Log and StateStore, opened anew or again. A further adapter is one more harness class."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from tpf_streams.logs.local import LocalLog
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.ports import ReadableLog, Record, StateStore
from tpf_streams.stores.memory import MemoryStateStore
from tpf_streams.stores.rocksdb import RocksDbStateStore

EVENTS = "app-events"
SMALL_MEMORY_BYTES = 4 * 1024 * 1024


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

    clock: StepClock

    async def open(self, **settings: Any) -> ReadableLog: ...

    async def close(self) -> None: ...


class MemoryHarness:
    def __init__(self, path: Path) -> None:
        self.clock = StepClock()
        self._log: MemoryLog | None = None

    async def open(self, **settings: Any) -> ReadableLog:
        if self._log is None:
            self._log = MemoryLog(clock=self.clock, blocking_waits=True, **{"partitions": 2, **settings})
        else:
            await self._log.close()
        return self._log

    async def close(self) -> None:
        if self._log is not None:
            await self._log.close()


class LocalHarness:
    def __init__(self, path: Path) -> None:
        self.clock = StepClock()
        self._path = path / "data"
        self._log: LocalLog | None = None

    async def open(self, **settings: Any) -> ReadableLog:
        await self.close()
        settings = {"partitions": 2, "memory_bytes": SMALL_MEMORY_BYTES, **settings}
        self._log = LocalLog.open(self._path, RocksDbStateStore, clock=self.clock, **settings)
        return self._log

    async def close(self) -> None:
        if self._log is not None:
            await self._log.close()


class LocalIntervalHarness(LocalHarness):
    async def open(self, **settings: Any) -> ReadableLog:
        return await super().open(**{"sync": "interval", "sync_interval_ms": 1, **settings})


LOGS: dict[str, Callable[[Path], LogHarness]] = {
    "memory": MemoryHarness,
    "local": LocalHarness,
    "local-interval": LocalIntervalHarness,
}


@pytest.fixture(params=list(LOGS))
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LogHarness]:
    made = LOGS[request.param](tmp_path)
    yield made
    await made.close()


@pytest.fixture
async def log(harness: LogHarness) -> ReadableLog:
    return await harness.open(topics={"answers": 2})


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

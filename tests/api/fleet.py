"""Several workers of one application in this process: one memory log, shared out, and an HTTP server of each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp.test_utils import TestClient, TestServer

from tests.api.serving import APPROVAL, Served, loaded_with
from tpf_streams.api import Api
from tpf_streams.api.peers import Peers
from tpf_streams.api.server import application
from tpf_streams.core.identity import IdFactory, partition_of, route_of
from tpf_streams.engine.clock import SystemClock
from tpf_streams.engine.owners import Advertised, Owners, owners_topic
from tpf_streams.logs.memory import MemoryLog, MemoryTaskLog
from tpf_streams.ports import TaskGroup
from tpf_streams.runtime.build import build
from tpf_streams.runtime.operator import Operator, running
from tpf_streams.runtime.pending_feed import PendingFeed
from tpf_streams.runtime.tally import Tally

PARTITIONS = 4
FOLLOW_S, ANSWER_S = 0.005, 5.0


class LogOfOne:
    """A memory log as one of several workers has it: what the others have open is not seen."""

    def __init__(self, whole: MemoryLog, mine: Collection[int]) -> None:
        self.whole, self.mine = whole, set(mine)
        self.counted_on = True
        """Whether the group has heard of this worker lately."""
        self.tasks: dict[int, MemoryTaskLog] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    async def join(self, group: TaskGroup) -> None:
        self.group = group
        group.assigned(sorted(self.mine))

    async def open_task(self, partition: int) -> MemoryTaskLog:
        task = self.tasks[partition] = await self.whole.open_task(partition)
        return task

    @property
    def unseen(self) -> list[int]:
        opened = self.whole._open
        return [number for number in range(PARTITIONS) if opened.get(number) is not self.tasks.get(number, self)]

    def is_current(self, partition: int) -> bool:
        return self.counted_on and partition not in self.unseen


class OwnersFollower:
    """What a worker knows of the others; while it does not listen it learns nothing new."""

    def __init__(self, whole: MemoryLog, topic: str) -> None:
        self.owners = Owners(PARTITIONS)
        self.listens = True
        self._parts = whole._state.topic(topic)
        self._read = [0] * PARTITIONS

    async def run(self) -> None:
        while True:
            for number, part in enumerate(self._parts if self.listens else ()):
                records = [record for record in part.records[self._read[number] :] if record is not None]
                self.owners.told(records)
                self._read[number] += len(records)
            await asyncio.sleep(FOLLOW_S)


@dataclass(frozen=True)
class WorkerServed(Served):
    """One of them."""

    peers: Peers
    following: OwnersFollower
    own_log: LogOfOne


class Fleet:
    def __init__(self, workers: Sequence[WorkerServed], ids: IdFactory, pipeline_id: str) -> None:
        self.workers = workers
        self._ids, self._pipeline_id = ids, pipeline_id

    def key_in(self, partition: int, number: int = 0) -> str:
        """An idempotency key whose execution is of this partition."""
        found = (key for count in range(10_000) if self.home(key := f"order-{count}") == partition)
        return next(key for place, key in enumerate(found) if place == number)

    def home(self, key: str) -> int:
        return partition_of(route_of(self._ids.execution_id("default", self._pipeline_id, key, 0)) or 0, PARTITIONS)

    async def settled(self) -> None:
        """Until every worker knows the owner of every partition."""
        newest = dict(enumerate(self.workers[0].own_log.whole._state.incarnations))
        async with asyncio.timeout(10):
            while any(
                (owner := worker.following.owners.of(number)) is None or owner.incarnation != incarnation
                for worker in self.workers
                for number, incarnation in newest.items()
            ):
                await asyncio.sleep(FOLLOW_S)

    async def take_away(self, worker: WorkerServed, *partitions: int) -> None:
        await worker.own_log.group.revoked(partitions)
        worker.own_log.mine.difference_update(partitions)

    async def give(self, worker: WorkerServed, *partitions: int) -> None:
        worker.own_log.mine.update(partitions)
        worker.own_log.group.assigned(partitions)
        async with asyncio.timeout(10):
            while not set(partitions) <= worker.application.worker.tasks.keys():
                await asyncio.sleep(FOLLOW_S)
        await self.settled()


@asynccontextmanager
async def fleet(*shares: Collection[int], **settings: str) -> AsyncIterator[Fleet]:
    """A worker for each of `shares`, which name its partitions."""
    loaded = loaded_with(APPROVAL, topology__partitions=str(PARTITIONS), **settings)
    definition = loaded.definition
    topic = owners_topic(definition.application_id)
    whole = MemoryLog(
        application_id=definition.application_id,
        partitions=PARTITIONS,
        topics={topic: PARTITIONS},
        blocking_waits=True,
    )
    async with AsyncExitStack() as stack:
        workers: list[WorkerServed] = []
        for number, mine in enumerate(shares):
            log: Any = LogOfOne(whole, mine)
            tally, feed = Tally(), PendingFeed()
            work = build(loaded, log, SystemClock(), tally=tally, watchers=(feed,))
            following = OwnersFollower(whole, topic)
            peers = Peers(following.owners, f"worker-{number}", ANSWER_S)
            api = Api(
                Operator(definition, log, work),
                loaded,
                feed,
                ready=lambda work=work: work.worker.ready,  # type: ignore[misc]
                partitions=lambda work=work: list(work.worker.tasks),  # type: ignore[misc]
                peers=peers,
            )
            server = TestServer(application(api))
            client = await stack.enter_async_context(TestClient(server))
            stack.push_async_callback(peers.close)
            work.environment.advertised = Advertised(peers.worker_id, str(server.make_url("")).rstrip("/"))
            await stack.enter_async_context(running(work))
            stack.callback(asyncio.ensure_future(following.run()).cancel)
            workers.append(WorkerServed(client, api, loaded, log, work, tally, peers, following, log))
        found = Fleet(workers, workers[0].application.ids, definition.pipeline_id)
        await found.settled()
        yield found

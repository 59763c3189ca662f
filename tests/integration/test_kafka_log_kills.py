"""Whole workers die, and are frozen and come back: every event leaves one output, in its order, once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.integration.clients import eventually, fresh
from tests.integration.logs import committed, event, opened
from tests.integration.toy_worker import PARTITIONS, SESSION_MS, TRANSACTION_MS, outputs_of
from tpf_streams.logs.kafka import KafkaLog
from tpf_streams.ports import TopicPartition

pytestmark = pytest.mark.broker

ALL = set(range(PARTITIONS))


class ToyWorker:
    """One worker process, and what it says it has."""

    def __init__(self, bootstrap: str, application: str, data_dir: Path) -> None:
        self._arguments = [sys.executable, "-m", "tests.integration.toy_worker", bootstrap, application, str(data_dir)]
        self.partitions: set[int] = set()
        self._changed = asyncio.Event()

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(*self._arguments, stdin=PIPE, stdout=PIPE)
        self._listening = asyncio.ensure_future(self._listen(self.process))

    async def _listen(self, process: Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            numbers = line.decode().removeprefix("has ").strip()
            self.partitions = {int(number) for number in numbers.split(",") if number}
            self._changed.set()

    async def shares(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.partitions) != count:
                self._changed.clear()
                await self._changed.wait()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        await self._listening
        self.partitions = set()

    async def leave(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return await asyncio.wait_for(self.process.wait(), 20)


@contextlib.asynccontextmanager
async def traffic(log: KafkaLog, application: str) -> AsyncIterator[dict[int, list[bytes]]]:
    """Events for every partition, without a pause, until the block is left; -> what was sent."""
    sent: dict[int, list[bytes]] = {partition: [] for partition in ALL}
    over = asyncio.Event()

    async def write() -> None:
        number = 0
        while not over.is_set():
            values = {partition: b"%d-%d" % (partition, number) for partition in ALL}
            await log.append([event(application, value, partition) for partition, value in values.items()])
            for partition, value in values.items():
                sent[partition].append(value)
            number += 1

    writing = asyncio.ensure_future(write())
    try:
        yield sent
    finally:
        over.set()
        await writing


async def everything_came_out(bootstrap: str, log: KafkaLog, application: str, sent: dict[int, list[bytes]]) -> None:
    topic = outputs_of(application).name
    wanted = sum(map(len, sent.values()))

    async def enough() -> bool:
        # Offsets count markers too, so this is only when to look: it must come true, and the check is behind it.
        return sum((await log.end_offsets([topic])).values()) >= wanted

    await eventually(enough, 60)
    found: dict[int, list[tuple[bytes | None, bytes | None]]] = {partition: [] for partition in ALL}

    async def complete() -> bool:
        records = await committed(bootstrap, log, topic)
        for partition in ALL:
            found[partition] = [(record.key, record.value) for record in records if record.partition == partition]
        return sum(map(len, found.values())) >= wanted

    await eventually(complete, 60)
    for partition in ALL:
        assert found[partition] == [(b"%d" % n, value) for n, value in enumerate(sent[partition])]


@contextlib.asynccontextmanager
async def workers(bootstrap: str, application: str, data_dir: Path, count: int) -> AsyncIterator[list[ToyWorker]]:
    made = [ToyWorker(bootstrap, application, data_dir) for _ in range(count)]
    try:
        for worker in made:
            await worker.start()
        yield made
    finally:
        for worker in made:
            await worker.kill()


Story = Callable[[list[ToyWorker]], Awaitable[None]]


async def play(bootstrap: str, directory: Path, story: Story) -> None:
    """Two workers on one host, traffic all the while, and what `story` does to them."""
    application = fresh("app")
    topics = [outputs_of(application)]
    async with (
        opened(bootstrap, application, directory / "writer", joined=False, partitions=PARTITIONS, topics=topics) as log,
        workers(bootstrap, application, directory / "data", 2) as pair,
    ):
        for worker in pair:
            await worker.shares(PARTITIONS // 2)
        async with traffic(log, application) as sent:
            await progress(log, application)
            await story(pair)
            await progress(log, application)
        await everything_came_out(bootstrap, log, application, sent)
        for worker in pair:
            assert await worker.leave() == 0


async def progress(log: KafkaLog, application: str) -> None:
    """Until outputs have come in every partition since the call."""
    topic = outputs_of(application).name
    begun = await log.end_offsets([topic])

    async def moved() -> bool:
        ends = await log.end_offsets([topic])
        return all(
            ends[TopicPartition(topic, partition)] > begun[TopicPartition(topic, partition)] for partition in ALL
        )

    await eventually(moved, 60)


async def test_killed_workers_lose_nothing_and_do_nothing_twice(bootstrap_servers, tmp_path):
    async def story(pair: list[ToyWorker]) -> None:
        for worker in pair:
            await worker.kill()
            await worker.start()
            for each in pair:
                await each.shares(PARTITIONS // 2)

    await play(bootstrap_servers, tmp_path, story)


async def test_a_frozen_worker_is_fenced_and_becomes_a_good_member_again(bootstrap_servers, tmp_path):
    """Frozen past its session and past its transaction, replaced on the same host, woken up with a turn in its hand."""

    async def story(pair: list[ToyWorker]) -> None:
        frozen, other = pair
        frozen.signal(signal.SIGUSR1)
        try:
            await other.shares(PARTITIONS)
            await asyncio.sleep(TRANSACTION_MS / 1000)  # a time-out is what is to pass; the session's has, or is near
        finally:
            frozen.signal(signal.SIGCONT)
        for each in pair:
            await each.shares(PARTITIONS // 2)

    assert TRANSACTION_MS < SESSION_MS
    await play(bootstrap_servers, tmp_path, story)

"""Partitions that move between workers of a group, and the queues through which their records come."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer

from tests.contract.reading import take, values
from tests.integration.clients import eventually, fresh
from tests.integration.logs import Members, event, events_of, opened
from tpf_streams.errors import TaskLostError
from tpf_streams.logs.kafka import KafkaLog, membership
from tpf_streams.logs.kafka import log as kafka_log
from tpf_streams.ports import TopicPartition, Turn

pytestmark = pytest.mark.broker

ALL = {0, 1, 2, 3}


async def test_partitions_are_taken_away_before_they_are_given(bootstrap_servers, tmp_path):
    application, one, two = fresh("app"), Members(), Members()
    async with opened(bootstrap_servers, application, tmp_path, members=one, partitions=4):
        await one.has(ALL)
        async with opened(bootstrap_servers, application, tmp_path, members=two, partitions=4):
            await one.shares(2)
            await two.has(ALL - one.partitions)
        assert two.partitions == set(), "who leaves gives up what it has"
        await one.has(ALL)
    first, *later = one.told
    assert first == ("assigned", (0, 1, 2, 3))
    assert [what for what, _ in later] == ["revoked", "given up", "assigned"] * 2 + ["revoked", "given up"]


async def test_a_revocation_waits_for_the_commit_that_is_under_way(bootstrap_servers, tmp_path, monkeypatch):
    """And only then does the partition go to the other, who finds the turn in its rows."""
    application, one, two = fresh("app"), Members(), Members()
    async with opened(bootstrap_servers, application, tmp_path, members=one) as log:
        task = await log.open_task(0)
        begun, go_on = asyncio.Event(), asyncio.Event()
        transaction = task._producer.transaction

        async def slow(*arguments):
            begun.set()
            await go_on.wait()
            return await transaction(*arguments)

        monkeypatch.setattr(task._producer, "transaction", slow)
        turn = asyncio.ensure_future(task.commit(Turn(rows={b"00k": b"v"})))
        await begun.wait()
        one.before_revoked = lambda: asyncio.wait([turn])
        joining = asyncio.ensure_future(_join_and_read(bootstrap_servers, application, tmp_path, two))
        await one.until(lambda: one.told[-1][0] == "revoked")
        assert not turn.done()
        assert two.told == []
        go_on.set()
        await turn  # it holds, although the partition was revoked meanwhile
        with pytest.raises(TaskLostError, match="was revoked"):
            await task.poll(1)
        await task.close()
        one.before_revoked = None
        # The group may give the one partition to either; whoever has it finds the turn.
        async with asyncio.timeout(30):
            found = await joining
        assert found in (b"v", None)
        if found is None:
            assert (await log.open_task(0)).store.get(b"00k") == b"v"


async def _join_and_read(bootstrap: str, application: str, path: Path, members: Members) -> bytes | None:
    async with opened(bootstrap, application, path, members=members) as log:
        return (await log.open_task(0)).store.get(b"00k") if members.partitions else None


async def test_a_task_is_opened_only_by_who_has_its_partition(bootstrap_servers, tmp_path):
    """Two workers that both open a partition would fence each other for ever."""
    application, one, two = fresh("app"), Members(), Members()
    async with (
        opened(bootstrap_servers, application, tmp_path, members=one, partitions=2) as first,
        opened(bootstrap_servers, application, tmp_path, members=two, partitions=2) as second,
    ):
        await one.until(lambda: len(one.partitions) == len(two.partitions) == 1)
        (mine,), (theirs,) = one.partitions, two.partitions
        task = await first.open_task(mine)
        with pytest.raises(TaskLostError, match="not this worker's"):
            await second.open_task(mine)
        await second.open_task(theirs)
        await task.commit(Turn(rows={b"00k": b"v"}))


class Copier(Members):
    """A small worker: counts the records of each partition in a row, turn by turn, as long as it has the partition."""

    def __init__(self) -> None:
        super().__init__()
        self.log: KafkaLog | None = None
        self._running: dict[int, asyncio.Task[None]] = {}
        self._ended: dict[int, asyncio.Event] = {}

    def assigned(self, partitions):
        super().assigned(partitions)
        for partition in partitions:
            self._ended[partition] = asyncio.Event()
            self._running[partition] = asyncio.ensure_future(self._run(partition, self._ended[partition]))

    async def revoked(self, partitions):
        for partition in partitions:
            if partition in self._ended:
                self._ended[partition].set()
        await asyncio.gather(*(self._running.pop(each) for each in list(partitions) if each in self._running))
        await super().revoked(partitions)

    async def _run(self, partition: int, ended: asyncio.Event) -> None:
        while not ended.is_set():
            with contextlib.suppress(TaskLostError):
                await self._count(partition, ended)

    async def _count(self, partition: int, ended: asyncio.Event) -> None:
        while self.log is None:
            await asyncio.sleep(0)
        task = await self.log.open_task(partition)
        try:
            while not ended.is_set():
                found = await task.poll(50)
                if not found:
                    await task.wait(0.05)
                    continue
                seen = int(task.store.get(b"00seen") or b"0")
                assert [int(record.value or b"") for record in found] == [seen + n for n in range(len(found))]
                at = TopicPartition(found[0].topic, partition)
                await task.commit(
                    Turn(rows={b"00seen": b"%d" % (seen + len(found))}, positions={at: found[-1].offset + 1})
                )
        finally:
            await task.close()


async def test_rebalances_under_traffic_end_and_lose_nothing(bootstrap_servers, tmp_path):
    """A listener that waits for a loop that reads is a deadlock that an idle group does not show."""
    application, count = fresh("app"), 300
    async with opened(bootstrap_servers, application, tmp_path, joined=False, partitions=4) as writer:

        async def write() -> None:
            for n in range(count):
                await writer.append([event(application, b"%d" % n, part) for part in ALL])

        writing = asyncio.ensure_future(write())
        one, two = Copier(), Copier()
        async with opened(bootstrap_servers, application, tmp_path, members=one, partitions=4) as one.log:
            for _ in range(3):
                two = Copier()
                async with opened(bootstrap_servers, application, tmp_path, members=two, partitions=4) as two.log:
                    await two.shares(2)
                    await one.shares(2)
                await one.has(ALL)
            await writing
            stores = [one.log.store(part) for part in ALL]

            async def all_seen() -> bool:
                stores[:] = [one.log.store(part) for part in ALL] if one.log else []
                return all(store.get(b"00seen") == b"%d" % count for store in stores)

            await eventually(all_seen)


async def test_a_full_queue_is_read_no_further_until_it_is_drained(bootstrap_servers, tmp_path, monkeypatch):
    """A task that does not keep up must not fill the memory, nor hold up its siblings."""
    monkeypatch.setattr(membership, "QUEUE_MAX", 100)
    application = fresh("app")
    async with opened(bootstrap_servers, application, tmp_path, partitions=2) as log:
        slow, quick = await log.open_task(0), await log.open_task(1)
        queue, consumer = slow._queue, log._membership._consumer
        await log.append([event(application, b"%d" % n) for n in range(150)])
        await eventually(lambda: _true(queue.paused))
        assert queue.partition in consumer.paused()
        held = len(queue)
        await log.append([event(application, b"%d" % n) for n in range(150, 300)])
        await log.append([event(application, b"sibling", 1)])
        assert await values(quick, 1) == [b"sibling"]
        assert len(queue) == held
        assert await values(slow, 300, at_most=20) == [b"%d" % n for n in range(300)]
        assert queue.partition not in consumer.paused()


async def _true(value: bool) -> bool:
    return value


async def test_whatever_stops_the_reading_it_goes_on(bootstrap_servers, tmp_path, monkeypatch):
    """Also what the client never promised to raise: a dispatcher that ended would be missed by nobody."""
    application = fresh("app")
    async with opened(bootstrap_servers, application, tmp_path) as log:
        task = await log.open_task(0)
        getmany = AIOKafkaConsumer.getmany
        broken = asyncio.Event()

        async def fails_once(consumer: AIOKafkaConsumer, *partitions, **options):
            if consumer is log._membership._consumer and not broken.is_set():
                broken.set()
                raise ValueError("cannot be read")
            return await getmany(consumer, *partitions, **options)

        monkeypatch.setattr(AIOKafkaConsumer, "getmany", fails_once)
        await log.append([event(application, b"a")])
        await asyncio.wait_for(broken.wait(), 10)
        with pytest.raises(TaskLostError, match="could not be read: ValueError"):
            await take(task, 2)
        assert await values(await log.open_task(0), 1) == [b"a"]


async def test_upkeep_tells_positions_and_purges_and_does_not_end(bootstrap_servers, tmp_path, monkeypatch, caplog):
    """It begins before the first task is open, and meets moments without any."""
    monkeypatch.setattr(kafka_log, "OFFSETS_EVERY_S", 0.02)
    monkeypatch.setattr(kafka_log, "PURGE_EVERY_S", 0.1)
    application = fresh("app")
    async with opened(bootstrap_servers, application, tmp_path) as log:
        rounds = 0
        store_positions = log._membership.store_positions

        async def counted(positions: dict[int, int]) -> None:
            nonlocal rounds
            await store_positions(positions)
            rounds += 1

        monkeypatch.setattr(log._membership, "store_positions", counted)
        await eventually(lambda: _true(rounds > 2))
        await log.append([event(application, b"%d" % n) for n in range(5)])
        task = await log.open_task(0)
        await take(task, 5)
        await task.commit(Turn(positions={events_of(application): 4}))
        at = task._queue.partition

        async def purged() -> bool:
            begin = await log._client.consumer.beginning_offsets([at])
            return bool(begin[at] == 4 and await log._membership._consumer.committed(at) == 4)

        await eventually(purged)
    assert [
        record for record in caplog.records if record.name.startswith("tpf") and record.levelno > logging.INFO
    ] == []

"""Who has which partition, told on a topic by transactions of the tasks; and whether what a worker shows is of now."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.clients import eventually, fresh
from tests.integration.kafka_broker import KraftBroker
from tests.integration.logs import Members, committed, opened
from tpf_streams.engine.owners import Owner, Owners, owner_record, owners_topic
from tpf_streams.errors import TaskLostError
from tpf_streams.logs.kafka import KafkaLog
from tpf_streams.logs.kafka.task import KafkaTaskLog, TaskProducer
from tpf_streams.ports import TopicPartition, Turn

pytestmark = pytest.mark.broker


async def tells(task: KafkaTaskLog, application: str, name: str) -> Owner:
    owner = Owner(task.partition, name, f"http://{name}:1", task.incarnation)
    await task.commit(Turn([owner_record(owners_topic(application), owner)]))
    return owner


async def following(log: KafkaLog) -> Owners:
    found = Owners(log.partitions)
    await log.follow_owners(found.told)
    return found


async def until(owners: Owners, expected: list[Owner | None]) -> None:
    async def known() -> bool:
        return [owners.of(number) for number in range(owners.partitions)] == expected

    await eventually(known)


async def test_every_worker_learns_who_has_what(bootstrap_servers, tmp_path):
    """From the beginning of the topic, and then as it moves; a worker that has nothing is told all the same."""
    application = fresh("app")
    async with opened(bootstrap_servers, application, tmp_path / "1", partitions=2) as one:
        tasks = [await one.open_task(number) for number in range(2)]
        before = [await tells(task, application, "one") for task in tasks]
        async with opened(bootstrap_servers, application, tmp_path / "2", partitions=2, joined=False) as two:
            owners = [await following(log) for log in (one, two)]
            for each in owners:
                await until(each, [*before])
            now = await tells(await one.open_task(1), application, "one")
            assert now.incarnation > before[1].incarnation
            for each in owners:
                await until(each, [before[0], now])


async def test_a_task_that_was_overtaken_cannot_say_that_the_partition_is_its_own(bootstrap_servers, tmp_path):
    application = fresh("app")
    async with opened(bootstrap_servers, application, tmp_path) as log:
        zombie = await log.open_task(0)
        owners = await following(log)
        successor = TaskProducer(log._settings, 0, {})
        await successor.open()
        now = Owner(0, "successor", None, zombie.incarnation + 1)
        at = TopicPartition(f"{application}-changelog", 0)
        await successor.transaction(at, [], [owner_record(owners_topic(application), now)])
        await successor.stop()
        await until(owners, [now])
        with pytest.raises(TaskLostError):
            await tells(zombie, application, "zombie")
        assert len(await committed(bootstrap_servers, log, owners_topic(application))) == 1
        assert owners.of(0) == now


async def test_an_opening_settles_what_a_predecessor_may_have_said(bootstrap_servers, tmp_path):
    """A transaction that was left open would hide every later owner of the partition."""
    application = fresh("app")
    async with opened(bootstrap_servers, application, tmp_path, transaction_timeout_ms=60_000) as log:
        task = await log.open_task(0)
        producer = task._producer._producer
        await producer.begin_transaction()
        await producer.send_and_wait(owners_topic(application), b"half", b"0", partition=0)
        owners = await following(log)
        await until(owners, [await tells(await log.open_task(0), application, "successor")])


@pytest.mark.parametrize("own_broker", [{}], indirect=True)
async def test_rows_are_of_now_only_while_the_group_counts_on_the_worker(own_broker: KraftBroker, tmp_path):
    """A worker that has not been heard of for a session may have a successor already, and does not know it."""
    members = Members()
    async with opened(
        own_broker.bootstrap_servers, fresh("app"), tmp_path, members=members, session_timeout_ms=2_000
    ) as log:
        assert not log.is_current(0), "no task is open"
        task = await log.open_task(0)
        assert log.is_current(0)
        await asyncio.sleep(2.5)
        assert log.is_current(0), "heartbeats go on"
        own_broker.pause()
        await asyncio.sleep(2.5)
        assert not log.is_current(0)
        own_broker.resume()

        async def again() -> bool:
            if task.is_open:
                return log.is_current(0)
            return bool(members.partitions)  # given up meanwhile, and given back

        await eventually(again)
        await task.close()
        assert not log.is_current(0)

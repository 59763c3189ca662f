"""The rules inside a group and of an idle producer, held against a real broker.

See test_kafka_client_rules.py for what these rules are.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import (
    InvalidProducerIdMapping,
    KafkaError,
    NoOffsetForPartitionError,
)

from tests.integration.clients import (
    commit_values,
    eventually,
    fresh,
    new_partition,
    reader,
    transactional,
    values_in,
)
from tests.integration.zombie import SESSION_TIMEOUT_MS

pytestmark = pytest.mark.broker


# --- in a group -----------------------------------------------------------------------------------------------------


class PauseAndPlace(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is untyped
    """Pauses what is assigned and gives it a position, both without an await."""

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._consumer = consumer

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        pass

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._consumer.pause(*assigned)
        for at in assigned:
            self._consumer.seek(at, 0)


async def test_a_paused_partition_needs_a_position_at_once(bootstrap_servers):
    """Rule 6 with auto_offset_reset="none": the listener pauses and seeks anywhere; the task seeks rightly when open.

    Prevents a poll loop that spins on NoOffsetForPartitionError for as long as a partition of a new group is restored:
    a pause does not stop the search for a position, and the error of one partition hides the records of the others.
    """
    at = await new_partition(bootstrap_servers)
    async with transactional(bootstrap_servers, fresh("worker")) as producer:
        await commit_values(producer, at, b"handled before", b"next")
    async with reader(bootstrap_servers, group_id=fresh("group")) as consumer:
        consumer.subscribe([at.topic], listener=PauseAndPlace(consumer))
        while at not in consumer.assignment():
            assert await consumer.getmany(timeout_ms=100) == {}
        for _ in range(5):
            assert await consumer.getmany(timeout_ms=100) == {}
        consumer.seek(at, 1)
        consumer.resume(at)
        records = (await consumer.getmany(timeout_ms=5000))[at]
        assert [record.value for record in records] == [b"next"]


class SlowOnce(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is untyped
    """Sits in the first assignment for `seconds`, as a restore inside the listener would."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.assignments = 0
        self.entered = asyncio.Event()

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        pass

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.assignments += 1
        self.entered.set()
        await asyncio.sleep(self._seconds if self.assignments == 1 else 0)


async def test_no_heartbeat_leaves_while_the_assignment_listener_runs(bootstrap_servers):
    """Rule 6: a listener slower than the session gets its worker expelled. Prevents restores inside the listener."""
    at, group = await new_partition(bootstrap_servers), fresh("group")
    listener = SlowOnce(SESSION_TIMEOUT_MS / 1000 + 2)
    async with reader(
        bootstrap_servers, group_id=group, session_timeout_ms=SESSION_TIMEOUT_MS, heartbeat_interval_ms=500
    ) as consumer:
        consumer.subscribe([at.topic], listener=listener)

        async def assigned_again() -> bool:
            with contextlib.suppress(NoOffsetForPartitionError):
                await consumer.getmany(timeout_ms=200)
            return listener.assignments > 1

        await eventually(assigned_again)


async def test_a_worker_stopped_in_mid_turn_loses_its_turn_and_its_membership(bootstrap_servers):
    """D3 and rule 10: a worker that was frozen past its session finds its turn fenced and its OffsetCommit refused.

    Prevents a zombie that finishes its turn after a successor has read on, and the endless mutual fencing of a zombie
    that opens again unasked: the refused OffsetCommit is how it learns that it is no longer a member.
    """
    at, group, worker = await new_partition(bootstrap_servers), fresh("group"), fresh("worker")
    arguments = [sys.executable, "-m", "tests.integration.zombie", bootstrap_servers, group, worker, at.topic]
    zombie = await asyncio.create_subprocess_exec(*arguments, stdin=PIPE, stdout=PIPE)
    assert zombie.stdin is not None and zombie.stdout is not None
    try:
        assert (await zombie.stdout.readline()).strip() == b"open"
        os.kill(zombie.pid, signal.SIGSTOP)
        await take_over(bootstrap_servers, group, worker, at)
        os.kill(zombie.pid, signal.SIGCONT)
        zombie.stdin.write(b"go on\n")
        result = (await asyncio.wait_for(zombie.stdout.readline(), 30)).decode().split()
    finally:
        with contextlib.suppress(ProcessLookupError):
            zombie.kill()
        await zombie.wait()
    assert result == ["offsets=CommitFailedError", "turn=ProducerFenced"]
    assert await values_in(bootstrap_servers, at) == [b"successor"]


async def take_over(bootstrap: str, group: str, worker: str, at: TopicPartition) -> None:
    """Get the partition by the group's session time-out, then commit a turn as its owner."""
    consumer = AIOKafkaConsumer(
        at.topic, bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False,
        session_timeout_ms=SESSION_TIMEOUT_MS, heartbeat_interval_ms=500,
    )  # fmt: skip
    await consumer.start()
    try:

        async def assigned() -> bool:
            await consumer.getmany(timeout_ms=100)
            return at in consumer.assignment()

        await eventually(assigned)
        async with transactional(bootstrap, worker) as successor:
            await commit_values(successor, at, b"successor")
    finally:
        await consumer.stop()


# --- a broker with other settings -----------------------------------------------------------------------------------


QUICK_EXPIRY = {
    "transactional.id.expiration.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
}


@pytest.mark.parametrize("own_broker", [QUICK_EXPIRY], indirect=True, ids=["quick-expiry"])
async def test_an_expired_transactional_id_ends_the_producer_and_not_the_engine(own_broker):
    """After transactional.id.expiration.ms (7 days) without a turn the id is forgotten; a new opening puts it right.

    Prevents a worker that takes a quiet week for a fatal error: what the client raises is a bare KafkaError, and only
    its cause tells.
    """
    bootstrap, worker = own_broker.bootstrap_servers, fresh("worker")
    at = await new_partition(bootstrap)
    async with transactional(bootstrap, worker) as producer:
        await commit_values(producer, at, b"before")
        await asyncio.sleep(4)
        with pytest.raises(KafkaError) as caught:
            await commit_values(producer, at, b"too late")
        assert isinstance(caught.value.__cause__, InvalidProducerIdMapping)
    async with transactional(bootstrap, worker) as producer:
        await commit_values(producer, at, b"after")
    assert await values_in(bootstrap, at) == [b"before", b"after"]

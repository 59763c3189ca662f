"""The rules of exactly-once turns that the Kafka log adapter stands on, held against a real broker.

Each test names the rule it holds and the failure that the rule prevents. A new version of aiokafka or Kafka under which
one of them fails changes what the adapter may assume.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE
from itertools import count

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from aiokafka.errors import (
    InvalidProducerIdMapping,
    KafkaError,
    MessageSizeTooLargeError,
    NoOffsetForPartitionError,
    ProducerFenced,
)

from tests.integration.clients import (
    abort_values,
    commit_values,
    end_offset,
    eventually,
    fresh,
    new_partition,
    poll_to,
    read_to_end,
    reader,
    send_values,
    settled,
    transactional,
    values_in,
)
from tests.integration.zombie import SESSION_TIMEOUT_MS

pytestmark = pytest.mark.broker


# --- opening a task -------------------------------------------------------------------------------------------------


async def test_init_settles_what_the_predecessor_left_open(bootstrap_servers):
    """Rules 5 and 16: stop() is no abort, InitProducerId is, and only after it is the changelog's end final.

    Prevents a restore that ends at the stable offset held down by the dead predecessor, short of committed rows.
    """
    at, worker = await new_partition(bootstrap_servers), fresh("worker")
    async with transactional(bootstrap_servers, worker) as predecessor:
        await commit_values(predecessor, at, b"kept")
        await predecessor.begin_transaction()
        await send_values(predecessor, at, [b"lost"])
    async with transactional(bootstrap_servers, fresh("other")) as sibling:
        await commit_values(sibling, at, b"behind it")
    assert await end_offset(bootstrap_servers, at) < await end_offset(bootstrap_servers, at, "read_uncommitted")

    async with transactional(bootstrap_servers, worker):
        stable = await end_offset(bootstrap_servers, at)
        assert stable == await end_offset(bootstrap_servers, at, "read_uncommitted")
    assert await values_in(bootstrap_servers, at) == [b"kept", b"behind it"]


async def test_init_fences_the_predecessor(bootstrap_servers):
    """D3: the successor's InitProducerId makes the predecessor's turn fail. Prevents two owners of one partition."""
    at, worker = await new_partition(bootstrap_servers), fresh("worker")
    async with transactional(bootstrap_servers, worker) as predecessor:
        await predecessor.begin_transaction()
        await send_values(predecessor, at, [b"old"])
        async with transactional(bootstrap_servers, worker) as successor:
            with pytest.raises(ProducerFenced):
                await predecessor.commit_transaction()
            await commit_values(successor, at, b"new")
    assert await values_in(bootstrap_servers, at) == [b"new"]


async def test_calls_after_the_fatal_state_raise_assertion_errors(bootstrap_servers):
    """Rule 3: after the fatal state aiokafka answers with AssertionError. Prevents a task that dies of a "bug" instead
    of closing as fenced; under `python -O` the same calls would pass unnoticed."""
    at, worker = await new_partition(bootstrap_servers), fresh("worker")
    async with transactional(bootstrap_servers, worker) as predecessor:
        await commit_values(predecessor, at, b"old")
        async with transactional(bootstrap_servers, worker):
            await predecessor.begin_transaction()
            with pytest.raises(ProducerFenced):
                await send_values(predecessor, at, [b"late"])
        for call in (predecessor.begin_transaction, predecessor.commit_transaction, predecessor.abort_transaction):
            with pytest.raises(AssertionError):
                await call()


# --- restoring ------------------------------------------------------------------------------------------------------


async def test_position_walks_over_markers_and_aborted_batches_to_the_end(bootstrap_servers):
    """Rule 5: a restore ends when the position is at the stable offset, wherever the last record was.

    Prevents a restore that waits for ever for a record just below the end, where only markers are.
    """
    at = await new_partition(bootstrap_servers)
    async with transactional(bootstrap_servers, fresh("worker")) as producer:
        await commit_values(producer, at, b"a", b"b")
        await abort_values(producer, at, b"never")
        await abort_values(producer, at, b"never either")
    await settled(bootstrap_servers, at)
    end = await end_offset(bootstrap_servers, at)
    records = await asyncio.wait_for(read_to_end(bootstrap_servers, at), 10)
    assert [record.value for record in records] == [b"a", b"b"]
    assert records[-1].offset < end - 1


async def test_an_explicit_seek_reads_the_whole_log(bootstrap_servers):
    """A restore asks for the beginning, then assigns and seeks with nothing awaited in between; no seek_to_beginning.

    Prevents an empty restore that raises nothing: `assign` sets off a reset to auto_offset_reset, by default the END,
    and its answer satisfies a seek_to_beginning made meanwhile (seen in 34 of 40 tries).
    """
    at = await new_partition(bootstrap_servers)
    async with transactional(bootstrap_servers, fresh("worker")) as producer:
        await commit_values(producer, at, b"a", b"b")
    assert [await values_in(bootstrap_servers, at) for _ in range(20)] == [[b"a", b"b"]] * 20


async def test_a_position_outside_of_the_log_is_an_error(bootstrap_servers):
    """Rule 9: with auto_offset_reset="none" a position below the log's beginning or above its end raises.

    Prevents the silent jump to another position that every other setting makes.
    """
    at = await new_partition(bootstrap_servers)
    async with reader(bootstrap_servers) as consumer:
        consumer.assign([at])
        consumer.seek(at, 1000)
        with pytest.raises(KafkaError, match="OffsetOutOfRange"):
            await consumer.getmany(at, timeout_ms=10_000)


async def test_a_compacted_changelog_with_holes_is_read_to_its_end(bootstrap_servers):
    """Rules 5 and 9: compaction leaves holes, and the position still reaches the end; latest values survive.

    Prevents a restore that counts records or expects consecutive offsets.
    """
    at = await new_partition(
        bootstrap_servers, cleanup_policy="compact", segment_ms=200, min_cleanable_dirty_ratio="0.01"
    )
    written = count(1)
    async with transactional(bootstrap_servers, fresh("worker")) as producer:

        async def compacted() -> bool:
            # A segment is closed by the next write, and only closed segments are compacted.
            value = b"%d" % next(written)
            await producer.begin_transaction()
            for key in (b"one", b"two"):
                await producer.send_and_wait(at.topic, value, key=key, partition=0)
            await producer.commit_transaction()
            await abort_values(producer, at, b"never")
            return len(await read_to_end(bootstrap_servers, at)) < int(value)

        await eventually(compacted)
    await settled(bootstrap_servers, at)
    records = await read_to_end(bootstrap_servers, at)
    latest = b"%d" % (next(written) - 1)
    assert {record.key: record.value for record in records} == {b"one": latest, b"two": latest}
    assert records[-1].offset - records[0].offset > len(records)


async def test_a_read_from_mid_log_loses_no_committed_record(bootstrap_servers):
    """Restoring only the tail: whatever offset a read begins at, the broker's list of aborted transactions fits it.

    Prevents committed rows from being dropped as aborted, which a broker with too long a list provokes in aiokafka.
    """
    at = await new_partition(bootstrap_servers)
    async with (
        transactional(bootstrap_servers, fresh("worker")) as one,
        transactional(bootstrap_servers, fresh("worker")) as two,
    ):
        for turn in range(6):
            await two.begin_transaction()
            await send_values(two, at, [b"two-%d" % turn])
            await abort_values(one, at, b"never")
            await commit_values(one, at, b"one-%d" % turn, b"one-%d-again" % turn)
            await send_values(two, at, [b"two-%d-again" % turn])
            await (two.commit_transaction() if turn % 2 else two.abort_transaction())
    await settled(bootstrap_servers, at)
    everything = [(record.offset, record.value) for record in await read_to_end(bootstrap_servers, at)]
    assert len(everything) == 6 * 2 + 3 * 2
    async with reader(bootstrap_servers) as consumer:
        end = (await consumer.end_offsets([at]))[at]
        consumer.assign([at])
        for start in range(end):
            consumer.seek(at, start)
            found = [(record.offset, record.value) for record in await poll_to(consumer, at, end)]
            assert found == [item for item in everything if item[0] >= start], f"read from {start}"


# --- a turn ---------------------------------------------------------------------------------------------------------


async def test_a_commit_succeeds_without_the_batch_that_was_refused(bootstrap_servers):
    """Rule 1: a refused batch fails its own future only. Prevents a turn that is committed without one of its rows."""
    at = await new_partition(bootstrap_servers, max_message_bytes=1000)
    async with transactional(bootstrap_servers, fresh("worker"), max_request_size=1 << 20) as producer:
        await producer.begin_transaction()
        await send_values(producer, at, [b"small"])
        with pytest.raises(MessageSizeTooLargeError):
            await send_values(producer, at, [b"x" * 5000])
        await producer.commit_transaction()
    assert await values_in(bootstrap_servers, at) == [b"small"]


async def test_a_producer_is_useless_after_a_refused_batch(bootstrap_servers):
    """Rule 2: the refused batch used up sequence numbers, so the broker refuses every later batch to that partition.

    Prevents a task that goes on with its producer and commits nothing but empty transactions.
    """
    at = await new_partition(bootstrap_servers, max_message_bytes=1000)
    async with transactional(bootstrap_servers, fresh("worker"), max_request_size=1 << 20) as producer:
        await producer.begin_transaction()
        with pytest.raises(MessageSizeTooLargeError):
            await send_values(producer, at, [b"x" * 5000])
        await producer.abort_transaction()
        await producer.begin_transaction()
        with pytest.raises(KafkaError):
            await send_values(producer, at, [b"small"])
        with contextlib.suppress(KafkaError):
            await producer.commit_transaction()
    assert await values_in(bootstrap_servers, at) == []


async def test_a_cancelled_commit_commits_all_the_same(bootstrap_servers):
    """Rule 8: the request is under way when the caller is cancelled. Prevents state that lacks a committed turn."""
    at = await new_partition(bootstrap_servers)
    async with transactional(bootstrap_servers, fresh("worker")) as producer:
        await producer.begin_transaction()
        await send_values(producer, at, [b"row"])
        commit = asyncio.ensure_future(producer.commit_transaction())
        await asyncio.sleep(0)
        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit

        async def visible() -> bool:
            return await values_in(bootstrap_servers, at) == [b"row"]

        await eventually(visible)


async def test_an_overdue_transaction_is_fenced_and_releases_its_readers(bootstrap_servers):
    """Rules 4 and 15: the coordinator ends a transaction that is open too long, and readers go on without its owner.

    Prevents an engine that takes every ProducerFenced for a successor, and readers blocked by a hung worker.
    """
    at = await new_partition(bootstrap_servers)
    async with transactional(bootstrap_servers, fresh("worker"), transaction_timeout_ms=1000) as producer:
        await producer.begin_transaction()
        await send_values(producer, at, [b"late"])
        begun = time.monotonic()

        async def released() -> bool:
            stable = await end_offset(bootstrap_servers, at)
            return stable == await end_offset(bootstrap_servers, at, "read_uncommitted")

        assert not await released()
        await eventually(released)
        assert time.monotonic() - begun > 0.9
        with pytest.raises(ProducerFenced):
            await producer.commit_transaction()
    assert await values_in(bootstrap_servers, at) == []


async def test_group_offsets_commit_with_the_transaction(bootstrap_servers):
    """TxnOffsetCommit, as old as aiokafka speaks it, is accepted: an abort leaves no offset, a commit does.

    The engine's positions live in the changelog; this keeps lag tools and other adapters possible.
    """
    at, group = await new_partition(bootstrap_servers), fresh("group")
    async with (
        transactional(bootstrap_servers, fresh("worker")) as producer,
        reader(bootstrap_servers, group_id=group) as consumer,
    ):
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({at: OffsetAndMetadata(5, "")}, group)
        await producer.abort_transaction()
        assert await consumer.committed(at) is None
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({at: OffsetAndMetadata(7, "")}, group)
        await producer.commit_transaction()

        async def committed() -> bool:
            return bool(await consumer.committed(at) == 7)

        await eventually(committed)


async def test_a_batch_carries_headers_and_tells_its_base_offset(bootstrap_servers):
    """create_batch and send_batch keep headers and timestamps, and the future tells the offset of the first record.

    Prevents envelopes that lose their headers, and a store that does not know how far it is.
    """
    at = await new_partition(bootstrap_servers)
    async with transactional(bootstrap_servers, fresh("worker")) as producer:
        await commit_values(producer, at, b"first")
        await producer.begin_transaction()
        batch = producer.create_batch()
        for value in (b"a", b"b"):
            headers = [("type", b"row"), ("type", value)]
            batch.append(key=None, value=value, timestamp=1_700_000_000_000, headers=headers)
        metadata = await (await producer.send_batch(batch, at.topic, partition=0))
        await producer.commit_transaction()
    await settled(bootstrap_servers, at)
    records = (await read_to_end(bootstrap_servers, at))[1:]
    assert [record.headers for record in records] == [(("type", b"row"), ("type", value)) for value in (b"a", b"b")]
    assert records[0].offset == metadata.offset
    assert {record.timestamp for record in records} == {1_700_000_000_000}


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

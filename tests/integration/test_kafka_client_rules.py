"""The rules of exactly-once turns that the Kafka log adapter stands on, held against a real broker.

Each test names the rule it holds and the failure that the rule prevents. A new version of aiokafka or Kafka under which
one of them fails changes what the adapter may assume.
"""

from __future__ import annotations

import asyncio
from itertools import count

import pytest
from aiokafka.errors import (
    KafkaError,
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

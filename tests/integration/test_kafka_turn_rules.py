"""The rules of one turn, held against a real broker: send, commit, time out, offsets in the transaction.

See test_kafka_client_rules.py for what these rules are.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest
from aiokafka import OffsetAndMetadata
from aiokafka.errors import (
    KafkaError,
    MessageSizeTooLargeError,
    ProducerFenced,
)

from tests.integration.clients import (
    commit_values,
    end_offset,
    eventually,
    fresh,
    new_partition,
    read_to_end,
    reader,
    send_values,
    settled,
    transactional,
    values_in,
)

pytestmark = pytest.mark.broker


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

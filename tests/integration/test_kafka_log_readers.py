"""Readers by group on a broker: at least once, from the earliest record on, over what is no record."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka import TopicPartition as KafkaPartition

from tests.contract.reading import is_quiet, take, values
from tests.integration.clients import (
    abort_values,
    commit_values,
    eventually,
    fresh,
    send_values,
    settled,
    transactional,
)
from tests.integration.logs import create_topic, opened
from tpf_streams.errors import LogError, TaskLostError
from tpf_streams.logs.kafka import KafkaClient, KafkaSettings
from tpf_streams.logs.kafka.reader import KafkaReader
from tpf_streams.ports import Record, TopicPartition

pytestmark = pytest.mark.broker


@contextlib.asynccontextmanager
async def client(bootstrap: str, **settings: Any) -> AsyncIterator[KafkaClient]:
    found = await KafkaClient.open(KafkaSettings(bootstrap, "unused", **settings))
    try:
        yield found
    finally:
        await found.close()


def numbered(topic: str, count: int, partitions: int = 1) -> list[Record]:
    return [Record(topic, None, b"%d" % n, (), n % partitions) for n in range(count)]


async def alone(reader: KafkaReader, topic: str, partitions: int) -> None:
    """Until this reader has every partition of the topic."""
    everything = {TopicPartition(topic, part) for part in range(partitions)}

    async def has_all() -> bool:
        await reader.wait(0.1)
        return {TopicPartition(at.topic, at.partition) for at in reader._consumer.assignment()} == everything

    await eventually(has_all)


async def test_a_new_group_reads_from_the_earliest_record(bootstrap_servers):
    """What was answered before the first start is an answer, too."""
    topic = await create_topic(bootstrap_servers, fresh("answers"), 2)
    async with client(bootstrap_servers) as kafka:
        await kafka.append(numbered(topic, 10, 2))
        reader = await kafka.open_reader(fresh("group"), [topic])
        assert reader.positions() == {TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0}
        assert sorted(await values(reader, 10)) == [b"%d" % n for n in range(10)]  # type: ignore[type-var]
        assert reader.positions() == {TopicPartition(topic, 0): 5, TopicPartition(topic, 1): 5}


async def test_positions_walk_over_markers_and_aborted_records(bootstrap_servers):
    """A reader that only counted records would never reach the end, and who waits for that would wait for ever."""
    topic = await create_topic(bootstrap_servers, fresh("answers"))
    at = KafkaPartition(topic, 0)
    async with client(bootstrap_servers) as kafka, transactional(bootstrap_servers, fresh("writer")) as writer:
        await commit_values(writer, at, b"a")
        await abort_values(writer, at, b"never", b"never")
        await commit_values(writer, at, b"b", b"c")
        await abort_values(writer, at, b"never")
        await settled(bootstrap_servers, at)
        (end,) = (await kafka.end_offsets([topic])).values()
        group = fresh("group")
        reader = await kafka.open_reader(group, [topic])
        assert await values(reader, 3) == [b"a", b"b", b"c"]

        async def at_the_end() -> bool:
            assert await reader.poll(10) == []
            return bool(reader.positions() == {TopicPartition(topic, 0): end})

        await eventually(at_the_end)
        await reader.commit()
        await reader.close()
        assert (await kafka.open_reader(group, [topic])).positions() == {TopicPartition(topic, 0): end}


async def test_what_is_not_yet_committed_waits(bootstrap_servers):
    """But for one that asked for it, as a careless provider does."""
    topic = await create_topic(bootstrap_servers, fresh("requests"))
    at = KafkaPartition(topic, 0)
    async with (
        client(bootstrap_servers) as careful,
        client(bootstrap_servers, readers_isolation="read_uncommitted") as careless,
        transactional(bootstrap_servers, fresh("writer")) as writer,
    ):
        patient = await careful.open_reader(fresh("group"), [topic])
        hasty = await careless.open_reader(fresh("group"), [topic])
        await writer.begin_transaction()
        await send_values(writer, at, [b"perhaps"])
        assert await values(hasty, 1) == [b"perhaps"]
        assert await is_quiet(patient)
        await writer.commit_transaction()
        assert await values(patient, 1) == [b"perhaps"]


async def test_positions_handed_over_before_they_were_polled_to_the_end(bootstrap_servers):
    """A commit covers what was polled, not what waits in the reader."""
    topic, group = await create_topic(bootstrap_servers, fresh("answers")), fresh("group")
    async with client(bootstrap_servers) as kafka:
        await kafka.append(numbered(topic, 10))
        reader = await kafka.open_reader(group, [topic])
        await reader.wait(10)
        assert await values(reader, 3, at_most=3) == [b"0", b"1", b"2"]
        assert reader.positions() == {TopicPartition(topic, 0): 3}
        await reader.commit()
        await reader.close()
        again = await kafka.open_reader(group, [topic])
        assert await values(again, 7) == [b"%d" % n for n in range(3, 10)]
        await again.commit(positions={TopicPartition(topic, 0): 5, TopicPartition("another's", 0): 7})
        await again.close()
        assert (await kafka.open_reader(group, [topic])).positions() == {TopicPartition(topic, 0): 5}


async def test_a_rebalance_between_append_and_position_reads_again(bootstrap_servers, caplog):
    """At least once: the records are forwarded by then, and the position is refused. That is no failure."""
    topic, forwarded = [await create_topic(bootstrap_servers, fresh(name), 2) for name in ("answers", "events")]
    group = fresh("group")
    async with client(bootstrap_servers) as kafka, client(bootstrap_servers) as other:
        await kafka.append(numbered(topic, 4, 2))
        one = await kafka.open_reader(group, [topic])
        polled = await take(one, 4)
        append, two = one._append, []

        async def slow(records):
            await append(records)
            two.append(await other.open_reader(group, [topic]))

        one._append = slow
        with caplog.at_level(logging.INFO, "tpf_streams"):
            await one.commit([Record(forwarded, None, record.value, (), 0) for record in polled])
        one._append = append
        again = await asyncio.gather(values(one, 2), values(two[0], 2))
        assert sorted(again[0] + again[1]) == [b"0", b"1", b"2", b"3"]  # type: ignore[type-var]
        await one.commit()
        await two[0].close()
        await alone(one, topic, 2)
        assert len(await values(one, 2)) == 2, "the other's, which it did not commit"
        await one.commit()
        assert (await kafka.end_offsets([forwarded]))[TopicPartition(forwarded, 0)] == 4


async def test_a_position_refused_by_the_group_is_no_failure(bootstrap_servers, caplog):
    """The client learns of a rebalance by its heartbeats; until then it believes in its old generation."""
    topic, group = await create_topic(bootstrap_servers, fresh("answers"), 2), fresh("group")
    # Who has lost its membership joins as another member, behind the session of the one that it was.
    async with client(bootstrap_servers, session_timeout_ms=6_000) as kafka:
        await kafka.append(numbered(topic, 4, 2))
        reader = await kafka.open_reader(group, [topic])
        await take(reader, 4)
        coordinator = reader._consumer._coordinator
        generation, coordinator.generation = coordinator.generation, coordinator.generation + 7
        with caplog.at_level(logging.INFO, "tpf_streams"):
            await reader.commit()
            await reader.wait(0)  # positions are stored now and then, and before any wait
        assert generation > 0
        assert "its records are read again" in caplog.text
        assert sorted(await values(reader, 4)) == [b"0", b"1", b"2", b"3"]  # type: ignore[type-var]
        await reader.commit()


async def test_a_reader_of_a_topic_that_is_not_there_is_refused_and_leaves_nothing(bootstrap_servers, monkeypatch):
    async with client(bootstrap_servers) as kafka:
        readers: list[KafkaReader] = []
        opening = KafkaReader.open

        async def fails(reader: KafkaReader) -> None:
            readers.append(reader)
            await opening(reader)
            raise OSError("gone")

        monkeypatch.setattr(KafkaReader, "open", fails)
        topic = await create_topic(bootstrap_servers, fresh("answers"))
        with pytest.raises(LogError, match="gone"):
            await kafka.open_reader(fresh("group"), [topic])
        with pytest.raises(TaskLostError):
            await readers[0].poll(1)


async def test_no_broker_is_told_of_and_leaves_nothing(tmp_path):
    with pytest.raises(LogError, match=r"no Kafka at 127\.0\.0\.1:1"):
        async with opened("127.0.0.1:1", "app", tmp_path):
            pass


async def test_a_closed_reader_is_forgotten(bootstrap_servers):
    """A router opens its readers again and again for as long as its broker is gone."""
    topic = await create_topic(bootstrap_servers, fresh("topic"))
    async with client(bootstrap_servers) as kafka:
        reader = await kafka.open_reader(fresh("group"), [topic])
        assert kafka._readers == {reader}
        await reader.close()
        assert kafka._readers == set()
        await reader.close()
        await kafka.open_reader(fresh("group"), [topic])  # for `close` to end
    assert kafka._readers == set()

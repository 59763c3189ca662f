"""The router at work: its groups, a failing log, a successor, an orderly end."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from tests.unit.engine.router_bench import (
    Bench,
    Facts,
    await_step,
    completion,
    opened,
    pipeline,
)
from tpf_streams.core.step import (
    Cardinality,
    TransportSpec,
)
from tpf_streams.engine.router import CompletionRouter, response_topics
from tpf_streams.errors import LogError, TaskLostError
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.ports import Record, TopicPartition
from tpf_streams.testing.clock import ManualClock

# --- groups ---------------------------------------------------------------------------------------------------------


def test_response_topics_by_group():
    definition = pipeline(
        await_step(0, "answers", consumer={"group": "orchestrator"}),
        await_step(1, "others", cardinality=Cardinality.MANY_TO_MANY),
        await_step(2, "answers", consumer={"group": "second"}),
        await_step(3, "more", consumerGroup="orchestrator"),
        replace(await_step(4), transport=TransportSpec("webhook")),
    )
    limits = definition.limits
    assert [(group.group, dict(group.payload_bytes_max)) for group in response_topics(definition)] == [
        ("orchestrator", {"answers": limits.max_payload_bytes, "more": limits.max_payload_bytes}),
        ("app-router", {"others": limits.max_aggregate_bytes}),
    ]


async def test_each_group_is_read_by_its_reader():
    bench = await opened(pipeline(await_step(0, consumer={"group": "one"}), await_step(1, "others")))
    await bench.put(completion(1))
    await bench.put(completion(2), topic="others")
    await bench.drain()
    assert {record.value for record in bench.events()} == {completion(1), completion(2)}
    assert {"answers/0": 1, "answers/1": 0} in bench.markers()
    assert {"others/0": 1} in bench.markers()


async def test_without_response_topics_there_is_nothing_to_do():
    bench = await opened(pipeline(replace(await_step(), transport=TransportSpec("interaction-api"))))
    assert not await bench.router.step()
    await bench.router.run(asyncio.Event())


# --- failures -------------------------------------------------------------------------------------------------------


async def test_a_successor_goes_on_where_the_records_were_committed():
    bench = await opened()
    await bench.put(completion(1))
    await bench.drain()
    await bench.router.close()
    await bench.router.close()
    await bench.put(completion(2))
    await bench.router.open()
    await bench.drain()
    assert sorted(record.value for record in bench.events()) == sorted([completion(1), completion(2)])


class FailingReader:
    """A reader whose log refuses: then it is of no use any more (ports.RecordReader)."""

    def __init__(self, log, reader):
        self.log, self.reader = log, reader
        self.poll, self.wait, self.positions, self.close = reader.poll, reader.wait, reader.positions, reader.close

    async def commit(self, records=()):
        if self.log.fails():
            await self.reader.close()
            raise LogError("the broker is away")
        await self.reader.commit(records)


class FailingLog(MemoryLog):
    """Fails `left` commits and openings of readers, one after another."""

    left = 0

    async def open_reader(self, group, topics):
        if self.fails():
            raise LogError("the broker is away")
        return FailingReader(self, await super().open_reader(group, topics))

    def fails(self):
        self.left -= 1
        return self.left >= 0


async def test_a_step_raises_what_the_log_raises_and_nothing_is_half_done():
    bench = await opened(log_class=FailingLog)
    await bench.put(completion(1), b"poison")
    bench.log.left = 1
    with pytest.raises(LogError):
        await bench.router.step()
    assert (bench.events(), bench.dead_letters(), bench.facts) == ([], [], [])
    with pytest.raises(TaskLostError):
        await bench.router.step()
    await bench.router.open()
    await bench.drain()
    assert (len(bench.events()), len(bench.dead_letters()), bench.drops()) == (1, 1, ["invalid_envelope"])


async def settle(turns=50):
    for _ in range(turns):
        await asyncio.sleep(0)


async def test_running_outlives_a_failing_log_with_back_off(caplog):
    bench = Bench(log_class=FailingLog)
    stop = asyncio.Event()
    running = asyncio.create_task(bench.router.run(stop))
    await settle()
    await bench.put(completion(1))
    bench.log.left = 3
    with caplog.at_level(logging.CRITICAL):
        waits = []
        for _ in range(3):
            await settle()
            waits.append(bench.clock.next_wake_ms)
            bench.clock.advance(waits[-1] or 0)
        await settle()
    assert waits == [100, 200, 400]
    assert len(bench.events()) == 1
    stop.set()
    await running


async def test_stopping_ends_a_back_off_at_once(caplog):
    bench = Bench(log_class=FailingLog)
    bench.log.left = 1
    stop = asyncio.Event()
    with caplog.at_level(logging.CRITICAL):
        running = asyncio.create_task(bench.router.run(stop))
        await settle()
        assert bench.clock.next_wake_ms == 100
        stop.set()
        await running


async def test_running_wakes_for_new_records_and_gives_its_readers_back():
    clock = ManualClock()
    log = MemoryLog(application_id="app", partitions=2, topics={"answers": 2}, clock=clock, blocking_waits=True)
    router = CompletionRouter(log, pipeline(), Facts(), clock)
    stop = asyncio.Event()
    running = asyncio.create_task(router.run(stop))
    await settle()
    await log.append([Record("answers", None, completion(1))])
    await settle()
    kinds = [dict(record.headers)["tpf-event"] for record in log.read("app-events")]
    assert kinds.count(b"completion") == 1
    stop.set()
    await running
    reader = await log.open_reader("app-router", ["answers"])
    assert set(reader.positions()) == {TopicPartition("answers", 0), TopicPartition("answers", 1)}
    await reader.close()


async def test_cancelling_gives_the_readers_back_too():
    bench = Bench()
    running = asyncio.create_task(bench.router.run(asyncio.Event()))
    await settle()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    reader = await bench.log.open_reader("app-router", ["answers"])
    assert len(reader.positions()) == 2
    await reader.close()

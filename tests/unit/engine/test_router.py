"""The completion router: home by arithmetic, poison aside, markers behind what is forwarded, positions with it."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from tpf_streams.core.effects import Fact
from tpf_streams.core.identity import IdFactory, partition_of, route_of
from tpf_streams.core.step import (
    AwaitDefinition,
    Cardinality,
    CorrelationStrategy,
    Limits,
    PipelineDefinition,
    TransportSpec,
)
from tpf_streams.engine.router import BATCH_MAX, CompletionRouter, response_topics
from tpf_streams.errors import LogError, TaskLostError
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.ports import Record, TopicPartition
from tpf_streams.testing.clock import START_MS, ManualClock

IDS = IdFactory("secret")
FIELD_DATA = Path(__file__).parents[2] / "field" / "data"


def await_step(index=0, response="answers", cardinality=Cardinality.ONE_TO_ONE, **options):
    spec = TransportSpec(
        "kafka", options={"request": {"topic": "requests"}, "response": {"topic": response}, **options}
    )
    return AwaitDefinition(
        index=index,
        name="Await",
        step_id="ProcessAwaitService",
        cardinality=cardinality,
        input_type="In",
        output_type="Out",
        timeout_ms=60_000,
        transport=spec,
        correlation=CorrelationStrategy.SIGNED_RESUME_TOKEN,
        require_token=True,
    )


def pipeline(*steps, **more):
    return PipelineDefinition("pay", "pay", steps or (await_step(),), "app", "secret", **more)


def ids(number):
    execution_id = IDS.execution_id("t", "pay", f"key-{number}", 0)
    unit = IDS.unit("t", execution_id, "ProcessAwaitService", 0, 0)
    return unit.interaction_id(None), unit.correlation_id(None)


def home_of(ident):
    route = route_of(ident)
    assert route is not None
    return partition_of(route, 4)


def completion(number=1, **fields):
    interaction_id, correlation_id = ids(number)
    envelope = {"tenantId": "t", "interactionId": interaction_id, "correlationId": correlation_id}
    return json.dumps({**envelope, "responsePayload": {"n": number}, **fields}).encode()


class Facts(list[Fact]):
    def observe(self, facts):
        self.extend(facts)


class Bench:
    """A memory log of 4 event partitions and 2 response partitions with a router over it."""

    def __init__(self, definition=None, log_class=MemoryLog, **options):
        self.clock = ManualClock()
        self.facts = Facts()
        topics = {"answers": 2, "others": 1, "app-dead-letters": 1}
        self.log = log_class(application_id="app", partitions=4, topics=topics, clock=self.clock)
        self.router = CompletionRouter(self.log, definition or pipeline(), self.facts, self.clock, **options)

    async def put(self, *values, key=None, topic="answers", partition=0):
        await self.log.append([Record(topic, key, value, (), partition) for value in values])

    async def drain(self):
        while await self.router.step():
            pass

    def events(self, kind=b"completion"):
        return [record for record in self.log.read("app-events") if dict(record.headers)["tpf-event"] == kind]

    def markers(self, partition=0):
        return [json.loads(record.value) for record in self.events(b"marker") if record.partition == partition]

    def dead_letters(self):
        return [
            (record.value, dict(record.headers)["tpf-reason"].decode()) for record in self.log.read("app-dead-letters")
        ]

    def drops(self):
        return [fact.labels["reason"] for fact in self.facts]


async def opened(*args, **options):
    bench = Bench(*args, **options)
    await bench.router.open()
    return bench


async def test_a_completion_goes_home_with_its_bytes_arrival_and_source():
    bench = await opened()
    await bench.put(b"\x00")
    bench.clock.advance(40)
    value = completion(7)
    await bench.put(value, key=b"whatever")
    bench.clock.advance(5_000)
    await bench.drain()
    [record] = bench.events()
    interaction_id, _ = ids(7)
    assert record.partition == home_of(interaction_id)
    assert (record.key, record.value) == (interaction_id.encode(), value)
    assert record.headers == (
        ("tpf-event", b"completion"),
        ("tpf-version", b"1"),
        ("tpf-arrived-at", b"%d" % (START_MS + 40)),
        ("tpf-source", b"answers/0/1"),
    )


@pytest.mark.parametrize("key", [None, b"constant", b"correlation"])
async def test_every_partition_finds_its_own_whatever_the_key(key):
    """O12: keys are not needed for correctness."""
    bench = await opened()
    for number in range(40):
        await bench.put(completion(number), key=key, partition=number % 2)
    await bench.drain()
    homes = {record.value: record.partition for record in bench.events()}
    assert homes == {completion(number): home_of(ids(number)[0]) for number in range(40)}
    assert set(homes.values()) == {0, 1, 2, 3}


async def test_a_correlation_id_alone_leads_home():
    bench = await opened()
    await bench.put(completion(3, interactionId=" "))
    await bench.drain()
    [record] = bench.events()
    assert record.partition == home_of(ids(3)[1])


async def test_an_id_that_is_none_of_ours_is_not_found():
    bench = await opened()
    await bench.put(completion(1, interactionId="int-1"), completion(2, interactionId=None, correlationId="cor-2"))
    await bench.drain()
    assert (bench.events(), bench.dead_letters()) == ([], [])
    assert [fact.name for fact in bench.facts] == ["completion.dropped.total"] * 2
    assert bench.facts[0].labels == {"transport": "kafka", "reason": "not_found"}
    assert bench.facts[0].ids == {"source": "answers/0/0", "detail": "the id is none of ours"}


POISON = {
    None: "null value",
    b"": "zero-length value",
    b" \n": "blank value",
    b"this line is not JSON": "not JSON",
    b'{"tenantId":"t","interactionId":"': "not JSON",
    b"[]": "not an object",
    b'"just a string"': "not an object",
    b"42": "not an object",
    b"null": "not an object",
    b'{"hello": "world"}': "wrong shape",
    b'{"tenantId":"t","tenantId":"u","interactionId":"i","responsePayload":1}': "repeated key",
    b"\xff\xfe": "not UTF-8",
    b"[" * 100_000: "too deep",
}


async def test_poison_goes_aside_with_its_reason_and_reading_goes_on():
    """O10, O11."""
    bench = await opened()
    await bench.put(completion(1), *POISON, completion(2))
    await bench.drain()
    assert bench.dead_letters() == list(POISON.items())
    assert {record.value for record in bench.events()} == {completion(1), completion(2)}
    assert bench.drops() == ["invalid_envelope"] * len(POISON)
    assert bench.markers()[-1]["answers/0"] == len(POISON) + 2
    first = next(bench.log.read("app-dead-letters"))
    headers = dict(first.headers)
    assert (headers["tpf-source-topic"], headers["tpf-source-partition"]) == (b"answers", b"0")
    assert (headers["tpf-source-offset"], headers["tpf-message"]) == (b"1", b"invalid_envelope: null value")


async def test_the_console_lines_of_the_field_case():
    """O10: the poison of a console producer; ids there are none of ours, so what is good is `not_found` here."""
    bench = await opened()
    lines = (FIELD_DATA / "O10.console.txt").read_bytes().splitlines()
    await bench.put(*lines)
    await bench.drain()
    assert [value for value, _ in bench.dead_letters()] == lines[1:10]
    assert bench.drops().count("not_found") == 3


async def test_too_large_is_told_apart():
    bench = await opened(pipeline(limits=Limits(max_payload_bytes=100)))
    await bench.put(completion(1, responsePayload="x" * 99))
    await bench.drain()
    assert bench.drops() == ["payload_too_large"]
    assert bench.dead_letters() == [(completion(1, responsePayload="x" * 99), "payload too large")]


async def test_an_aggregate_may_be_larger():
    limits = Limits(max_payload_bytes=100, max_aggregate_bytes=1_000)
    bench = await opened(pipeline(await_step(cardinality=Cardinality.MANY_TO_MANY), limits=limits))
    await bench.put(completion(1, responsePayload="x" * 900))
    await bench.drain()
    assert len(bench.events()) == 1


async def test_strict_envelopes():
    bench = await opened(pipeline(strict_envelopes=True))
    await bench.put(completion(1, extra=1))
    await bench.drain()
    assert [reason for _, reason in bench.dead_letters()] == ["unknown field"]


async def test_arrival_may_be_the_time_of_reading():
    bench = await opened(read_time=True)
    await bench.put(completion(1))
    bench.clock.advance(5_000)
    await bench.drain()
    assert dict(bench.events()[0].headers)["tpf-arrived-at"] == b"%d" % (START_MS + 5_000)


# --- markers (contract 0.8) -----------------------------------------------------------------------------------------


async def test_at_opening_the_end_is_marked_on_every_partition_once():
    bench = await opened()
    assert not await bench.router.step()
    for partition in range(4):
        assert bench.markers(partition) == [{"answers/0": 0, "answers/1": 0}]
    bench.clock.advance(60_000)
    assert not await bench.router.step()
    assert len(bench.events(b"marker")) == 4


async def test_a_marker_follows_what_it_speaks_of():
    bench = await opened()
    await bench.put(*(completion(number) for number in range(20)))
    await bench.drain()
    for partition in range(4):
        mine = [record for record in bench.log.read("app-events") if record.partition == partition]
        assert dict(mine[-1].headers)["tpf-event"] == b"marker"
        assert json.loads(mine[-1].value) == {"answers/0": 20, "answers/1": 0}


async def test_while_moving_a_marker_a_second_and_one_at_the_end():
    bench = await opened()
    await bench.router.step()
    await bench.put(*[completion(1)] * (3 * BATCH_MAX))
    await bench.router.step()
    bench.clock.advance(1_000)
    await bench.router.step()
    bench.clock.advance(999)
    await bench.router.step()
    assert [marker["answers/0"] for marker in bench.markers()] == [0, 2 * BATCH_MAX]
    await bench.router.step()
    assert [marker["answers/0"] for marker in bench.markers()] == [0, 2 * BATCH_MAX, 3 * BATCH_MAX]


async def test_a_trickle_is_marked_once_a_second_at_most():
    """A marker a record would make every partition commit for every answer."""
    bench = await opened()
    await bench.drain()
    for number in range(10):
        await bench.put(completion(number))
        bench.clock.advance(250)
        await bench.drain()
    assert [marker["answers/0"] for marker in bench.markers()] == [0, 4, 8]
    bench.clock.advance(1_000)
    await bench.drain()
    assert bench.markers()[-1]["answers/0"] == 10


async def test_two_routers_mark_what_each_has():
    bench = await opened()
    other = CompletionRouter(bench.log, pipeline(), bench.facts, bench.clock)
    await other.open()
    await bench.put(completion(1), partition=0)
    await bench.put(completion(2), partition=1)
    await bench.drain()
    while await other.step():
        pass
    assert len(bench.events()) == 2
    assert sorted(str(marker) for marker in bench.markers()) == ["{'answers/0': 1}", "{'answers/1': 1}"]
    await other.close()


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

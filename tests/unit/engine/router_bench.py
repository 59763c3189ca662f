"""A completion router on a memory log, and the pipelines and completions that it is tried with."""

from __future__ import annotations

import json
from pathlib import Path

from tpf_streams.core.effects import Fact
from tpf_streams.core.identity import IdFactory, partition_of, route_of
from tpf_streams.core.step import (
    AwaitDefinition,
    Cardinality,
    CorrelationStrategy,
    PipelineDefinition,
    TransportSpec,
)
from tpf_streams.engine.router import CompletionRouter
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.ports import Record
from tpf_streams.testing.clock import ManualClock

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
        return [fact.labels["reason"] for fact in self.facts if fact.name == "completion.dropped.total"]


async def opened(*args, **options):
    bench = Bench(*args, **options)
    await bench.router.open()
    return bench

"""An engine by hand: steps from plain functions, a memory log, a clock that moves when told."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import orjson

from tests.unit.core.machine import SECRET, pipeline
from tpf_streams.core.context import StepContext
from tpf_streams.core.effects import Fact
from tpf_streams.core.events import ExecutionSubmitted
from tpf_streams.core.execution import ExecutionRecord, OwedRecord
from tpf_streams.core.identity import IdFactory
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.rows import deadline_of
from tpf_streams.core.step import Json, PipelineDefinition, TransportSpec
from tpf_streams.core.token import TokenSigner
from tpf_streams.engine.budgets import Budgets
from tpf_streams.engine.environment import Environment
from tpf_streams.engine.retry import RetryPolicy
from tpf_streams.engine.segments import SegmentRunner
from tpf_streams.engine.task import Task
from tpf_streams.engine.wire import completion_record, dead_letters_topic, encode_submission, events_topic
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.ports import AwaitTransport, InputRecord, Record, StepKind
from tpf_streams.testing.clock import ManualClock
from tpf_streams.transports.registry import transports_for

CONTEXT = StepContext("tenant-1", "execution-1", 1_700_000_000_000)
KAFKA = TransportSpec(
    "kafka",
    "kafka://requests",
    live=True,
    options={"request": {"topic": "requests"}, "response": {"topic": "responses"}},
)


class PlainStep:
    """A `BoundStep` of a function, of whatever kind it is. Values are what they are."""

    def __init__(self, function: Callable[..., Any], accepts: Callable[[Any], bool] = lambda _: True) -> None:
        self.function = function
        self.name = function.__name__
        self.accepts = accepts
        self.kind = _kind(function)
        self.takes_context = _takes_context(function)

    def call(self, value: object, context: StepContext | None) -> Any:
        return self.function(value, context) if self.takes_context else self.function(value)

    @property
    def finish(self) -> Callable[[Any], Any]:
        return lambda result: result


def _kind(function: Callable[..., Any]) -> StepKind:
    if inspect.isasyncgenfunction(function):
        return StepKind.ASYNC_GENERATOR
    if inspect.iscoroutinefunction(function):
        return StepKind.ASYNC_FUNCTION
    return StepKind.GENERATOR if inspect.isgeneratorfunction(function) else StepKind.FUNCTION


def _takes_context(function: Callable[..., Any]) -> bool:
    return len(inspect.signature(function).parameters) > 1


class PlainBindings:
    def __init__(self, steps: Mapping[int, Callable[..., Any] | PlainStep]) -> None:
        self.steps = {i: it if isinstance(it, PlainStep) else PlainStep(it) for i, it in steps.items()}

    def step(self, index: int) -> PlainStep:
        return self.steps[index]

    def decode(self, index: int, payload: Json) -> object:
        return payload

    def encode(self, index: int, value: object) -> Json:
        return value


def runner(
    definition: PipelineDefinition,
    *functions: Callable[..., Any] | PlainStep,
    clock: ManualClock | None = None,
    policy: RetryPolicy | None = None,
    executor: Executor | None = None,
) -> SegmentRunner:
    """A runner of the service steps of `definition`, in their order."""
    indexes = [step.index for step in definition.steps if not hasattr(step, "transport")]
    bindings = PlainBindings(dict(zip(indexes, functions, strict=True)))
    return SegmentRunner(definition, bindings, clock or ManualClock(), policy or RetryPolicy(limit=2), executor)


class Noted:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []

    def observe(self, facts: Sequence[Fact]) -> None:
        self.facts.extend(facts)

    def count(self, name: str) -> int:
        return sum(fact.count for fact in self.facts if fact.name == name)


class Shell:
    """One partition of a pipeline on a memory log."""

    def __init__(
        self,
        shape: str,
        *functions: Callable[..., Any] | PlainStep,
        log: MemoryLog | None = None,
        transports: Mapping[str, AwaitTransport] | None = None,
        policy: RetryPolicy | None = None,
        executor: Executor | None = None,
        **options: Any,
    ) -> None:
        self.definition = pipeline(shape, **({"transport": KAFKA} if "k" in shape else {}), **options)
        self.clock = ManualClock()
        self.log = log or MemoryLog(application_id="pay", partitions=1, clock=self.clock)
        self.observer = Noted()
        self.runner = runner(self.definition, *functions, clock=self.clock, policy=policy, executor=executor)
        found = transports or transports_for(self.definition, TokenSigner((SECRET,)))
        self.env = Environment(
            self.definition, self.log, self.clock, found, self.runner, Budgets(self.definition), observer=self.observer
        )
        self.task = Task(0, self.env)

    async def open(self) -> Shell:
        await self.task.open()
        return self

    async def reopen(self) -> None:
        """The task is lost and opened anew, over the same log."""
        await self.task.close()
        self.task = Task(0, self.env)
        await self.task.open()

    async def append(self, parts: tuple[bytes | None, bytes, Any]) -> None:
        key, value, headers = parts
        await self.log.append([Record(events_topic("pay"), key, value, headers, 0)])

    async def submit(self, payload: Json = None, key: str = "key-1") -> str:
        await self.append(encode_submission(ExecutionSubmitted("tenant-1", key, payload)))
        await self.settle()
        return IdFactory("ids").execution_id("tenant-1", "pay", key, 0)

    async def answer(self, interaction: InteractionRecord, payload: Json = None, **changes: Any) -> None:
        """Append a good completion, or one with other fields; it is decided by the next turn."""
        from tests.unit.core.machine import token

        envelope = {
            "tenantId": interaction.tenant_id,
            "interactionId": interaction.interaction_id,
            "correlationId": interaction.correlation_id,
            "resumeToken": token(interaction),
            "responsePayload": {"ok": True} if payload is None else payload,
            **changes,
        }
        value = orjson.dumps(envelope)
        await self.log.append(
            [completion_record(events_topic("pay"), 0, interaction.interaction_id, value, self.clock.now_ms(), "here")]
        )

    async def settle(self, turns: int = 300) -> None:
        """Turn until nothing moves by itself."""
        quiet = 0
        for _ in range(turns):
            moved = await self.task.turn()
            await asyncio.sleep(0)
            quiet = 0 if moved else quiet + 1
            if quiet == 8:
                return
        raise AssertionError("the task still moves")

    async def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        await self.settle()

    # What there is

    def execution(self, execution_id: str) -> ExecutionRecord:
        found = self.task.execution(execution_id)
        assert found is not None
        return found

    def open_interactions(self) -> list[InteractionRecord]:
        state = self.task.state
        rows = [
            state.get(state.keys.interaction(deadline_of(key)[1]), InteractionRecord)
            for key in state.scan_keys(state.keys.all_deadlines())
        ]
        return sorted((row for row in rows if row is not None), key=lambda row: row.item_index or 0)

    def owed(self) -> list[OwedRecord]:
        return [row for _, row in self.task.state.scan(self.task.state.keys.all_owed(), OwedRecord)]

    def outputs(self) -> list[Any]:
        return [orjson.loads(record.value or b"")["payload"] for record in self.log.read("pay-outputs")]

    def dead_letters(self) -> list[InputRecord]:
        return list(self.log.read(dead_letters_topic("pay")))

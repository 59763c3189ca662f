"""TopologyTestDriver: a pipeline without broker, threads or real time, driven by hand.

    with TopologyTestDriver("pipeline.yaml") as driver:
        execution = driver.submit({"orderId": "o-1", "amount": "12.50", "currency": "EUR"})
        request = driver.requests()[0]
        assert driver.answer(request, {"orderId": "o-1", "approved": True, "score": 3, "reason": "fine"}) == "admitted"
        assert driver.execution(execution).status == "SUCCEEDED"

Every call runs the pipeline until nothing moves any more without more time, more input or more demand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import orjson

from tpf_streams.core.evolve import replace
from tpf_streams.core.execution import ExecutionRecord, OutputRecord, RejectRecord
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.step import AwaitDefinition, Json
from tpf_streams.core.unit import AwaitUnitRecord, SessionRecord
from tpf_streams.dsl.load import LoadedPipeline, load_pipeline
from tpf_streams.dsl.outgoing import outgoing
from tpf_streams.dsl.written import PipelineDocument
from tpf_streams.engine.task import Task
from tpf_streams.engine.wire import dead_letters_topic
from tpf_streams.errors import LogError
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.ports import InputRecord, Record
from tpf_streams.runtime.build import build, metrics_of, submissions
from tpf_streams.runtime.sampler import scraped
from tpf_streams.runtime.tally import Tally
from tpf_streams.runtime.views import LogViews
from tpf_streams.testing.clock import ManualClock
from tpf_streams.testing.provider import SimulatedProvider

T = TypeVar("T")
QUIET_PASSES = 5
"""Passes over everything without a move after which nothing will move by itself."""
PASSES_MAX = 100_000
SECRET = "a-secret-for-tests-only"


class TopologyTestDriver:
    """One pipeline on a MemoryLog with a ManualClock. Not thread-safe; close it, or use it as a context manager.

    `settings` are the reference's property names; a resume token secret is given unless you give one. `functions` binds
    callables by step name instead of `service`. `partitions`: 1 unless a test is about several. A `log` of your own may
    fail its commits (`tpf_streams.testing.faults`): a task that loses its turn is opened anew, as in a worker.
    """

    def __init__(
        self,
        pipeline: str | Path | PipelineDocument | LoadedPipeline,
        *,
        settings: Mapping[str, str] | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        output_dir: Path | None = None,
        partitions: int = 1,
        clock: ManualClock | None = None,
        log: MemoryLog | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        self._file = str(pipeline) if isinstance(pipeline, str | Path) else "pipeline"
        self.loaded = pipeline if isinstance(pipeline, LoadedPipeline) else _load(pipeline, settings, functions)
        self.definition = self.loaded.definition
        self.log = log or MemoryLog(
            application_id=self.definition.application_id, partitions=partitions, clock=self.clock
        )
        self.views = LogViews(self.log, self.definition)
        self.providers: list[SimulatedProvider] = []
        self.tally = Tally()
        self._metrics = metrics_of(self.loaded)
        self._output_dir = output_dir
        self._runner = asyncio.Runner()
        self._demand = inf
        self._up = False
        self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give everything back. Idempotent."""
        if self._runner is not None:
            self._call(self._close())
            self._runner.close()
            self._runner = None  # type: ignore[assignment]

    # Input

    def submit(self, payload: Json, *, key: str | None = None, tenant: str | None = None) -> str:
        """Ask for an execution with `payload`; without a key its content is the key. -> execution id."""
        key = key if key is not None else orjson.dumps(payload, option=orjson.OPT_SORT_KEYS).decode()
        execution_id = self._call(self.application.submit(payload, key=key, tenant=tenant))
        self.run()
        return execution_id

    def submit_files(self, *paths: str | Path) -> list[str]:
        """Ask for an execution for each object below `paths`, as `tpf-streams run --input` does. -> execution ids."""
        found: list[str] = []
        for item in submissions(self.loaded, [str(path) for path in paths], self._file):
            if item.problem is None:
                found.append(
                    self._call(self.application.submit(item.payload, key=item.execution_key, source=item.source))
                )
        self.run()
        return found

    def send(self, topic: str, value: bytes | None, *, key: bytes | None = None) -> None:
        """Append a record to a topic, as any other program would, and let the pipeline take it."""
        self._call(self.log.append([Record(topic, key, value)]))
        self.run()

    def answer(self, request: Mapping[str, Any] | InteractionRecord, payload: Json, **fields: Json) -> str:
        """Complete the interaction of a request envelope, or of a `pending` row (without a token, as an inbox does).

        `payload`: plain JSON, or what stands for it: a protobuf message, a pydantic model, a dataclass. -> the outcome.
        `fields` override the envelope's own.
        """
        if isinstance(request, InteractionRecord):
            request = {
                "tenantId": request.tenant_id,
                "interactionId": request.interaction_id,
                "correlationId": request.correlation_id,
            }
        envelope: dict[str, Json] = {
            "tenantId": request["tenantId"],
            "interactionId": request["interactionId"],
            "correlationId": request["correlationId"],
            "resumeToken": request.get("resumeToken"),
            "responsePayload": payload,
            **fields,
        }
        return self.complete(envelope)

    def complete(self, envelope: Mapping[str, Json] | bytes) -> str:
        """Hand in a completion envelope and wait for its outcome (contract 0.4)."""
        return self.complete_all([envelope])[0]

    def complete_all(self, envelopes: Sequence[Mapping[str, Json] | bytes]) -> list[str]:
        """Hand in several completions at the same moment, in this order; -> the outcome of each."""
        data = [it if isinstance(it, bytes) else orjson.dumps(dict(it), default=outgoing) for it in envelopes]
        outcomes = self._call(self._complete(data))
        self.run()
        return outcomes

    def provide(self, provider: SimulatedProvider) -> SimulatedProvider:
        """Let a simulated provider answer from now on."""
        self._call(provider.open())
        self.providers.append(provider)
        self.run()
        return provider

    # Control

    def run(self) -> None:
        """Run until nothing moves. Every other call does it too."""
        self._call(self._settle())

    def advance(self, ms: int) -> None:
        """Let time pass, and what it brings happen, wake-up by wake-up."""
        end = self.clock.now_ms() + ms
        while True:
            wakes = [self.clock.next_wake_ms, *(it.next_answer_ms for it in self.providers), self._next_retry_ms()]
            wake = min((found for found in wakes if found is not None), default=None)
            if wake is None or self.clock.now_ms() + wake >= end:
                break
            self.clock.advance(max(1, wake))
            self.run()
        self.clock.advance(end - self.clock.now_ms())
        self.run()

    def hold_demand(self) -> None:
        """Downstream asks for nothing until `request`, over crashes too: answers are recorded and wait."""
        self._demand = 0.0
        self.application.environment.demand = 0.0
        for task in self.tasks():
            task.performer.demand = 0.0

    def request(self, count: float) -> None:
        """Downstream asks for `count` more items of every partition; `math.inf` opens it."""
        if count == inf:
            self._demand = self.application.environment.demand = inf
        for task in self.tasks():
            task.performer.request(count)
        self.run()

    def cancel_session(self, execution_id: str) -> None:
        """End a live session: the stream goes on by the durable path (contract 0.20)."""
        self._call(self.application.cancel_session(execution_id))
        self.run()

    def cancel_execution(self, execution_id: str, reason: str = "cancelled by a test") -> str:
        """-> the outcome (`core.outcome.OperatorOutcome`)."""
        return self._told(self.application.cancel_execution(execution_id, reason))

    def cancel_interaction(self, interaction_id: str, reason: str = "cancelled by a test") -> str:
        """-> the outcome."""
        return self._told(self.application.cancel_interaction(interaction_id, reason))

    def redrive(
        self,
        execution_id: str,
        *,
        expected_version: int | None = None,
        allow_failed: bool = True,
        reason: str = "redriven by a test",
    ) -> str:
        """Let a failed execution go on where it failed (contract 0.14); -> the outcome."""
        return self._told(
            self.application.redrive(
                execution_id, expected_version=expected_version, allow_failed=allow_failed, reason=reason
            )
        )

    def crash(self) -> None:
        """Lose the process: whatever is not durable is gone. The next incarnation opens and goes on."""
        self.stop()
        self._open()
        self.run()

    def stop(self) -> None:
        """Lose the process and stay down; `start` brings the next one up. Providers live elsewhere and go on."""
        self._up = False
        self.log.crash()
        self._call(self._close())
        for provider in self.providers:
            self._call(provider.open())

    def start(self) -> None:
        self._open()
        self.run()

    # Output

    def requests(self, topic: str | None = None) -> list[dict[str, Any]]:
        """The request envelopes sent so far, oldest first; of all await steps unless one topic is named."""
        topics = [topic] if topic else self._request_topics()
        return [orjson.loads(record.value or b"null") for name in topics for record in self.log.read(name)]

    def outputs(self) -> list[dict[str, Any]]:
        """The values on the output topic, in order of completion (contract 0.16)."""
        return [orjson.loads(record.value or b"null") for record in self.log.read(self.definition.output_topic)]

    def dead_letters(self) -> list[InputRecord]:
        return list(self.log.read(dead_letters_topic(self.definition.application_id)))

    def read_topic(self, topic: str) -> list[InputRecord]:
        """Every committed record of any topic."""
        return list(self.log.read(topic))

    def metric(self, name: str) -> int:
        """How often a fact has become true in all lives, by its name with or without `tpf.await.` (contract 10.1)."""
        return self.tally[name]

    def dropped(self, reason: str) -> int:
        """How many completions were dropped for `reason`, an outcome of contract 0.4."""
        return self.tally.dropped[reason]

    def scrape(self) -> str:
        """What `/metrics` would show, of all lives; empty where the settings switch metrics off."""
        return "" if self._metrics is None else self._call(scraped(self.application, self._metrics))

    # Stores

    def tasks(self) -> Iterator[Task]:
        return iter(list(self.application.worker.tasks.values()))

    def execution(self, execution_id: str) -> ExecutionRecord:
        """Raises KeyError for an execution that does not exist."""
        found = self.views.execution(execution_id)
        if found is None:
            raise KeyError(execution_id)
        return found

    def executions(self) -> list[ExecutionRecord]:
        return list(self.views.executions())

    def session(self, execution_id: str) -> SessionRecord | None:
        return self.views.session(execution_id)

    def interaction(self, interaction_id: str) -> InteractionRecord:
        """Raises KeyError for an interaction that does not exist."""
        found = self.views.interaction(interaction_id)
        if found is None:
            raise KeyError(interaction_id)
        return self._whole(found)

    def unit(self, execution_id: str, step: str | int) -> AwaitUnitRecord | None:
        """The await unit of an execution at a step, by the step's name or index."""
        index = step if isinstance(step, int) else next(it.index for it in self.definition.steps if it.name == step)
        execution = self.execution(execution_id)
        definition = self.definition.steps[index]
        assert isinstance(definition, AwaitDefinition)
        task = self._task(execution_id)
        unit_id = task.state.unit_ids(execution, definition).unit_id
        return task.state.get(task.state.keys.unit(unit_id), AwaitUnitRecord)

    def pending(self, limit: int = 1_000) -> list[InteractionRecord]:
        """Open interactions by deadline; one of an aggregate step with the whole of its request."""
        return [self._whole(row) for row in self.views.pending(limit)]

    def results(self, execution_id: str) -> list[OutputRecord]:
        """The stored outputs of an execution in item order."""
        state = self._task(execution_id).state
        return [record for _, record in state.scan(state.keys.outputs_of(execution_id), OutputRecord)]

    def rejects(self, execution_id: str) -> list[RejectRecord]:
        state = self._task(execution_id).state
        return [record for _, record in state.scan(state.keys.rejects_of(execution_id), RejectRecord)]

    # Inside

    def _whole(self, row: InteractionRecord) -> InteractionRecord:
        return replace(row, request_payload=self.views.request_payload(row))

    def _task(self, execution_id: str) -> Task:
        return next(task for task in self.tasks() if task.execution(execution_id) is not None)

    def _request_topics(self) -> Sequence[str]:
        found = [
            step.transport.options["request"]["topic"]
            for step in self.definition.steps
            if isinstance(step, AwaitDefinition) and step.transport.type == "kafka"
        ]
        return list(dict.fromkeys(found))

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def _open(self) -> None:
        self.application = build(
            self.loaded, self.log, self.clock, output_dir=self._output_dir, tally=self.tally, metrics=self._metrics
        )
        self.application.environment.demand = self._demand
        self._call(self.application.open())
        self._up = True

    def _next_retry_ms(self) -> int | None:
        """How far to advance until an execution is tried again."""
        found = [due for task in self.tasks() if (due := task.state.first_retry_ms()) is not None] if self._up else []
        return max(0, min(found) - self.clock.now_ms()) if found else None

    async def _close(self) -> None:
        await self.application.close()

    def _told(self, wish: Coroutine[Any, Any, str]) -> str:
        outcome = self._call(self._wished(wish))
        self.run()
        return outcome

    async def _wished(self, wish: Coroutine[Any, Any, str]) -> str:
        waiting = asyncio.ensure_future(wish)
        await self._settle()
        return await waiting

    async def _complete(self, data: Sequence[bytes]) -> list[str]:
        waiting = asyncio.gather(*(self.application.complete(it) for it in data))
        await self._settle()
        return await waiting

    async def _settle(self) -> None:
        quiet = 0
        for _ in range(PASSES_MAX):
            moved = [await provider.step() for provider in self.providers]
            if self._up:
                moved += [await self._turn(partition) for partition in self.application.worker.partitions]
                moved.append(await self.application.router.step())
            await asyncio.sleep(0)
            quiet = 0 if any(moved) else quiet + 1
            if quiet == QUIET_PASSES:
                return
        raise AssertionError(f"the pipeline still moves after {PASSES_MAX} passes")

    async def _turn(self, partition: int) -> bool:
        try:
            return await self.application.worker.advance(partition)
        except LogError:
            return True


def _load(
    pipeline: str | Path | PipelineDocument,
    settings: Mapping[str, str] | None,
    functions: Mapping[str, Callable[..., Any]] | None,
) -> LoadedPipeline:
    given = {"pipeline.orchestrator.resume-token-secret": SECRET, **(settings or {})}
    return load_pipeline(pipeline, settings_overrides=given, environ={}, functions=functions or {})

"""A pipeline that runs: its tasks, its router, its inputs, and what can be asked of it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor

from tpf_streams.core.effects import Fact
from tpf_streams.core.envelope import CompletionEnvelope, EnvelopeRefusedError, parse_completion
from tpf_streams.core.events import (
    ExecutionCancelled,
    ExecutionSubmitted,
    InteractionCancelled,
    RedriveRequested,
    SessionCancelled,
)
from tpf_streams.core.identity import IdFactory, partition_of, route_of
from tpf_streams.core.step import AwaitDefinition, Json, PipelineDefinition, SourceObject
from tpf_streams.dsl.tenancy import Tenancy
from tpf_streams.engine.budgets import Budgets
from tpf_streams.engine.environment import Environment, NoMeter
from tpf_streams.engine.owners import Advertised
from tpf_streams.engine.retry import RetryPolicy
from tpf_streams.engine.router import CompletionRouter
from tpf_streams.engine.segments import SegmentRunner
from tpf_streams.engine.wire import (
    Parts,
    completion_record,
    encode_cancel,
    encode_redrive,
    encode_submission,
    events_topic,
    payload_bytes_max,
)
from tpf_streams.engine.worker import Worker
from tpf_streams.errors import PayloadError
from tpf_streams.observability.metrics import Metrics
from tpf_streams.ports import AwaitTransport, Bindings, Clock, Log, ObjectPublisher, Observer, Record
from tpf_streams.runtime.tally import Observers, Tally
from tpf_streams.transports.registry import transports_for

ANSWER_TIMEOUT_S = 10.0


class Application:
    """One pipeline on one log in this process. `open`, then `run` or step by step, then `close`."""

    def __init__(
        self,
        definition: PipelineDefinition,
        bindings: Bindings,
        log: Log,
        clock: Clock,
        *,
        publisher: ObjectPublisher | None = None,
        executor: Executor | None = None,
        policy: RetryPolicy | None = None,
        tally: Tally | None = None,
        metrics: Metrics | None = None,
        watchers: Sequence[Observer] = (),
        default_tenant: str = "default",
        tenancy: Tenancy | None = None,
        deadline_grace_ms: int = 300_000,
        segments_max: int = 64,
        read_time: bool = False,
        lifecycle: bool = True,
        step_loop: asyncio.AbstractEventLoop | None = None,
        advertised: Advertised | None = None,
    ) -> None:
        self.definition = definition
        self.log = log
        self.clock = clock
        self.tally = tally or Tally()
        measured = () if metrics is None else (metrics,)
        watching = (*measured, *watchers)
        self.observer: Observer = Observers(self.tally, *watching) if watching else self.tally
        self.tenancy = tenancy or Tenancy(default_tenant)
        self.default_tenant = self.tenancy.default
        self.ids = IdFactory(definition.id_secret)
        self._bindings = bindings
        self.environment = Environment(
            definition,
            log,
            clock,
            self._transports(definition),
            SegmentRunner(definition, bindings, clock, policy or RetryPolicy(), executor, step_loop),
            Budgets(definition, self._slot_waited, clock.monotonic_s),
            publisher=publisher,
            observer=self.observer,
            meter=NoMeter() if metrics is None else metrics.measures,
            segments_max=segments_max,
            deadline_grace_ms=deadline_grace_ms,
            lifecycle=lifecycle,
            advertised=advertised,
        )
        self.worker = Worker(self.environment)
        self.router = CompletionRouter(log, definition, self.observer, clock, read_time=read_time)

    @staticmethod
    def _transports(definition: PipelineDefinition) -> Mapping[str, AwaitTransport]:
        return transports_for(definition, definition.signer)

    async def open(self) -> None:
        """Open every task and the router. Raises what the log raises."""
        await self.worker.open()
        await self.router.open()

    async def close(self) -> None:
        await self.router.close()
        await self.worker.close()

    async def run(self, stop: asyncio.Event) -> None:
        """Drive everything until `stop`; raises when the log cannot be used any more."""
        router = asyncio.ensure_future(self.router.run(stop))
        try:
            await self.worker.run(stop)
        finally:
            stop.set()
            await router

    # What is asked

    def execution_id(self, key: str, tenant: str | None = None, *, life: int = 0) -> str:
        """The id that an execution key has in one of its lives, whether it exists yet or not (contract 0.1)."""
        return self.ids.execution_id(tenant or self.default_tenant, self.definition.pipeline_id, key, life)

    async def submit(
        self, payload: Json, *, key: str, tenant: str | None = None, source: SourceObject | None = None
    ) -> str:
        """Ask for an execution, durably; the same key again asks for the same one. -> its id."""
        execution_id = self.execution_id(key, tenant)
        event = ExecutionSubmitted(tenant or self.default_tenant, key, payload, source)
        record_key, value, headers = encode_submission(event)
        await self.log.append([self._home(execution_id, record_key, value, headers)])
        return execution_id

    async def submit_and_wait(self, payload: Json, *, key: str, tenant: str, life: int = 0) -> str:
        """As `submit`; -> what became of it (`SubmitOutcome`), known after its commit. `life`: by which a key that is
        used again has been sent on to its home. Raises TimeoutError."""
        return await self._told(
            lambda origin: encode_submission(ExecutionSubmitted(tenant, key, payload, life=life, origin=origin)),
            self.execution_id(key, tenant, life=life),
        )

    def check_input(self, payload: Json) -> None:
        """Raises PayloadError for what is no input of the pipeline: an execution of it would fail at its first step."""
        listed = self.definition.takes_list_input
        if listed and not isinstance(payload, list):
            raise PayloadError(f"the input is a list of {self.definition.steps[0].input_type}")
        for item in payload if listed else [payload]:
            try:
                self._bindings.decode(0, item)
            except PayloadError:
                raise
            except Exception as error:
                # A class of the user's refuses it. Its own words may hold the payload.
                raise PayloadError(f"the conversion raised {type(error).__name__}") from error

    async def complete(self, data: bytes) -> str:
        """Admit a completion envelope; -> its outcome (contract 0.4), known after its commit."""
        limits = self.definition.limits
        try:
            envelope = parse_completion(
                data, max_bytes=payload_bytes_max(limits), strict=self.definition.strict_envelopes
            )
        except EnvelopeRefusedError as error:
            self.dropped(str(error.outcome))
            return str(error.outcome)
        return await self._admit(envelope, data)

    async def _admit(self, envelope: CompletionEnvelope, data: bytes) -> str:
        name = envelope.interaction_id or envelope.correlation_id or ""
        route = route_of(name)
        if route is None:
            self.dropped("not_found")
            return "not_found"
        origin = f"request/{uuid.uuid4()}"
        home = partition_of(route, self.log.partitions)
        outcome = self.environment.answers.expect(origin, home)
        topic = events_topic(self.definition.application_id)
        try:
            await self.log.append([completion_record(topic, home, name, data, self.clock.now_ms(), origin)])
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await outcome
        finally:
            outcome.cancel()

    def dropped(self, reason: str) -> None:
        """Count a completion that reached no partition."""
        self.observer.observe([Fact("completion.dropped.total", {"transport": "unknown", "reason": reason})])

    def _slot_waited(self, step_index: int, seconds: float) -> None:
        self.environment.meter.slot_waited(step_index, seconds)
        step = self.definition.steps[step_index]
        if isinstance(step, AwaitDefinition):
            self.observer.observe([Fact("slot.waited.total", step.labels)])

    async def cancel_session(self, execution_id: str) -> None:
        """End the live session of a stream; it goes on by the durable path (contract 0.20)."""
        await self.log.append([self._home(execution_id, *encode_cancel(SessionCancelled(execution_id)))])

    async def cancel_execution(self, execution_id: str, reason: str) -> str:
        """End an execution; -> the outcome (`OperatorOutcome`), known after its commit."""
        return await self._told(
            lambda origin: encode_cancel(ExecutionCancelled(execution_id, reason, origin)), execution_id
        )

    async def cancel_interaction(self, interaction_id: str, reason: str) -> str:
        """End one interaction; -> the outcome."""
        return await self._told(
            lambda origin: encode_cancel(InteractionCancelled(interaction_id, reason, origin)), interaction_id
        )

    async def redrive(
        self, execution_id: str, *, expected_version: int | None = None, allow_failed: bool = True, reason: str = ""
    ) -> str:
        """Let a failed execution go on where it failed (contract 0.14); -> the outcome."""
        return await self._told(
            lambda origin: encode_redrive(
                RedriveRequested(execution_id, expected_version, allow_failed, reason, origin)
            ),
            execution_id,
        )

    async def _told(self, parts: Callable[[str], Parts], route_id: str) -> str:
        """Append what an operator wants and wait for what became of it. Raises TimeoutError, and TaskLostError where
        its partition is lost meanwhile: it may still come."""
        origin = f"request/{uuid.uuid4()}"
        record = self._home(route_id, *parts(origin))
        outcome = self.environment.answers.expect(origin, record.partition)
        try:
            await self.log.append([record])
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await outcome
        finally:
            outcome.cancel()

    def _home(self, route_id: str, key: bytes | None, value: bytes, headers: tuple[tuple[str, bytes], ...]) -> Record:
        route = route_of(route_id)
        if route is None:
            raise ValueError(f"{route_id} is no id of this application")
        partition = partition_of(route, self.log.partitions)
        return Record(events_topic(self.definition.application_id), key, value, headers, partition)

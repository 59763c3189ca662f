"""What a task does after its commits: pulls, segments, dispatches outside the log, publishing. Never inside one."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial
from math import inf

from tpf_streams.core import effects as fx
from tpf_streams.core.context import StepContext
from tpf_streams.core.events import (
    Event,
    ObjectPublished,
    OwedDue,
    PublishFailed,
    RequestFailed,
    RequestSent,
)
from tpf_streams.core.execution import ExecutionRecord, OutputRecord, OwedKind, OwedRecord, RejectRecord
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.joining import whole_request
from tpf_streams.core.rows import decode
from tpf_streams.core.state import State
from tpf_streams.core.step import AwaitDefinition, Json, SourceObject
from tpf_streams.core.unit import SessionRecord
from tpf_streams.engine.environment import Environment
from tpf_streams.engine.expansion import expands, run_expanding
from tpf_streams.engine.jobs import Jobs, Pause
from tpf_streams.engine.live_session import LiveSession
from tpf_streams.engine.recovery import payload_of
from tpf_streams.engine.retry import code_of, is_terminal, message_of
from tpf_streams.engine.segments import detail_of
from tpf_streams.ports import TaskLog

log = logging.getLogger(__name__)

SOURCES_KEPT = 256
SLOW_TIMES = 3
CONTINUATIONS_MAX = 1_000
"""Continuations that wait before a durable stream is given no more of its own: it may have answers without number."""
INLINE_MS = 50
"""An inline segment that takes longer than this is not quick: it is warned about once a step."""


class Performer:
    """The outside work of one task. `owners`: executions that hold or want slots, to be given back at close."""

    def __init__(
        self,
        env: Environment,
        task_log: TaskLog,
        state: State,
        jobs: Jobs,
        deliver: Callable[[Event], None],
        wake: Callable[[], None],
    ) -> None:
        self.owners: set[str] = set()
        self.sessions: dict[str, LiveSession] = {}
        self.demand = env.demand
        self._env = env
        self._log = task_log
        self._state = state
        self._jobs = jobs
        self._deliver = deliver
        self._wake = wake
        self._ready: deque[fx.RunSegment] = deque()
        self._releases: deque[OwedRecord] = deque()
        self._slow: Counter[int] = Counter()
        self._sources: dict[str, SourceObject] = {}
        self._expanding = [expands(env.definition, index) for index in range(len(env.definition.steps))]

    @property
    def busy(self) -> bool:
        """Whether continuations wait for demand."""
        return bool(self._ready) and self.demand > 0

    def request(self, count: float) -> None:
        """Downstream asks for `count` more items; they are handed on in the order of their answers."""
        self.demand += count
        self._wake()

    # Inside a turn

    def may_run_inline(self, owed: OwedRecord) -> bool:
        """Whether the segment is pure and quick, and nobody waits before it."""
        if not self._env.runner.inline(owed.step_index):
            return False
        if owed.item_index is None:
            return True
        if self.demand <= 0 or self._ready:
            return False
        self.demand -= 1
        return True

    def run_inline(self, effect: fx.RunSegment) -> list[Json]:
        """Raises whatever a step raises."""
        began = time.perf_counter()
        owed, runner = effect.owed, self._env.runner
        context = self._context(owed) if runner.tells_inline(owed.step_index) else None
        outputs = runner.run_inline(owed, effect.value, effect.converted, context)
        took_ms = (time.perf_counter() - began) * 1000
        if took_ms > INLINE_MS:
            self._slow_inline(owed.step_index, took_ms)
        return outputs

    def hand_back(self, owed: OwedRecord) -> None:
        """An inline run failed and comes again as an owed one: its demand is not used up."""
        if owed.item_index is not None:
            self.demand += 1

    def use_slot(self, execution_id: str) -> None:
        session = self.sessions.get(execution_id)
        if session is not None:
            session.use_slot()

    # After a commit

    async def perform(self, effect: fx.Effect) -> None:
        match effect:
            case fx.RunSegment(owed) if owed.item_index is None and self._env.definition.takes_list(owed.step_index):
                self._run(fx.RunSegment(owed, payload_of(self._state, owed)))
            case fx.RunSegment(owed) if owed.item_index is None:
                self._run(effect)
            case fx.RunSegment():
                self._ready.append(effect)
            case fx.ReturnSlot(execution_id, step_index):
                self._return_slot(execution_id, step_index)
            case fx.StartSource(execution_id):
                self._start_source(execution_id)
            case fx.StopSource(execution_id):
                await self._stop_source(execution_id)
            case fx.SendOwed(owed):
                self._jobs.submit(lambda: self._send(owed))
            case fx.ContinueOwed(owed) if owed.kind is OwedKind.RELEASE:
                self._releases.append(owed)
            case fx.ContinueOwed(owed):
                self._deliver(OwedDue(owed))
            case fx.PublishObject(execution_id, attempt):
                self._jobs.start(lambda: self._publish(execution_id, attempt))
            case _:
                raise AssertionError(f"{type(effect).__name__} belongs into the turn")

    async def pump(self) -> bool:
        """Hand on what demand allows, pull what credit allows."""
        moved = False
        while self._ready and self.demand > 0:
            effect = self._ready.popleft()
            if self.demand != inf and not self._still_owed(effect.owed):
                continue
            self.demand -= 1
            self._run(effect)
            moved = True
        while self._releases and len(self._ready) + self._jobs.backlog < CONTINUATIONS_MAX:
            self._deliver(OwedDue(self._releases.popleft()))
            moved = True
        for session in list(self.sessions.values()):
            moved = self._pull(session) or moved
        return moved

    async def close(self) -> None:
        for session in list(self.sessions.values()):
            await session.close()
        self.sessions.clear()
        for execution_id in self.owners:
            self._env.budgets.drop(execution_id)
        self.owners.clear()

    def _still_owed(self, owed: OwedRecord) -> bool:
        """Its execution may have ended while it waited: no step is called for it, and no demand used up."""
        return self._state.get(self._state.keys.owed(owed.execution_id, owed.kind, owed.item_index), OwedRecord) == owed

    def _return_slot(self, execution_id: str, step_index: int) -> None:
        self._env.budgets.release(step_index, execution_id)
        self._forget_owner(execution_id)

    def _forget_owner(self, execution_id: str) -> None:
        """A task lives for months: whoever neither holds nor wants slots any more is dropped with the last of them."""
        if execution_id not in self.sessions and not self._env.budgets.concerns(execution_id):
            self.owners.discard(execution_id)

    def _run(self, effect: fx.RunSegment) -> None:
        owed, runner, context = effect.owed, self._env.runner, self._context(effect.owed)
        wanted = partial(self._still_owed, owed)
        if owed.item_index is not None and self._expanding[owed.step_index]:
            value = payload_of(self._state, owed) if effect.converted else effect.value
            self._jobs.submit(lambda: run_expanding(runner, owed, value, context), wanted)
        else:
            self._jobs.submit(lambda: runner.run(owed, effect.value, effect.converted, context), wanted)

    def _pull(self, session: LiveSession) -> bool:
        row = self._state.base(self._state.keys.session(session.execution_id), SessionRecord)
        if row is None:
            return False
        count = session.pull_count(row)
        if count <= 0 and not session.may_look(row):
            return False
        session.pulling = True
        self._jobs.start(lambda: self._pulled(session, row, count))
        return True

    async def _pulled(self, session: LiveSession, row: SessionRecord, count: int) -> Event | None:
        try:
            event = await session.pull(row, count)
        finally:
            if session.closed:
                await session.release_source()
        if event is None:
            session.pulling = False
            self._wake()
        return event

    def pulled(self, execution_id: str) -> None:
        """A pull has been decided: the next one may begin."""
        session = self.sessions.get(execution_id)
        if session is not None:
            session.pulling = False
            self._wake()

    def _start_source(self, execution_id: str) -> None:
        key = self._state.keys.owed(execution_id, OwedKind.SEGMENT, None)
        owed = self._state.base(key, OwedRecord)
        execution = self._execution(execution_id)
        if owed is None or execution is None or execution_id in self.sessions:
            return
        self.owners.add(execution_id)
        self.sessions[execution_id] = LiveSession(
            self._env.runner,
            self._env.budgets,
            owed,
            payload_of(self._state, owed),
            self._context(owed),
            self._wake,
            execution.generation,
            self._env.meter,
        )

    async def _stop_source(self, execution_id: str) -> None:
        session = self.sessions.pop(execution_id, None)
        if session is not None:
            await session.close()
        execution = self._execution(execution_id)
        if execution is not None and execution.status.terminal:
            self._env.budgets.withdraw(execution_id)
        self._forget_owner(execution_id)

    async def _send(self, owed: OwedRecord, attempt: int = 1) -> Event | Pause | None:
        """One dispatch outside the log, tried again under the same ids."""
        env = self._env
        step = env.definition.steps[owed.step_index]
        interaction = self._state.base(self._state.keys.interaction(owed.interaction_id or ""), InteractionRecord)
        if interaction is None or interaction.status.terminal or not isinstance(step, AwaitDefinition):
            return RequestSent(owed)
        interaction = whole_request(self._state, interaction)
        try:
            return RequestSent(owed, dict(await env.transports[step.transport.type].send(step, interaction)))
        except Exception as error:
            pause = env.runner.policy.pause_s(attempt, error)
            if pause is None:
                why, retryable = f"{code_of(error)}: {message_of(error)}", not is_terminal(error)
                return RequestFailed(owed, why, detail_of(error), retryable)
            return Pause(pause, partial(self._send, owed, attempt + 1))

    async def _publish(self, execution_id: str, attempt: int, tries: int = 1) -> Event | Pause | None:
        """Write the output object from the committed rows, tried again: a repeat writes the same file. Of an execution
        that was cancelled meanwhile no file appears any more."""
        env = self._env
        execution = self._execution(execution_id)
        publisher = env.publisher
        if execution is None or execution.status.terminal or execution.attempt != attempt:
            return None
        if publisher is None:
            why = "NO_PUBLISHER", "the pipeline publishes and no publisher is set up", ""
            return PublishFailed(execution_id, *why, attempt=attempt)
        try:
            # The scans begin here, on the thread that writes: in the pool a turn could move the rows under them.
            rows = self._outputs(execution_id), self._rejects(execution_id)
            write = partial(publisher.publish, execution, self._log.incarnation, *rows)
            return ObjectPublished(execution_id, await env.runner.in_pool(write), attempt)
        except Exception as error:
            pause = env.runner.policy.pause_s(tries, error)
            if pause is None:
                why = code_of(error), message_of(error), detail_of(error)
                return PublishFailed(execution_id, *why, not is_terminal(error), attempt)
            return Pause(pause, partial(self._publish, execution_id, attempt, tries + 1))

    def _outputs(self, execution_id: str) -> Iterator[OutputRecord]:
        found = self._log.store.scan(*self._state.keys.outputs_of(execution_id))
        return (decode(OutputRecord, value) for _, value in found)

    def _rejects(self, execution_id: str) -> Iterator[RejectRecord]:
        found = self._log.store.scan(*self._state.keys.rejects_of(execution_id))
        return (decode(RejectRecord, value) for _, value in found)

    def _execution(self, execution_id: str) -> ExecutionRecord | None:
        return self._state.base(self._state.keys.execution(execution_id), ExecutionRecord)

    def _context(self, owed: OwedRecord) -> StepContext:
        """What a step is told. Its time is taken from a row, so that a repeat sees the same."""
        execution = self._state.get(self._state.keys.execution(owed.execution_id), ExecutionRecord)
        assert execution is not None, "an owed segment has its execution"
        now = execution.created_at_epoch_ms
        if owed.interaction_id is not None:
            key = self._state.keys.interaction(owed.interaction_id)
            interaction = self._state.get(key, InteractionRecord)
            now = now if interaction is None else interaction.updated_at_epoch_ms
        source = self._source_of(execution)
        return StepContext(
            tenant_id=execution.tenant_id,
            execution_id=execution.execution_id,
            now_epoch_ms=now,
            source_object=source,
            on_row_error=self._env.definition.on_row_error,
            encoding=self._env.definition.encoding,
        )

    def _source_of(self, execution: ExecutionRecord) -> SourceObject | None:
        if execution.source is None:
            return None
        found = self._sources.get(execution.execution_id)
        if found is None:
            if len(self._sources) >= SOURCES_KEPT:
                self._sources.clear()
            found = self._sources[execution.execution_id] = SourceObject(**execution.source)
        return found

    def _slow_inline(self, step_index: int, took_ms: float) -> None:
        """Warn at the third time: a single long run may be the machine's."""
        self._slow[step_index] += 1
        if self._slow[step_index] == SLOW_TIMES:
            log.warning("the inline segment from step %d took %.0f ms; declare it inline: false", step_index, took_ms)

"""A task: one partition, turn by turn. Poll, decide, run inline segments, commit, then perform (architecture 3).

Before the commit nothing leaves; after it everything is owed until known done. Any exception out of a commit ends the
incarnation: the outcome is unknown, so the task is closed and opened anew from the rows.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from tpf_streams.core import effects as fx
from tpf_streams.core.decide import decide
from tpf_streams.core.events import (
    CompletionReceived,
    DeadlinesReached,
    DecisionRaised,
    EarlyDue,
    Event,
    ItemsPulled,
    SegmentCompleted,
    SlotGranted,
    SourceFailed,
)
from tpf_streams.core.execution import ExecutionRecord
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.state import Decision, State
from tpf_streams.core.step import AwaitDefinition
from tpf_streams.core.unit import SessionRecord
from tpf_streams.engine.clock import PartitionTime
from tpf_streams.engine.environment import Environment
from tpf_streams.engine.jobs import Jobs
from tpf_streams.engine.performer import Performer
from tpf_streams.engine.recovery import adopt_slots, owed_effects
from tpf_streams.engine.segments import detail_of
from tpf_streams.engine.sweep import Sweep
from tpf_streams.engine.wire import (
    Origin,
    WireError,
    dead_letter_record,
    dead_letters_topic,
    decode_event,
    output_record,
)
from tpf_streams.ports import InputRecord, Record, TaskLog, TopicPartition, Turn

log = logging.getLogger(__name__)

LOCAL_EVENTS_MAX = 2_000
"""Local events of one turn: a turn is bounded whatever comes back from the steps."""


class Task:
    """One incarnation of one partition. `open`, then `turn` again and again, then `close`."""

    def __init__(self, partition: int, environment: Environment, *, batch_max: int | None = None) -> None:
        self.partition = partition
        self.wake = asyncio.Event()
        self._env = environment
        self._batch_max = batch_max or environment.batch_max
        self._inbox: deque[Event] = deque()
        self._records: list[Record] = []
        self._facts: list[fx.Fact] = []
        self._after: list[fx.Effect] = []
        self._pulled: list[str] = []
        self._current: InputRecord | None = None
        self._outcomes: list[tuple[str, str]] = []
        self._dead_letters = dead_letters_topic(environment.definition.application_id)

    async def open(self) -> None:
        """Fence the predecessor, restore, and take up what is owed. Raises what the log raises."""
        env = self._env
        env.budgets.begin_opening(self.partition)
        try:
            self.log: TaskLog = await env.log.open_task(self.partition)
            self.state = State(self.log.store, self.partition, env.definition)
            self.time = PartitionTime(env.clock.now_ms(), env.clock.monotonic_s(), self.state.stored_now_ms)
            self.state.now_ms = self.time.now_ms
            self.sweep = await Sweep.begin(env, self.state, self.partition)
            self.jobs = Jobs(self.deliver, env.segments_max)
            self.performer = Performer(env, self.log, self.state, self.jobs, self.deliver, self.wake.set)
            self.performer.owners |= adopt_slots(self.state, env.budgets)
        finally:
            env.budgets.end_opening(self.partition)
        for effect in list(owed_effects(self.state)):
            self._route(effect, self._inbox)
        await self._perform()

    async def close(self) -> None:
        """Give the partition up. What was under way is owed still."""
        if hasattr(self, "performer"):
            await self.performer.close()
            await self.jobs.close()
        if hasattr(self, "log"):
            await self.log.close()

    def deliver(self, event: Event) -> None:
        """A local event for the next turn."""
        self._inbox.append(event)
        self.wake.set()

    @property
    def idle(self) -> bool:
        """Nothing is waiting to be decided and no outside work is under way."""
        return not self._inbox and self.jobs.idle and not self.performer.busy

    async def turn(self) -> bool:
        """One turn; whether there was anything to do. After any exception the task must be closed."""
        self.state.now_ms = self.time.read(self._env.clock.now_ms(), self._env.clock.monotonic_s())
        self.wake.clear()
        found = await self.log.poll(self._batch_max)
        positions = self._take_records(found)
        self._take_local()
        if self.sweep.due(self.state, held=self.time.held):
            self._decide(DeadlinesReached(self._env.definition.limits.sweep_limit))
        if positions or self.state.changed or self._records:
            await self._commit(positions)
        elif not (self._after or self._facts or self._pulled or self._outcomes):
            return await self._perform()
        await self._after_commit()
        return True

    async def _commit(self, positions: dict[TopicPartition, int]) -> None:
        self.state.remember_now()
        turn = Turn(self._records, self.state.encoded_changes(), positions)
        # A cancelled commit may hold all the same (kafka-client rule 8): shutdown and revocation wait for it.
        await asyncio.shield(asyncio.ensure_future(self.log.commit(turn)))
        self.state.committed()
        self._records = []

    async def _after_commit(self) -> None:
        if self._facts:
            facts, self._facts = self._facts, []
            self._env.observer.observe(facts)
        for origin, outcome in self._outcomes:
            self._env.answers.resolve(origin, outcome)
        self._outcomes.clear()
        await self._perform()

    async def _perform(self) -> bool:
        for execution_id in self._pulled:
            self.performer.pulled(execution_id)
        self._pulled.clear()
        after, self._after = self._after, []
        for effect in after:
            await self.performer.perform(effect)
        return await self.performer.pump() or bool(after)

    def _take_records(self, found: list[InputRecord]) -> dict[TopicPartition, int]:
        positions: dict[TopicPartition, int] = {}
        decoded: list[tuple[InputRecord, Event]] = []
        env = self._env
        for record in found:
            positions[TopicPartition(record.topic, record.partition)] = record.offset + 1
            try:
                event = decode_event(record, env.definition.limits, strict=env.definition.strict_envelopes)
                decoded.append((record, event))
            except WireError as error:
                self._dead_letter(record, error.reason, str(error))
        self._prefetch(event for _, event in decoded)
        for record, event in decoded:
            self._current = record
            self._decide(event)
        self._current = None
        return positions

    def _prefetch(self, events: Iterable[Event]) -> None:
        """One multi-get for the rows of a batch of answers."""
        named = [event.envelope.interaction_id for event in events if isinstance(event, CompletionReceived)]
        keys = [self.state.keys.interaction(found) for found in named if found is not None and self.state.ours(found)]
        self.state.prefetch(InteractionRecord, keys)

    def _take_local(self) -> None:
        for _ in range(LOCAL_EVENTS_MAX):
            if not self._inbox:
                return
            event = self._inbox.popleft()
            self._decide(event)
            if isinstance(event, ItemsPulled | SourceFailed):
                self._pulled.append(event.execution_id)
        self.wake.set()

    def _decide(self, event: Event) -> None:
        """Decide an event and all that follows from it in this turn: inline segments, early completions."""
        pending: deque[Event] = deque([event])
        while pending:
            current = pending.popleft()
            try:
                decision = decide(self.state, current)
            except Exception as error:
                self._poison(current, error)
                continue
            self._take(current, decision, pending)

    def _take(self, event: Event, decision: Decision, pending: deque[Event]) -> None:
        self.state.apply(decision)
        self._facts.extend(decision.facts)
        if decision.outcome is not None and isinstance(event, CompletionReceived):
            self._outcomes.append((event.origin, decision.outcome))
        for effect in decision.effects:
            self._route(effect, pending)

    def _route(self, effect: fx.Effect, pending: deque[Event]) -> None:
        """Into the transaction, into this turn, or behind the commit. By table: there are five an item."""
        inside = _INSIDE.get(type(effect))
        if inside is None:
            self._after.append(effect)
        else:
            inside(self, effect, pending)

    def _send_request(self, effect: fx.SendRequest, pending: deque[Event]) -> None:
        step = self._env.definition.steps[effect.interaction.step_index]
        assert isinstance(step, AwaitDefinition)
        record = self._env.transports[step.transport.type].request_record(step, effect.interaction)
        if record is not None:
            self._records.append(record)

    def _emit_output(self, effect: fx.EmitOutput, pending: deque[Event]) -> None:
        self._records.append(output_record(effect, self._env.definition.output_topic))

    def _keep_dead_letter(self, effect: fx.DeadLetter, pending: deque[Event]) -> None:
        self._records.append(
            dead_letter_record(self._dead_letters, effect.origin, None, effect.value, effect.reason, effect.message)
        )

    def _admit_early(self, effect: fx.AdmitEarly, pending: deque[Event]) -> None:
        pending.append(EarlyDue(effect.interaction_id))

    def _request_slot(self, effect: fx.RequestSlot, pending: deque[Event]) -> None:
        owed = effect.owed
        self.performer.owners.add(owed.execution_id)
        self._env.budgets.request(owed.step_index, owed.execution_id, lambda: self.deliver(SlotGranted(owed)))

    def _use_slot(self, effect: fx.UseSlot, pending: deque[Event]) -> None:
        self.performer.use_slot(effect.execution_id)

    def _run_segment(self, effect: fx.RunSegment, pending: deque[Event]) -> None:
        if self.performer.may_run_inline(effect.owed):
            self._run_inline(effect, pending)
        else:
            self._after.append(effect)

    def _run_inline(self, effect: fx.RunSegment, pending: deque[Event]) -> None:
        """A pure, quick segment: its outputs join the transaction and fall with it. A failure takes the owed way."""
        try:
            outputs = self.performer.run_inline(effect)
        except Exception:
            self.performer.hand_back(effect.owed)
            self._after.append(effect)
        else:
            pending.append(SegmentCompleted(effect.owed, outputs))

    def _poison(self, event: Event, error: Exception) -> None:
        """An event whose decision raises is set aside in this transaction, and its execution fails (contract 0.5)."""
        execution_id = self._execution_of(event)
        log.error("deciding %s raised %s; it is set aside", type(event).__name__, type(error).__name__)
        if self._current is not None:
            self._dead_letter(self._current, "decision_raised", f"{type(error).__name__}")
        if execution_id is None or isinstance(event, DecisionRaised):
            return
        message = f"{type(event).__name__}: {type(error).__name__}: {error}"
        self._decide(DecisionRaised(execution_id, message, detail_of(error)))

    def _execution_of(self, event: Event) -> str | None:
        if isinstance(event, CompletionReceived):
            found = event.envelope.interaction_id
            if found is None or not self.state.ours(found):
                return None
            interaction = self.state.get(self.state.keys.interaction(found), InteractionRecord)
            return None if interaction is None else interaction.execution_id
        owed = getattr(event, "owed", None)
        return getattr(event, "execution_id", None) if owed is None else owed.execution_id

    def _dead_letter(self, record: InputRecord, reason: str, message: str) -> None:
        origin = Origin.of(record)
        self._records.append(dead_letter_record(self._dead_letters, origin, record.key, record.value, reason, message))

    def session(self, execution_id: str) -> SessionRecord | None:
        return self.state.get(self.state.keys.session(execution_id), SessionRecord)

    def execution(self, execution_id: str) -> ExecutionRecord | None:
        return self.state.get(self.state.keys.execution(execution_id), ExecutionRecord)


_INSIDE: dict[type, Callable[[Task, Any, deque[Event]], None]] = {
    fx.SendRequest: Task._send_request,
    fx.EmitOutput: Task._emit_output,
    fx.DeadLetter: Task._keep_dead_letter,
    fx.AdmitEarly: Task._admit_early,
    fx.RequestSlot: Task._request_slot,
    fx.UseSlot: Task._use_slot,
    fx.RunSegment: Task._run_segment,
}
"""Effects that belong into the turn; all others wait for its commit."""

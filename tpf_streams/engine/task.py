"""A task: one partition, turn by turn. Poll, decide, run inline segments, commit, then perform (architecture 3).

Before the commit nothing leaves; after it everything is owed until known done. Any exception out of a commit ends the
incarnation: the outcome is unknown, so the task is closed and opened anew from the rows.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
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
    ItemsRecalled,
    RetentionReached,
    RetriesDue,
    SegmentCompleted,
    SlotGranted,
    SourceFailed,
)
from tpf_streams.core.evolve import replace
from tpf_streams.core.execution import ExecutionRecord
from tpf_streams.core.identity import id_bytes
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.retention import DELETE_AT_ONCE
from tpf_streams.core.state import State
from tpf_streams.core.step import AwaitDefinition
from tpf_streams.core.unit import SessionRecord
from tpf_streams.engine.clock import PartitionTime
from tpf_streams.engine.environment import Environment
from tpf_streams.engine.jobs import Jobs, Pause
from tpf_streams.engine.lifecycle import LifecycleWriter
from tpf_streams.engine.performer import Performer
from tpf_streams.engine.poison import execution_of
from tpf_streams.engine.records import Decoded, RecordMaker, decoded
from tpf_streams.engine.recovery import adopt_slots, owed_effects
from tpf_streams.engine.retention import Retention
from tpf_streams.engine.retry import is_control, message_of
from tpf_streams.engine.segments import detail_of
from tpf_streams.engine.sweep import RetrySweep, Sweep
from tpf_streams.engine.wire import WireError
from tpf_streams.errors import BackPressureError, LogError
from tpf_streams.ports import InputRecord, Record, TaskLog, TopicPartition, Turn, positions_behind

log = logging.getLogger(__name__)

FAIL_AGAIN_S = 30.0
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
        self._held_back: list[Decoded] = []
        self._taken = 0
        self._outcomes: list[tuple[str, str]] = []
        self._maker = RecordMaker(environment)
        self._inline: list[fx.RunSegment] = []
        self._following: list[Event] = []
        self._lifecycle = LifecycleWriter(environment.definition, partition) if environment.lifecycle else None

    async def open(self) -> None:
        """Fence the predecessor, restore, and take up what is owed. Raises what the log raises."""
        env = self._env
        env.budgets.begin_opening(self.partition)
        self.log: TaskLog = await env.log.open_task(self.partition)
        self.state = State(self.log.store, self.partition, env.definition)
        self.time = PartitionTime(env.clock.now_ms(), env.clock.monotonic_s(), self.state.stored_now_ms)
        self.state.now_ms = self.time.now_ms
        self.sweep = await Sweep.begin(env, self.state, self.partition)
        self.retries = RetrySweep(env.definition.limits.retry_delay_ms)
        self.retention = Retention.of(env.definition.limits)
        self.jobs = Jobs(self.deliver, env.segments_max, self.wake.set, env.clock.sleep)
        self.performer = Performer(env, self.log, self.state, self.jobs, self.deliver, self.wake.set)
        self._tell_adopted(adopt_slots(self.state, env.budgets, self.performer.owners))
        env.budgets.end_opening(self.partition)
        for effect in list(owed_effects(self.state)):
            self._route(effect)
        self._run_segments()
        self._inbox.extend(self._following)
        self._following.clear()
        await self._perform()

    def _tell_adopted(self, slots: Counter[int]) -> None:
        steps = ((self._env.definition.steps[index], count) for index, count in slots.items())
        facts = [
            fx.Fact("slot.reconciled.total", step.labels, count=count)
            for step, count in steps
            if isinstance(step, AwaitDefinition) and self._env.definition.wants_slot(step)
        ]
        if facts:
            self._env.observer.observe(facts)

    async def close(self) -> None:
        """Give the partition up. What was under way is owed still."""
        if hasattr(self, "performer"):
            await self.performer.close()
            await self.jobs.close()
        if hasattr(self, "log"):
            await self.log.close()

    def hasten(self) -> None:
        """Somebody waits for the turn under way."""
        if hasattr(self, "log"):
            self.log.hasten()

    async def wait(self, timeout_s: float) -> None:
        """Until input may have come. While records are held back more input cannot be taken: then only time counts."""
        if self._held_back:
            await self._env.clock.sleep(timeout_s)
        else:
            await self.log.wait(timeout_s)

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
        began_s = self._env.clock.monotonic_s()
        self.state.now_ms = self.time.read(self._env.clock.now_ms(), began_s)
        self._taken = 0
        self.wake.clear()
        if self.jobs.error is not None:
            raise self.jobs.error
        positions = self._take_records(await self._next_records())
        self._take_local()
        if self.sweep.due(self.state, held=self.time.held):
            self._decide(DeadlinesReached(self._env.definition.limits.sweep_limit))
            self._follow()
        if self.retries.due(self.state):
            self._decide(RetriesDue(self._env.definition.limits.sweep_limit))
            self._follow()
        if self.retention.due(self.state, held=self.time.held):
            self._decide(RetentionReached(DELETE_AT_ONCE))
        if self._lifecycle is not None and self._facts:
            self._records.extend(self._lifecycle.records(self._facts, self.state))
        if positions or self.state.changed or self._records:
            await self._commit(positions)
        elif not (self._after or self._facts or self._pulled or self._outcomes):
            return await self._perform()
        await self._after_commit()
        self._env.meter.turn_ended(self._taken, self._env.clock.monotonic_s() - began_s)
        return True

    async def _commit(self, positions: dict[TopicPartition, int]) -> None:
        self.state.remember_now()
        turn = Turn(self._records, self.state.encoded_changes(), positions)
        began_s = self._env.clock.monotonic_s()
        await _uncancelled(self.log.commit(turn))
        self._env.meter.committed(self._env.clock.monotonic_s() - began_s)
        self.state.committed()
        self._records = []
        # A task that began event by event, because its turns failed, comes back to full batches.
        self._batch_max = min(self._batch_max * 2, self._env.batch_max)

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

    async def _next_records(self) -> list[Decoded]:
        if self._held_back:
            return self._held_back
        return decoded(self._env.definition, await self.log.poll(self._batch_max))

    def _take_records(self, found: list[Decoded]) -> dict[TopicPartition, int]:
        """Decide records in their order; -> the positions behind them.

        Back-pressure (contract 0.11): what a full partition cannot hold is not taken, and nothing behind it. It waits
        here, undecided and before its position, until dispatches or expiries have made room.
        """
        self._held_back = []
        self._prefetch(event for _, event in found)
        for place, (record, event) in enumerate(found):
            self._current = record
            try:
                if isinstance(event, WireError):
                    self._set_aside(record, event.reason, str(event))
                else:
                    self._decide(event)
            except BackPressureError:
                self._held_back = found[place:]
                break
        self._current = None
        self._follow()
        taken = found[: len(found) - len(self._held_back)]
        self._taken += len(taken)
        return positions_behind(record for record, _ in taken)

    def _prefetch(self, events: Iterable[Event | WireError]) -> None:
        """One multi-get for the rows of a batch of answers."""
        named = [event.envelope.interaction_id for event in events if isinstance(event, CompletionReceived)]
        ids = [id_bytes(name) for name in named if name is not None]
        self.state.prefetch(InteractionRecord, [self.state.keys.interaction_of(raw) for raw in ids if raw is not None])

    def _take_local(self) -> None:
        for _ in range(LOCAL_EVENTS_MAX):
            if not self._inbox:
                break
            event = self._inbox.popleft()
            self._taken += 1
            self._decide(event)
            if isinstance(event, ItemsPulled | ItemsRecalled | SourceFailed):
                self._pulled.append(event.execution_id)
        else:
            self.wake.set()
        self._follow()

    def _follow(self) -> None:
        """What follows in this turn from the events decided so far: inline segments, early completions.

        For all of them together, level by level. Item by item each had to fetch the code and the rows of the whole way
        anew into the processor's caches: that took a fifth more CPU (seen: 422 against 346 us an item).
        """
        while self._inline or self._following:
            self._run_segments()
            events, self._following = self._following, []
            for event in events:
                self._decide(event)

    def _run_segments(self) -> None:
        segments, self._inline = self._inline, []
        for effect in segments:
            self._run_inline(effect)

    def _decide(self, event: Event) -> None:
        """Decide an event. What follows from it waits for `_follow`."""
        try:
            decision = decide(self.state, event)
            records, others = self._maker.split(decision.effects)
        except (LogError, BackPressureError):
            raise
        except Exception as error:
            self._poison(event, error)
            return
        self.state.apply(decision)
        self._records.extend(records)
        self._facts.extend(decision.facts)
        if decision.outcome is not None and not isinstance(event, EarlyDue):
            self._outcomes.append((event.origin, decision.outcome))  # type: ignore[union-attr]
        for effect in others:
            self._route(effect)

    def _route(self, effect: fx.Effect) -> None:
        """Into this turn, or behind the commit. By table: there are three an item."""
        inside = _INSIDE.get(type(effect))
        if inside is None:
            self._after.append(effect)
        else:
            inside(self, effect)

    def _admit_early(self, effect: fx.AdmitEarly) -> None:
        self._following.append(EarlyDue(effect.interaction_id))

    def _request_slot(self, effect: fx.RequestSlot) -> None:
        owed = effect.owed
        self.performer.owners.add(owed.execution_id)
        self._env.budgets.request(owed.step_index, owed.execution_id, lambda: self.deliver(SlotGranted(owed)))

    def _use_slot(self, effect: fx.UseSlot) -> None:
        self.performer.use_slot(effect.execution_id)

    def _run_segment(self, effect: fx.RunSegment) -> None:
        if self.performer.may_run_inline(effect.owed):
            self._inline.append(effect)
        else:
            self._after.append(effect)

    def _run_inline(self, effect: fx.RunSegment) -> None:
        """A pure, quick segment: its outputs join the transaction and fall with it. A failure takes the owed way."""
        try:
            outputs = self.performer.run_inline(effect)
        except BaseException as error:
            if is_control(error):
                raise
            self.performer.hand_back(effect.owed)
            self._after.append(effect)
        else:
            self._following.append(SegmentCompleted(effect.owed, outputs))

    def _set_aside(self, record: InputRecord, reason: str, message: str) -> None:
        self._records.append(self._maker.dead_letter(record, reason, message))
        self._facts.append(fx.Fact("dead_letter.total", {"reason": reason}))

    def _poison(self, event: Event, error: Exception) -> None:
        """An event whose decision raises is set aside in this transaction, and its execution fails (contract 0.5)."""
        log.error("deciding %s raised %s; it is set aside", type(event).__name__, type(error).__name__)
        if self._current is not None and not isinstance(event, DecisionRaised):
            self._set_aside(self._current, "decision_raised", type(error).__name__)
        if isinstance(event, DecisionRaised):
            self._fail_bare(event)
            return
        if isinstance(event, DeadlinesReached | RetriesDue) and event.limit > 1:
            self._decide(type(event)(1))  # one by one, so that it shows whose time it is
            return
        if isinstance(event, RetentionReached):
            self.retention.put_off(self.state.now_ms)
        if isinstance(event, SlotGranted):
            self._after.append(fx.ReturnSlot(event.owed.execution_id, event.owed.step_index))
        execution_id = execution_of(self.state, event)
        if execution_id is None:
            return
        message = f"{type(event).__name__}: {type(error).__name__}: {message_of(error)}"
        self._decide(DecisionRaised(execution_id, message, detail_of(error)))

    def _fail_bare(self, event: DecisionRaised) -> None:
        """Failing an execution raised as well. Its own row alone may still say so; else it is tried again and again:
        what was owed for it has been taken, and forgotten here it would wait until the next opening."""
        if event.bare:
            self.jobs.start(partial(_again, event))
        else:
            self._decide(replace(event, bare=True))

    def session(self, execution_id: str) -> SessionRecord | None:
        return self.state.get(self.state.keys.session(execution_id), SessionRecord)

    def execution(self, execution_id: str) -> ExecutionRecord | None:
        return self.state.get(self.state.keys.execution(execution_id), ExecutionRecord)


async def _again(event: DecisionRaised) -> Pause:
    """`event` once more, after a while."""

    async def once_more() -> Event:
        return replace(event, bare=False)

    return Pause(FAIL_AGAIN_S, once_more)


async def _uncancelled(commit: Coroutine[Any, Any, None]) -> None:
    """A cancelled commit may hold all the same (kafka-client rule 8): shutdown and revocation wait for it."""
    running = asyncio.ensure_future(commit)
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        running.cancelled() or running.exception()
        raise


_INSIDE: dict[type, Callable[[Task, Any], None]] = {
    fx.AdmitEarly: Task._admit_early,
    fx.RequestSlot: Task._request_slot,
    fx.UseSlot: Task._use_slot,
    fx.RunSegment: Task._run_segment,
}
"""Effects that belong into the turn; the rest wait for its commit."""

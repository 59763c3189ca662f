"""A task: one partition, turn by turn. Poll, decide, run inline segments, commit, then perform (architecture 3).

Before the commit nothing leaves; after it everything is owed until known done. Any exception out of a commit ends the
incarnation: the outcome is unknown, so the task is closed and opened anew from the rows.

Over a distant log the next turn is decided while the commit of this one is under way. It stands on rows that may not
hold; but then the incarnation ends, and it falls with them. Commits follow one another, and so do their effects.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from tpf_streams.core import effects as fx
from tpf_streams.core import events as ev
from tpf_streams.core.decide import decide
from tpf_streams.core.evolve import replace
from tpf_streams.core.execution import ExecutionRecord
from tpf_streams.core.retention import DELETE_AT_ONCE
from tpf_streams.core.state import State
from tpf_streams.core.unit import SessionRecord
from tpf_streams.engine.afterwards import Afterwards, breathe, uncancelled
from tpf_streams.engine.clock import PartitionTime
from tpf_streams.engine.environment import Environment
from tpf_streams.engine.jobs import Jobs
from tpf_streams.engine.lifecycle import LifecycleWriter
from tpf_streams.engine.performer import Performer
from tpf_streams.engine.poison import again, execution_of
from tpf_streams.engine.records import Decoded, RecordMaker, decoded, prefetch
from tpf_streams.engine.recovery import adopt_slots, adopted_facts, owed_effects
from tpf_streams.engine.retention import Retention
from tpf_streams.engine.retry import is_control, message_of
from tpf_streams.engine.segments import detail_of
from tpf_streams.engine.sweep import RetrySweep, Sweep
from tpf_streams.engine.wire import WireError
from tpf_streams.errors import BackPressureError, LogError
from tpf_streams.ports import InputRecord, Record, TaskLog, TopicPartition, Turn, positions_behind

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
        self._inbox: deque[ev.Event] = deque()
        self._records: list[Record] = []
        self._facts: list[fx.Fact] = []
        self._after: list[fx.Effect] = []
        self._pulled: list[str] = []
        self._current: InputRecord | None = None
        self._held_back: list[Decoded] = []
        self._taken, self._began_s = 0, 0.0
        self._outcomes: list[tuple[str, str]] = []
        self._maker = RecordMaker(environment)
        self._inline: list[fx.RunSegment] = []
        self._following: list[ev.Event] = []
        self._lifecycle = LifecycleWriter(environment.definition, partition) if environment.lifecycle else None
        self._committing: asyncio.Task[None] | None = None
        self._positions: dict[TopicPartition, int] = {}
        self._decided = self._sealed_at = 0

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
        slots = adopt_slots(self.state, env.budgets, self.performer.owners)
        env.observer.observe(adopted_facts(env.definition, slots))
        env.budgets.end_opening(self.partition)
        for effect in list(owed_effects(self.state)):
            self._route(effect)
        await self._run_segments()
        self._inbox.extend(self._following)
        self._following.clear()
        await self._perform(self._afterwards())

    async def close(self) -> None:
        """Give the partition up. What was under way is owed still; a commit is waited for."""
        if self._committing is not None:
            await asyncio.wait([self._committing])
            self._committing.cancelled() or self._committing.exception()
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

    def deliver(self, event: ev.Event) -> None:
        """A local event for the next turn."""
        self._inbox.append(event)
        self.wake.set()

    @property
    def idle(self) -> bool:
        """Nothing is waiting to be decided and no outside work is under way."""
        return self._committing is None and not self._inbox and self.jobs.idle and not self.performer.busy

    async def turn(self) -> bool:
        """One turn; whether there was anything to do. After any exception the task must be closed."""
        now_s = self._env.clock.monotonic_s()
        self.state.now_ms = self.time.read(self._env.clock.now_ms(), now_s)
        if self._taken == 0:
            self._began_s = now_s
        self.wake.clear()
        settled = self._committing is not None and self._committing.done()
        if settled:
            await self._settle()
        if self.jobs.error is not None:
            raise self.jobs.error
        before = self._decided
        self._positions.update(await self._take_records(await self._next_records()))
        await self._take_local()
        if self._committing is not None and self._decided - self._sealed_at < self._batch_max:
            return settled or self._decided != before  # more may join, until the commit under way has ended
        await self._settle()
        await self._take_due()
        return await self._end() or settled

    async def _take_due(self) -> None:
        """What time brings, once a turn and by the rows of the turn before."""
        if self.sweep.due(self.state, held=self.time.held):
            self._decide(ev.DeadlinesReached(self._env.definition.limits.sweep_limit))
            await self._follow()
        if self.retries.due(self.state):
            self._decide(ev.RetriesDue(self._env.definition.limits.sweep_limit))
            await self._follow()
        if self.retention.due(self.state, held=self.time.held):
            self._decide(ev.RetentionReached(DELETE_AT_ONCE))
            await self._follow()

    async def _end(self) -> bool:
        """End the open turn, if there is anything in it."""
        if self._lifecycle is not None and self._facts:
            self._records.extend(self._lifecycle.records(self._facts, self.state))
        if self._positions or self.state.changed or self._records:
            self._committing = asyncio.ensure_future(self._commit(self._sealed(), self._afterwards()))
            if self.log.distant:
                self._committing.add_done_callback(lambda _: self.wake.set())
            else:
                await self._settle()
            return True
        after = self._afterwards()
        if not after:
            return await self._perform(after)
        await self._after_commit(after)
        return True

    async def _settle(self) -> None:
        """The end of the commit under way, if there is one: there is one at a time. Raises what it raised."""
        if self._committing is not None:
            await uncancelled(self._committing)
            self._committing = None

    def _sealed(self) -> Turn:
        """The open turn as it is to be committed; the next one begins with nothing."""
        self.state.remember_now()
        turn = Turn(self._records, self.state.seal(), self._positions)
        self._records, self._positions = [], {}
        self._sealed_at = self._decided
        return turn

    async def _commit(self, turn: Turn, after: Afterwards) -> None:
        began_s = self._env.clock.monotonic_s()
        await self.log.commit(turn)
        self._env.meter.committed(self._env.clock.monotonic_s() - began_s)
        self.state.committed()
        # A task that began event by event, because its turns failed, comes back to full batches.
        self._batch_max = min(self._batch_max * 2, self._env.batch_max)
        await self._after_commit(after)

    def _afterwards(self) -> Afterwards:
        """What the open turn has asked for behind its commit."""
        after = Afterwards(self._facts, self._outcomes, self._pulled, self._after, self._taken, self._began_s)
        self._facts, self._outcomes, self._pulled, self._after, self._taken = [], [], [], [], 0
        return after

    async def _after_commit(self, after: Afterwards) -> None:
        if after.facts:
            self._env.observer.observe(after.facts)
        for origin, outcome in after.outcomes:
            self._env.answers.resolve(origin, outcome)
        await self._perform(after)
        self._env.meter.turn_ended(after.taken, self._env.clock.monotonic_s() - after.began_s)

    async def _perform(self, after: Afterwards) -> bool:
        for execution_id in after.pulled:
            self.performer.pulled(execution_id)
        for effect in after.effects:
            await self.performer.perform(effect)
        return await self.performer.pump() or bool(after.effects)

    async def _next_records(self) -> list[Decoded]:
        if self._held_back:
            return self._held_back
        return decoded(self._env.definition, await self.log.poll(self._batch_max))

    async def _take_records(self, found: list[Decoded]) -> dict[TopicPartition, int]:
        """Decide records in their order; -> the positions behind them.

        Back-pressure (contract 0.11): what a full partition cannot hold is not taken, and nothing behind it. It waits
        here, undecided and before its position, until dispatches or expiries have made room.
        """
        self._held_back = []
        prefetch(self.state, found)
        for place, (record, event) in enumerate(found):
            self._current = record
            try:
                if isinstance(event, WireError):
                    self._set_aside(record, event.reason, str(event))
                else:
                    self._decide(event)
                if self._committing is not None:
                    await breathe(self._decided)
            except BackPressureError:
                self._held_back = found[place:]
                break
        self._current = None
        await self._follow()
        taken = found[: len(found) - len(self._held_back)]
        self._taken += len(taken)
        return positions_behind(record for record, _ in taken)

    async def _take_local(self) -> None:
        for _ in range(LOCAL_EVENTS_MAX):
            if not self._inbox:
                break
            event = self._inbox.popleft()
            self._taken += 1
            self._decide(event)
            if self._committing is not None:
                await breathe(self._decided)
            if isinstance(event, ev.ItemsPulled | ev.ItemsRecalled | ev.SourceFailed):
                self._pulled.append(event.execution_id)
        else:
            self.wake.set()
        await self._follow()

    async def _follow(self) -> None:
        """What follows in this turn from the events decided so far: inline segments, early completions.

        For all of them together, level by level. Item by item each had to fetch the code and the rows of the whole way
        anew into the processor's caches: that took a fifth more CPU (seen: 422 against 346 us an item).
        """
        while self._inline or self._following:
            await self._run_segments()
            events, self._following = self._following, []
            for event in events:
                self._decide(event)
                if self._committing is not None:
                    await breathe(self._decided)

    async def _run_segments(self) -> None:
        segments, self._inline = self._inline, []
        for effect in segments:
            self._run_inline(effect)
            if self._committing is not None:
                await breathe(self._decided)

    def _decide(self, event: ev.Event) -> None:
        """Decide an event. What follows from it waits for `_follow`."""
        self._decided += 1
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
        if decision.outcome is not None and not isinstance(event, ev.EarlyDue):
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
        self._following.append(ev.EarlyDue(effect.interaction_id))

    def _request_slot(self, effect: fx.RequestSlot) -> None:
        owed = effect.owed
        self.performer.owners.add(owed.execution_id)
        self._env.budgets.request(owed.step_index, owed.execution_id, lambda: self.deliver(ev.SlotGranted(owed)))

    def _use_slot(self, effect: fx.UseSlot) -> None:
        self.performer.use_slot(effect.execution_id)

    def _run_segment(self, effect: fx.RunSegment) -> None:
        if self.performer.may_run_inline(effect.owed):
            self._inline.append(effect)
        else:
            self._after.append(effect)

    def _run_inline(self, effect: fx.RunSegment) -> None:
        """A pure, quick segment: its outputs join the transaction and fall with it. A failure takes the owed way."""
        self._decided += 1
        try:
            outputs = self.performer.run_inline(effect)
        except BaseException as error:
            if is_control(error):
                raise
            self.performer.hand_back(effect.owed)
            self._after.append(effect)
        else:
            self._following.append(ev.SegmentCompleted(effect.owed, outputs))

    def _set_aside(self, record: InputRecord, reason: str, message: str) -> None:
        self._records.append(self._maker.dead_letter(record, reason, message))
        self._facts.append(fx.Fact("dead_letter.total", {"reason": reason}))

    def _poison(self, event: ev.Event, error: Exception) -> None:
        """An event whose decision raises is set aside in this transaction, and its execution fails (contract 0.5)."""
        log.error("deciding %s raised %s; it is set aside", type(event).__name__, type(error).__name__)
        if self._current is not None and not isinstance(event, ev.DecisionRaised):
            self._set_aside(self._current, "decision_raised", type(error).__name__)
        if isinstance(event, ev.DecisionRaised):
            self._fail_bare(event)
            return
        if isinstance(event, ev.DeadlinesReached | ev.RetriesDue) and event.limit > 1:
            self._decide(type(event)(1))  # one by one, so that it shows whose time it is
            return
        if isinstance(event, ev.RetentionReached):
            self.retention.put_off(self.state.now_ms)
        if isinstance(event, ev.SlotGranted):
            self._after.append(fx.ReturnSlot(event.owed.execution_id, event.owed.step_index))
        execution_id = execution_of(self.state, event)
        if execution_id is None:
            return
        message = f"{type(event).__name__}: {type(error).__name__}: {message_of(error)}"
        self._decide(ev.DecisionRaised(execution_id, message, detail_of(error)))

    def _fail_bare(self, event: ev.DecisionRaised) -> None:
        """Failing an execution raised as well. Its own row alone may still say so; else it is tried again and again:
        what was owed for it has been taken, and forgotten here it would wait until the next opening."""
        if event.bare:
            self.jobs.start(partial(again, event))
        else:
            self._decide(replace(event, bare=True))

    def session(self, execution_id: str) -> SessionRecord | None:
        return self.state.base(self.state.keys.session(execution_id), SessionRecord)

    def execution(self, execution_id: str) -> ExecutionRecord | None:
        return self.state.base(self.state.keys.execution(execution_id), ExecutionRecord)


_INSIDE: dict[type, Callable[[Task, Any], None]] = {
    fx.AdmitEarly: Task._admit_early,
    fx.RequestSlot: Task._request_slot,
    fx.UseSlot: Task._use_slot,
    fx.RunSegment: Task._run_segment,
}
"""Effects that belong into the turn; the rest wait for its commit."""

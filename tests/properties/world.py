"""A world around `decide`: it performs what decisions ask for, when and as a test says, and loses all but the rows.

`laws` holds the invariants of `tpf_streams.core` against every state. `drain` is the liveness phase: faults stop, and
everything has to come to its end.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.properties.laws import Laws
from tests.unit.core.machine import START_MS, TIMEOUT_MS, token
from tpf_streams.core import effects as fx
from tpf_streams.core import events as ev
from tpf_streams.core.decide import decide
from tpf_streams.core.envelope import CompletionEnvelope
from tpf_streams.core.execution import ExecutionRecord, OwedKind, OwedRecord
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.rows import deadline_of, encode
from tpf_streams.core.state import Decision, State
from tpf_streams.core.step import AwaitDefinition, Json, PipelineDefinition
from tpf_streams.core.token import TokenClaims, TokenSigner
from tpf_streams.core.unit import SessionRecord
from tpf_streams.core.window import credit
from tpf_streams.engine.recovery import adopt_slots, owed_effects
from tpf_streams.stores.memory import MemoryStateStore

Work = fx.RunSegment | fx.RequestSlot | fx.SendOwed | fx.ContinueOwed | fx.PublishObject
ROUNDS_MAX = 200


class World:
    """One partition, its outside work, and the slots of its budgets."""

    def __init__(self, definition: PipelineDefinition) -> None:
        self.definition = definition
        self.store = MemoryStateStore()
        self.state = State(self.store, 0, definition)
        self.now_ms = START_MS
        self.work: list[Work] = []
        self.sources: dict[str, OwedRecord] = {}
        self.slots: Counter[tuple[str, int]] = Counter()
        self.session_slots: Counter[str] = Counter()
        self.history: list[ev.Event] = []
        self.emitted: Counter[tuple[str, int | None]] = Counter()
        self.facts: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.laws = Laws(self)

    # Deciding

    def decide(self, event: ev.Event) -> Decision:
        self.state.now_ms = self.now_ms
        before = self.laws.durable_now()
        decision = decide(self.state, event)
        again = decide(self.state, event)
        assert _bytes(decision) == _bytes(again), "I10: the same state and event give another decision"
        self.state.apply(decision)
        self.store.write(self.state.seal())
        self.state.committed()
        for fact in decision.facts:
            self.facts[fact.name] += fact.count
        if decision.outcome is not None:
            self.outcomes[decision.outcome] += 1
        for effect in decision.effects:
            self.route(effect)
        self.laws.check(before, decision)
        for effect in decision.effects:
            if isinstance(effect, fx.AdmitEarly):
                self.decide(ev.EarlyDue(effect.interaction_id))
        return decision

    def route(self, effect: fx.Effect) -> None:
        match effect:
            case fx.UseSlot(execution_id):
                self.session_slots[execution_id] -= self.limited(self.awaited(execution_id))
            case fx.ReturnSlot(execution_id, step_index):
                self.slots[execution_id, step_index] -= self.limited(step_index)
            case fx.EmitOutput():
                self.emitted[effect.execution_id, effect.item_index] += 1
            case fx.StartSource(execution_id):
                owed = self.state.get(self.state.keys.owed(execution_id, OwedKind.SEGMENT, None), OwedRecord)
                assert owed is not None
                self.sources[execution_id] = owed
            case fx.StopSource(execution_id):
                self.slots[execution_id, self.awaited(execution_id)] -= self.session_slots.pop(execution_id, 0)
                self.sources.pop(execution_id, None)
            case fx.RunSegment() | fx.RequestSlot() | fx.SendOwed() | fx.ContinueOwed() | fx.PublishObject():
                self.work.append(effect)

    def awaited(self, execution_id: str) -> int:
        """The await step that the source under way dispatches to; behind the last step, where there is none."""
        owed = self.sources.get(execution_id)
        stream = None if owed is None else self.definition.stream_from(owed.step_index)
        return len(self.definition.steps) if stream is None or stream.awaited is None else stream.awaited

    def crash(self) -> None:
        """Only the rows are left; what they owe is taken up."""
        self.work.clear()
        self.sources.clear()
        self.session_slots.clear()
        self.slots.clear()
        self.state = State(self.store, 0, self.definition)
        adopt_slots(self.state, _Adopter(self), set())  # type: ignore[arg-type]
        for effect in list(owed_effects(self.state)):
            self.route(effect)

    # Outside work

    def limited(self, step_index: int) -> bool:
        if step_index >= len(self.definition.steps):
            return False
        step = self.definition.steps[step_index]
        return isinstance(step, AwaitDefinition) and self.definition.budget_enabled and bool(step.transport.endpoint)

    def free(self, step_index: int) -> int:
        held = sum(count for (_, step), count in self.slots.items() if step == step_index)
        return self.definition.budget - held if self.limited(step_index) else 1_000

    def perform(self, work: Work, result: ev.Event | None = None) -> None:
        """Do one piece of owed work with `result`, or well."""
        if isinstance(work, fx.RequestSlot):
            if self.free(work.owed.step_index) <= 0:
                return
            self.slots[work.owed.execution_id, work.owed.step_index] += self.limited(work.owed.step_index)
        self.work.remove(work)
        event = result or good_result(work)
        self.history.append(event)
        self.decide(event)

    def again(self, event: ev.Event) -> None:
        """A local result comes once more, from an incarnation that is gone: it changes nothing (I8)."""
        owed = getattr(event, "owed", None)
        if isinstance(event, ev.SlotGranted):
            self.slots[event.owed.execution_id, event.owed.step_index] += self.limited(event.owed.step_index)
        elif owed is not None and self.state.get(self.owed_key(owed), OwedRecord) == owed:
            return  # that very work is owed again: it is no repeat
        elif isinstance(event, ev.ObjectPublished | ev.PublishFailed) and self.publishing(event):
            return
        decision = self.decide(event)
        if not isinstance(event, ev.SlotGranted):
            assert not decision.changes, f"I8: {type(event).__name__} was taken though nothing was owed"

    def publishing(self, event: ev.ObjectPublished | ev.PublishFailed) -> bool:
        owed = self.state.get(self.state.keys.owed(event.execution_id, OwedKind.PUBLISH, None), OwedRecord)
        return owed is not None and self.execution(event.execution_id).attempt == event.attempt

    def owed_key(self, owed: OwedRecord) -> bytes:
        return self.state.keys.owed(owed.execution_id, owed.kind, owed.item_index)

    def pull(self, execution_id: str, elements: list[Any], *, ended: bool) -> None:
        """The session pulls what credit and slots allow of `elements`."""
        session = self.session(execution_id)
        assert session is not None
        step_index = self.awaited(execution_id)
        count = min(len(elements), credit(self.definition, session))
        if self.limited(step_index):
            more = max(0, min(count - self.session_slots[execution_id], self.free(step_index)))
            self.session_slots[execution_id] += more
            self.slots[execution_id, step_index] += more
            count = min(count, self.session_slots[execution_id])
        taken = elements[:count]
        self.decide(ev.ItemsPulled(execution_id, session.source_position, taken, ended and count == len(elements)))

    # Answers

    def envelope(self, row: InteractionRecord, payload: Json, **changes: Any) -> CompletionEnvelope:
        fields = {"resume_token": token(row), "tenant_id": row.tenant_id, **changes}
        return CompletionEnvelope(
            interaction_id=row.interaction_id,
            correlation_id=row.correlation_id,
            idempotency_key=None,
            actor=None,
            response_payload=payload,
            **fields,
        )

    def answer(self, interaction_id: str, payload: Json) -> None:
        """A completion in time for an open interaction, where it is still there."""
        row = self.state.get(self.state.keys.interaction(interaction_id), InteractionRecord)
        assert row is not None
        self.decide(ev.CompletionReceived(self.envelope(row, payload), min(self.now_ms, row.deadline_epoch_ms)))

    def early_envelope(self, execution_id: str, payload: Json) -> CompletionEnvelope | None:
        """An answer to the request of a turn that did not hold: its row comes yet, or never."""
        execution, session = self.execution(execution_id), self.session(execution_id)
        index = self.definition.segment_end(0) if session is None else self.awaited(execution_id)
        step = self.definition.steps[index] if index < len(self.definition.steps) else None
        if not isinstance(step, AwaitDefinition):
            return None
        ids = self.state.unit_ids(execution, step)
        item = session.next_item_index if session is not None else None
        claims = TokenClaims(
            tenant_id=execution.tenant_id,
            interaction_id=ids.interaction_id(item),
            correlation_id=ids.correlation_id(item),
            execution_id=execution_id,
            step_id=step.step_id,
            deadline_epoch_ms=self.now_ms + TIMEOUT_MS,
            issued_at_epoch_ms=self.now_ms,
        )
        signed = TokenSigner(self.definition.resume_token_secrets).sign(claims)
        return CompletionEnvelope(
            execution.tenant_id, claims.interaction_id, claims.correlation_id, signed, None, None, payload
        )

    # Rows

    def session(self, execution_id: str) -> SessionRecord | None:
        return self.state.get(self.state.keys.session(execution_id), SessionRecord)

    def execution(self, execution_id: str) -> ExecutionRecord:
        found = self.state.get(self.state.keys.execution(execution_id), ExecutionRecord)
        assert found is not None
        return found

    def executions(self) -> list[ExecutionRecord]:
        return [row for _, row in self.state.scan(self.state.keys.all_executions(), ExecutionRecord)]

    def interactions(self) -> list[InteractionRecord]:
        prefix = self.state.keys.interaction("0" * 32)[:3]
        return [row for _, row in self.state.scan((prefix, prefix + b"\xff" * 24), InteractionRecord)]

    def owed(self) -> list[OwedRecord]:
        return [row for _, row in self.state.scan(self.state.keys.all_owed(), OwedRecord)]

    def open_ids(self) -> list[str]:
        return [deadline_of(key)[1] for key in self.state.scan_keys(self.state.keys.all_deadlines())]

    # The end

    def drain(self) -> None:
        """No more faults: everything owed is done, everything open is answered, every source ends."""
        for _ in range(ROUNDS_MAX):
            for work in list(self.work):
                if work in self.work:
                    self.perform(work)
            for execution_id in list(self.sources):
                self.pull(execution_id, [], ended=True)
            for interaction_id in self.open_ids():
                self.answer(interaction_id, {"n": 1})
            if not (self.work or self.sources or self.open_ids()):
                break
        self.now_ms += 2 * TIMEOUT_MS
        while self.state.early_rows:
            self.decide(ev.DeadlinesReached(100))
        self.laws.check_end()


class _Adopter:
    """What `adopt_slots` needs of the budgets."""

    def __init__(self, world: World) -> None:
        self._world = world

    def adopt(self, step_index: int, execution_id: str) -> None:
        self._world.slots[execution_id, step_index] += self._world.limited(step_index)


def good_result(work: Work) -> ev.Event:
    match work:
        case fx.RunSegment(owed):
            return ev.SegmentCompleted(owed, [{"n": owed.item_index}])
        case fx.RequestSlot(owed):
            return ev.SlotGranted(owed)
        case fx.SendOwed(owed):
            return ev.RequestSent(owed, {"adapter": "test"})
        case fx.ContinueOwed(owed):
            return ev.OwedDue(owed)
        case fx.PublishObject(execution_id, attempt):
            return ev.ObjectPublished(execution_id, "name.out", attempt)


def _bytes(decision: Decision) -> tuple[object, ...]:
    rows = [(key, None if record is None else encode(record)) for key, record in decision.changes]
    return rows, decision.effects, decision.facts, decision.outcome

"""The machine on a table: one partition's rows in memory, events by hand, effects in a list.

`Machine` applies each decision as a turn of its own and keeps what is asked of the shell: which slots are held, which
work is owed. It performs nothing by itself; `tests/properties/test_machine.py` does that at random.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from tpf_streams.core import effects as fx
from tpf_streams.core import events as ev
from tpf_streams.core.decide import decide
from tpf_streams.core.envelope import CompletionEnvelope
from tpf_streams.core.execution import ExecutionRecord, OutputRecord, OwedKind, OwedRecord, RejectRecord
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.state import Decision, State
from tpf_streams.core.step import (
    AnyStep,
    AwaitDefinition,
    Cardinality,
    CorrelationStrategy,
    Json,
    Limits,
    PipelineDefinition,
    StepDefinition,
    TransportSpec,
)
from tpf_streams.core.token import TokenClaims, TokenSigner
from tpf_streams.core.unit import AwaitUnitRecord, SessionRecord
from tpf_streams.stores.memory import MemoryStateStore

T = TypeVar("T")
START_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000
SECRET = "secret-for-tests"

TRANSPORTS = {
    "k": TransportSpec("kafka", "kafka://requests", live=True),
    "q": TransportSpec("sqs", "sqs://requests", owed=True),
    "w": TransportSpec("webhook", owed=True),
    "i": TransportSpec("interaction-api"),
}
"""k: a record of the log, live, budgeted. q: owed, budgeted, durable. w: owed, durable. i: nothing to send, durable."""


SHAPES = {
    "": Cardinality.ONE_TO_ONE,
    ">": Cardinality.ONE_TO_MANY,
    "<": Cardinality.MANY_TO_ONE,
    "*": Cardinality.MANY_TO_MANY,
}


def pipeline(shape: str, **options: Any) -> PipelineDefinition:
    """A pipeline by letters: `S` a source, `s` a service step, and an await step by its transport (TRANSPORTS).

    Behind a letter, `>` makes it give many, `<` take many together, and `*` both. Options of `AwaitDefinition` go to
    every await step, the rest to the pipeline.
    """
    of_steps = {name: options.pop(name) for name in list(options) if name in AwaitDefinition.__dataclass_fields__}
    limits = {name: options.pop(name) for name in list(options) if name in Limits.__dataclass_fields__}
    return PipelineDefinition(
        pipeline_id="pay",
        app_name="Pay",
        steps=tuple(_step(index, letter, of_steps) for index, letter in enumerate(re.findall("[A-Za-z][<>*]?", shape))),
        application_id="pay",
        id_secret="ids",
        limits=Limits(**{"max_concurrency": 4, **limits}),
        resume_token_secrets=options.pop("resume_token_secrets", (SECRET,)),
        output_topic="pay-outputs",
        **options,
    )


def _step(index: int, letter: str, options: dict[str, Any]) -> AnyStep:
    name = f"Step{index}"
    kind = SHAPES[letter[1:] or (">" if letter == "S" else "")]
    if letter[0] in "Ss":
        return StepDefinition(index, name, name, kind, f"T{index}", f"T{index + 1}")
    given: dict[str, Any] = {
        "timeout_ms": TIMEOUT_MS,
        "transport": TRANSPORTS[letter[0]],
        "correlation": CorrelationStrategy.SIGNED_RESUME_TOKEN,
        "require_token": True,
        **options,
    }
    if kind.joins:
        given["idempotency_fields"] = ()
    return AwaitDefinition(index, name, name, kind, f"T{index}", f"T{index + 1}", **given)


class Machine:
    """One partition. `effects` and `facts` are those not taken yet; `slots` what each await step's budget has out."""

    def __init__(self, definition: PipelineDefinition, store: MemoryStateStore | None = None) -> None:
        self.definition = definition
        self.store = MemoryStateStore() if store is None else store
        self.now_ms = START_MS
        self.effects: list[fx.Effect] = []
        self.facts: Counter[str] = Counter()
        self.slots: Counter[int] = Counter()
        self.outcomes: list[str] = []
        self.reopen()

    def reopen(self) -> None:
        """Forget everything but the rows."""
        self.state = State(self.store, 0, self.definition)

    def decide(self, event: ev.Event) -> Decision:
        """Decide and commit; what comes in the same turn (early completions) is decided too."""
        self.state.now_ms = self.now_ms
        decision = decide(self.state, event)
        self.state.apply(decision)
        self.store.write(self.state.seal())
        self.state.committed()
        for fact in decision.facts:
            self.facts[fact.name] += fact.count
        for effect in decision.effects:
            self._take(effect)
        return decision

    def _take(self, effect: fx.Effect) -> None:
        match effect:
            case fx.AdmitEarly(interaction_id):
                self.decide(ev.EarlyDue(interaction_id))
            case fx.ReturnSlot(_, step_index):
                self.slots[step_index] -= self.budgeted(step_index)
            case _:
                self.effects.append(effect)

    def take(self, kind: type[T]) -> list[T]:
        """The effects of one kind that nobody took yet."""
        found: list[T] = [effect for effect in self.effects if isinstance(effect, kind)]
        self.effects = [effect for effect in self.effects if not isinstance(effect, kind)]
        return found

    # Events by hand

    def submit(self, payload: Json = None, key: str = "key-1", tenant: str = "tenant-1") -> str:
        self.decide(ev.ExecutionSubmitted(tenant, key, payload))
        return self.state.ids.execution_id(tenant, self.definition.pipeline_id, key, 0)

    def pull(self, execution_id: str, elements: Sequence[Any] = (), *, ended: bool = False) -> Decision:
        """The source gives `elements`; each item takes one of the slots that the session was granted."""
        session = self.session(execution_id)
        position = 0 if session is None else session.source_position
        generation = self.execution(execution_id).generation
        decision = self.decide(ev.ItemsPulled(execution_id, position, elements, ended, generation))
        for used in self.take(fx.UseSlot):
            assert used.execution_id == execution_id
            assert session is not None
            step_index = self.definition.course.streams[session.stream].awaited
            assert step_index is not None
            self.slots[step_index] += self.budgeted(step_index)
        return decision

    def recall(self, execution_id: str, count: int = 100) -> None:
        """A redriven stream takes up at most `count` items of its earlier generations."""
        session = self.session(execution_id)
        assert session is not None
        generation = self.execution(execution_id).generation
        self.decide(ev.ItemsRecalled(execution_id, session.next_item_index, count, generation))
        for _ in self.take(fx.UseSlot):
            step_index = self.definition.segment_end(0)
            self.slots[step_index] += self.budgeted(step_index)

    def redrive(self, execution_id: str, **how: Any) -> str:
        """-> the outcome."""
        decision = self.decide(ev.RedriveRequested(execution_id, **{"allow_failed": True, **how}))
        assert decision.outcome is not None
        return decision.outcome

    def stream(self, count: int, *, ended: bool = False) -> str:
        """A submitted stream of `count` items {"n": index}."""
        execution_id = self.submit()
        self.pull(execution_id, [{"n": n} for n in range(count)], ended=ended)
        return execution_id

    def run_segments(self, output: Json = None) -> int:
        """Every owed segment gives one output; bounded work is done before."""
        self.go_on()
        ran = self.take(fx.RunSegment)
        for effect in ran:
            self.decide(ev.SegmentCompleted(effect.owed, [output or {"out": effect.owed.item_index}]))
        return len(ran)

    def grant_slots(self) -> int:
        """Every waiting item gets its slot."""
        waiting = self.take(fx.RequestSlot)
        for effect in waiting:
            self.slots[effect.owed.step_index] += self.budgeted(effect.owed.step_index)
            self.decide(ev.SlotGranted(effect.owed))
        return len(waiting)

    def send(self) -> int:
        """Every owed dispatch is done."""
        sends = self.take(fx.SendOwed)
        for effect in sends:
            self.decide(ev.RequestSent(effect.owed, {"adapter": "test"}))
        return len(sends)

    def go_on(self) -> None:
        """Bounded work comes back until it is done."""
        while owed := self.take(fx.ContinueOwed):
            for effect in owed:
                self.decide(ev.OwedDue(effect.owed))

    def answer(self, interaction: InteractionRecord, payload: Json = None, *, at_ms: int | None = None) -> str:
        """A good completion for `interaction`; -> the outcome."""
        return self.complete(self.envelope(interaction, payload), at_ms=at_ms)

    def complete(self, envelope: CompletionEnvelope, *, at_ms: int | None = None, raw: bytes = b"raw") -> str:
        decision = self.decide(ev.CompletionReceived(envelope, at_ms or self.now_ms, "t/0/1", raw))
        assert decision.outcome is not None
        self.outcomes.append(decision.outcome)
        return decision.outcome

    def envelope(self, interaction: InteractionRecord, payload: Json = None, **changes: Any) -> CompletionEnvelope:
        found = CompletionEnvelope(
            tenant_id=interaction.tenant_id,
            interaction_id=interaction.interaction_id,
            correlation_id=interaction.correlation_id,
            resume_token=token(interaction),
            idempotency_key=None,
            actor="provider",
            response_payload={"ok": True} if payload is None else payload,
        )
        return replace(found, **changes)

    # What there is

    def budgeted(self, step_index: int) -> bool:
        step = self.definition.steps[step_index]
        return isinstance(step, AwaitDefinition) and step.transport.endpoint is not None

    def execution(self, execution_id: str) -> ExecutionRecord:
        found = self.state.get(self.state.keys.execution(execution_id), ExecutionRecord)
        assert found is not None
        return found

    def session(self, execution_id: str) -> SessionRecord | None:
        return self.state.get(self.state.keys.session(execution_id), SessionRecord)

    def unit(self, execution_id: str, step_index: int) -> AwaitUnitRecord | None:
        step = self.definition.steps[step_index]
        assert isinstance(step, AwaitDefinition)
        ids = self.state.unit_ids(self.execution(execution_id), step)
        return self.state.get(self.state.keys.unit(ids.unit_id), AwaitUnitRecord)

    def find(self, execution_id: str, step_index: int, item: int | None = None) -> InteractionRecord | None:
        step = self.definition.steps[step_index]
        assert isinstance(step, AwaitDefinition)
        ids = self.state.unit_ids(self.execution(execution_id), step)
        return self.state.get(self.state.keys.interaction(ids.interaction_id(item)), InteractionRecord)

    def interaction(self, execution_id: str, step_index: int, item: int | None = None) -> InteractionRecord:
        found = self.find(execution_id, step_index, item)
        assert found is not None, f"no interaction of step {step_index}, item {item}"
        return found

    def put(self, record: object, key: bytes) -> None:
        """Write a row as it may have come from elsewhere: for cells that no event reaches any more."""
        self.state.apply(Decision([(key, record)], [], []))
        self.store.write(self.state.seal())
        self.state.committed()

    def owed(self, execution_id: str) -> list[OwedRecord]:
        return [record for _, record in self.state.scan(self.state.keys.owed_of(execution_id), OwedRecord)]

    def owed_kinds(self, execution_id: str) -> list[OwedKind]:
        return [owed.kind for owed in self.owed(execution_id)]

    def outputs(self, execution_id: str) -> dict[int, list[Json]]:
        """Outputs by item; -1 is the scalar one."""
        bounds = self.state.keys.outputs_of(execution_id)
        return {
            -1 if record.item_index is None else record.item_index: record.payloads
            for _, record in self.state.scan(bounds, OutputRecord)
        }

    def rejects(self, execution_id: str) -> list[RejectRecord]:
        return [record for _, record in self.state.scan(self.state.keys.rejects_of(execution_id), RejectRecord)]

    def deadlines(self) -> int:
        return len(self.state.scan_keys(self.state.keys.all_deadlines()))

    @property
    def slots_held(self) -> int:
        assert all(count >= 0 for count in self.slots.values()), f"a slot went back twice: {dict(self.slots)}"
        return sum(self.slots.values())


def token(interaction: InteractionRecord, secret: str = SECRET, **changes: Any) -> str:
    """A genuine token of the interaction, or one that says something else."""
    claims = TokenClaims(
        tenant_id=interaction.tenant_id,
        interaction_id=interaction.interaction_id,
        correlation_id=interaction.correlation_id,
        execution_id=interaction.execution_id,
        step_id=interaction.step_id,
        deadline_epoch_ms=interaction.deadline_epoch_ms,
        issued_at_epoch_ms=interaction.issued_at_epoch_ms,
    )
    return TokenSigner((secret,)).sign(replace(claims, **changes))

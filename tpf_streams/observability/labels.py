"""Values of labels: bounded, whatever comes. An id, or a text of somebody outside, would be a series for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tpf_streams.core.dead_letter import TerminalReason
from tpf_streams.core.envelope import EnvelopeReason
from tpf_streams.core.execution import ExecutionStatus
from tpf_streams.core.interaction import InteractionStatus
from tpf_streams.core.json_policy import JsonReason
from tpf_streams.core.outcome import Outcome
from tpf_streams.core.step import AwaitDefinition, Cardinality, PipelineDefinition
from tpf_streams.core.unit import UnitStatus
from tpf_streams.observability.catalogue import REASONS, SLOT_OUTCOMES, UNKNOWN

_KNOWN: Mapping[str, frozenset[str]] = {
    "status": frozenset(it.value for kind in (InteractionStatus, UnitStatus, ExecutionStatus) for it in kind),
    "cardinality": frozenset(it.value for it in Cardinality),
    "outcome": frozenset(SLOT_OUTCOMES.values()),
    "reason": frozenset(it.value for kind in (Outcome, EnvelopeReason, JsonReason, TerminalReason) for it in kind)
    | REASONS,
}


class LabelValues:
    """The values that labels may take in one pipeline."""

    def __init__(self, definition: PipelineDefinition) -> None:
        steps = [step for step in definition.steps if isinstance(step, AwaitDefinition)]
        self._by_step: dict[str, Mapping[str, str]] = {step.step_id: step.unit_labels for step in steps}
        self._known = {
            **_KNOWN,
            "step_id": frozenset(self._by_step),
            "transport": frozenset(["kafka", *(step.transport.type for step in steps)]),
        }
        self.shared: dict[int, Mapping[str, str]] = {
            id(labels): labels for step in steps for labels in (step.labels, step.unit_labels)
        }
        """Labels that most facts share, by identity: while they are kept here nothing else can have theirs."""
        self.budgeted = frozenset(step.step_id for step in steps if definition.wants_slot(step))
        """The steps whose interactions need a slot of the admission budget."""

    @property
    def steps(self) -> Iterable[str]:
        """The ids of the await steps."""
        return self._by_step

    def of(self, names: Iterable[str], said: Mapping[str, str]) -> tuple[str, ...]:
        """The values of `names`, of a fact or sample that says `said`; what it does not say its step may."""
        step = self._by_step.get(said.get("step_id", ""), {})
        found = ((name, said.get(name) or step.get(name, UNKNOWN)) for name in names)
        return tuple(value if value in self._known[name] else UNKNOWN for name, value in found)

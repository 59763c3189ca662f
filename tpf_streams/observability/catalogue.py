"""The metrics of facts: names, units, labels and help, as contract 10.1 has them, and ours beside them.

In a scrape dots are underscores: `tpf.await.completion.latency` is `tpf_await_completion_latency`, still in
milliseconds, and the tag `tpf.await.step_id` is the label `tpf_await_step_id`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PREFIX = "tpf_await_"
UNKNOWN = "unknown"
"""The value of a label that has none, and of one that is not among those that are known."""

REASONS = frozenset(
    {
        "decision_raised",
        "invalid_event",
        "null_value",
        "unknown_event",
        "unknown_version",
    }
)
"""Reasons of dead letters that are no outcome of a completion and no fault of an envelope."""

LABELS = {
    "step_id": "tpf_await_step_id",
    "transport": "tpf_await_transport",
    "status": "tpf_await_status",
    "cardinality": "tpf_await_cardinality",
    "reason": "tpf_await_completion_reason",
    "outcome": "tpf_await_admission_outcome",
}
"""A fact's label -> the metric's."""

STEP = ("step_id", "transport", "status")
UNIT = (*STEP, "cardinality")
SLOT = (*STEP, "outcome")

SLOT_OUTCOMES = {
    "interaction.created.total": "acquired",
    "slot.released.total": "released",
    "slot.reconciled.total": "reconciled",
    "slot.waited.total": "waited",
}
"""What a fact says of a slot of the admission budget. A slot becomes somebody's with the interaction; `reused` does not
occur, for it is no lease that its owner could meet again."""

LATENCY_MS = (10, 50, 100, 200, 400, 1_000, 5_000, 30_000, 300_000, 1_800_000, 7_200_000, 28_800_000, 86_400_000,
              259_200_000, 604_800_000)  # fmt: skip
"""Upper bounds from a program that answers to a person who does so a week later. Each one is a series of every step."""


@dataclass(frozen=True, slots=True)
class FactCounter:
    """A counter of one fact, which it is named after. `constant`: values of labels that the fact need not say."""

    fact: str
    help: str
    labels: tuple[str, ...] = ()
    constant: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return metric_name(self.fact)


@dataclass(frozen=True, slots=True)
class FactHistogram:
    """A histogram, in milliseconds, of a value that comes with one fact. Values of 0 are left out (contract 10.1)."""

    name: str
    help: str
    fact: str
    value: str
    labels: tuple[str, ...]
    constant: Mapping[str, str] = field(default_factory=dict)


def metric_name(fact: str) -> str:
    return PREFIX + fact.replace(".", "_")


def _of(status: str) -> Mapping[str, str]:
    return {"status": status}


COUNTERS = (
    FactCounter("interaction.created.total", "Interactions created.", STEP, _of("WAITING")),
    FactCounter("interaction.dispatched.total", "Requests handed to their transport.", STEP, _of("DISPATCHED")),
    FactCounter("unit.dispatch_complete.total", "Units whose items are all dispatched.", UNIT, _of("WAITING_EXTERNAL")),
    FactCounter("completion.admitted.total", "Completions recorded; once an interaction.", STEP, _of("COMPLETED")),
    FactCounter("item.completed.total", "Items of streams that were answered.", UNIT, _of("COMPLETED")),
    FactCounter("completion.early_held.total", "Completions held before they could go on.", UNIT),
    FactCounter("resume.released.total", "Continuations released by the durable gates.", UNIT, _of("COMPLETED")),
    FactCounter("live.handoff.total", "Completions handed to their live session.", STEP, _of("COMPLETED")),
    FactCounter("scalar.continuation.started.total", "Scalar continuations started.", STEP, _of("COMPLETED")),
    FactCounter("unit.terminal.total", "Units completed, timed out or failed.", UNIT),
    FactCounter("completion.dropped.total", "Completions not admitted, by outcome.", ("transport", "reason")),
    # Ours
    FactCounter("completion.duplicate.total", "Repeats of the answer that was admitted.", ("transport",)),
    FactCounter("completion.unknown_fields.total", "Unknown fields of completion envelopes.", ("transport",)),
    FactCounter("interaction.ended.total", "Interactions that ended without an answer.", STEP),
    FactCounter("execution.submitted.total", "Executions begun."),
    FactCounter("execution.duplicate.total", "Submissions of an execution that is there already."),
    FactCounter("execution.waiting.total", "Executions parked on a unit.", STEP, _of("WAITING_EXTERNAL")),
    FactCounter("execution.terminal.total", "Executions ended.", ("status",)),
    FactCounter("session.cancelled.total", "Live sessions ended by an operator."),
    FactCounter("row.rejected.total", "Rows of source files rejected."),
    FactCounter("execution.retry.total", "Failed tries of executions that are to be repeated."),
    FactCounter("execution.redriven.total", "Executions that an operator let go on where they had failed."),
    FactCounter("execution.deleted.total", "Ended executions deleted after their time."),
    FactCounter("item.gathered.total", "Items kept for a step that takes many together."),
    FactCounter("item.recalled.total", "Items that a redrive took up again."),
    FactCounter("item.rejected.total", "Items of streams rejected."),
    FactCounter("output.emitted.total", "Outputs written."),
    FactCounter("object.published.total", "Output objects published."),
    FactCounter("dead_letter.total", "Records and completions set aside, by reason.", ("reason",)),
)

SLOT_OUTCOME = FactCounter("admission.outcomes.total", "Slots of the admission budget, by what became of them.", SLOT)

HISTOGRAMS = (
    FactHistogram(
        "tpf_await_completion_latency",
        "From an interaction's creation to its admitted completion, in milliseconds.",
        "completion.admitted.total",
        "latencyMs",
        STEP,
        _of("COMPLETED"),
    ),
    FactHistogram(
        "tpf_await_unit_duration",
        "From a unit's creation to its end, in milliseconds.",
        "unit.terminal.total",
        "durationMs",
        UNIT,
    ),
)

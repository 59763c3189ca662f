"""A checker that reads topics alone: what the lifecycle topic tells is whole, in order, and what the outputs show.

It knows the names of events and their meaning by contract 10.2, and nothing of rows or decisions. Give it every record
of the lifecycle topic and of the output topic of an application.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import orjson

from tpf_streams.engine.lifecycle import LifecycleEvent, decode_lifecycle
from tpf_streams.ports import InputRecord

ENDS = {"success", "error", "cancelled"}
ANSWERED = "await_completion_admitted"
UNANSWERED = {f"await_interaction_{how}" for how in ("timed_out", "failed", "cancelled")}
REFUSED = {
    f"await_completion_{outcome}"
    for outcome in (
        *("duplicate", "conflict", "terminal", "late", "not_found", "invalid_payload", "payload_too_large", "held"),
        *("tenant_mismatch", "identity_mismatch", "resume_token_rejected"),
    )
}
AFTER_THE_END = UNANSWERED | REFUSED | {"execution_duplicate", "await_admission_released"}
"""What may still become true of an execution that has ended: the bounded closing of what it had open."""


class DisagreementError(AssertionError):
    """The topics do not tell one and the same story."""


@dataclass(slots=True)
class Story:
    """One execution as its events tell it. Items are (unit id, item index)."""

    execution_id: str
    last_stream: int = 0
    """The stream that outputs are of: each one numbers its items anew."""
    started: int = 0
    end: str | None = None
    dispatched: set[str] = field(default_factory=set)
    closed: dict[str, str] = field(default_factory=dict)
    """Interaction -> how it ended."""
    held: set[str] = field(default_factory=set)
    """Interactions that hold a slot."""
    taken: set[str] = field(default_factory=set)
    answered: Counter[str] = field(default_factory=Counter)
    """Answers by unit."""
    answers: dict[int | None, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Interactions answered, by item."""
    complete: Counter[str] = field(default_factory=Counter)
    completed: Counter[str] = field(default_factory=Counter)
    units: Counter[str] = field(default_factory=Counter)
    outputs: dict[int | None, int] = field(default_factory=dict)
    rejected: set[tuple[int, int]] = field(default_factory=set)
    gathered: set[tuple[int, int]] = field(default_factory=set)
    """Stream and item: those that a step took together. With any, an item index alone names no item."""
    rows_rejected: int = 0
    redriven: bool = False
    answered_at: Counter[int] = field(default_factory=Counter)
    """Answers by await step, of all generations of its unit."""
    items: set[int] = field(default_factory=set)
    """Items of which a request was sent."""

    def fail(self, why: str, event: LifecycleEvent | None = None) -> None:
        raise DisagreementError(f"{self.execution_id}: {why}{'' if event is None else f': {event}'}")

    def take(self, event: LifecycleEvent) -> None:
        """The next event, in the order of the topic."""
        name = event.name
        if name == "start":
            self.started += 1
        if self.started != 1 and name not in REFUSED:
            self.fail("nothing comes before the start, which comes once", event)
        if name == "redrive":
            if self.end not in ("error", "cancelled"):
                self.fail("redriven, and it has not failed", event)
            self.end, self.redriven = None, True
        if self.end is not None and name not in AFTER_THE_END:
            self.fail(f"behind its end ({self.end})", event)
        if name in ENDS:
            self.end = name
        elif event.interaction_id is not None and name not in REFUSED:
            self._interaction(event, event.interaction_id)
        elif event.unit_id is not None and name not in REFUSED:
            self._unit(event, event.unit_id)
        elif name == "emit":
            self._emit(event)
        elif name == "reject" and event.item_index is None:
            self.rows_rejected += 1
        elif name == "recall":
            place = ((event.detail or {})["stream"], event.item_index or 0)
            if not self.redriven or place not in self.rejected:
                self.fail("an item is tried once more that was not rejected", event)
            self.rejected.discard(place)
        elif name in ("reject", "gather"):
            self._ended(event, self.rejected if name == "reject" else self.gathered)

    def _interaction(self, event: LifecycleEvent, ident: str) -> None:
        name = event.name
        if name == "await_admission_acquired":
            if ident in self.taken:
                self.fail("a slot is taken twice by one interaction", event)
            self.taken.add(ident)
            self.held.add(ident)
        elif name == "await_admission_released":
            if ident not in self.held or ident not in self.closed:
                self.fail("a slot comes back that nobody holds, or before its interaction has ended", event)
            self.held.discard(ident)
        elif name == "await_interaction_dispatched":
            if ident in self.dispatched:
                self.fail("dispatched twice", event)
            self.dispatched.add(ident)
            if event.item_index is not None:
                self.items.add(event.item_index)
        elif name == ANSWERED or name in UNANSWERED:
            self._closed(event, ident)
        elif name in ("await_unit_item_completed", "await_resume_released") and self.closed.get(ident) != ANSWERED:
            self.fail("it is completed, or goes on, without its answer", event)

    def _closed(self, event: LifecycleEvent, ident: str) -> None:
        if ident in self.closed:
            self.fail(f"ended twice, first by {self.closed[ident]}", event)
        if ident not in self.dispatched and event.transport in ("kafka", "interaction-api"):
            self.fail("an end without a dispatch", event)
        self.closed[ident] = event.name
        if event.name == ANSWERED:
            assert event.unit_id is not None
            self.answered[event.unit_id] += 1
            self.answered_at[event.step_index or 0] += 1
            self.answers[event.item_index].add(ident)

    def _unit(self, event: LifecycleEvent, unit: str) -> None:
        name, detail = event.name, event.detail or {}
        if name == "await_unit_dispatch_complete":
            self.complete[unit] += 1
            if self.complete[unit] > 1:
                self.fail("its dispatch is complete twice", event)
        elif name == "await_unit_completed":
            self.completed[unit] += 1
            counted, given = detail["completedItemCount"], self.answered[unit]
            if self.redriven and given <= counted <= self.answered_at[event.step_index or 0]:
                return  # it counts answers that a unit of an earlier generation got
            if counted != given:
                self.fail(f"a completed unit counts other answers than the {self.answered[unit]} admitted", event)
        elif name == "await_unit_terminal":
            self.units[unit] += 1
            if self.units[unit] > 1 or (detail["status"] == "COMPLETED") != bool(self.completed[unit]):
                self.fail("a unit ends once, and completed ones were completed", event)

    def _emit(self, event: LifecycleEvent) -> None:
        item = event.item_index
        if item in self.outputs or (self.last_stream, item) in self.rejected:
            self.fail("an item has two ends", event)
        if not self.gathered and item in self.items and not self.answers[item]:
            self.fail("an output without an answer", event)
        self.outputs[item] = (event.detail or {})["outputs"]

    def _ended(self, event: LifecycleEvent, ends: set[tuple[int, int]]) -> None:
        """An item is over without an output of its own."""
        assert event.item_index is not None
        place = ((event.detail or {})["stream"], event.item_index)
        if (
            place in self.rejected
            or place in self.gathered
            or (place[0] == self.last_stream and place[1] in self.outputs)
        ):
            self.fail("an item has two ends", event)
        ends.add(place)

    def judge(self) -> None:
        """The execution has ended, and everything that follows from it has come."""
        if self.started != 1 or self.end is None:
            self.fail(f"started {self.started} times, ended by {self.end}")
        if self.held:
            self.fail(f"{len(self.held)} slots never came back")
        left = self.dispatched - self.closed.keys()
        if left:
            self.fail(f"{len(left)} interactions were dispatched and never ended")
        if self.end == "success":
            unsettled = self.items - self.outputs.keys() - {item for _, item in self.rejected | self.gathered}
            if unsettled:
                self.fail(f"succeeded, and items have no end: {sorted(unsettled, key=repr)[:10]}")


@dataclass(slots=True)
class Verdict:
    """What the topics were found to tell, by execution id."""

    stories: dict[str, Story]
    events: int

    @property
    def outputs(self) -> int:
        return sum(sum(story.outputs.values()) for story in self.stories.values())


def agree(
    lifecycle: Iterable[InputRecord], outputs: Iterable[InputRecord], *, ended: bool = True, last_stream: int = 0
) -> Verdict:
    """Hold the topics against each other. `ended`: every execution must have ended. `last_stream`: of the pipeline.

    Raises DisagreementError.
    """
    stories: dict[str, Story] = {}
    events = 0
    for event in _numbered(lifecycle):
        events += 1
        if event.execution_id is not None:
            story = stories.get(event.execution_id)
            if story is None:
                story = stories[event.execution_id] = Story(event.execution_id, last_stream)
            story.take(event)
    _outputs_agree(stories, outputs)
    for story in stories.values():
        if ended and story.started:
            story.judge()
    return Verdict({name: story for name, story in stories.items() if story.started}, events)


def _numbered(lifecycle: Iterable[InputRecord]) -> Iterable[LifecycleEvent]:
    """The events of each partition; their numbers have no gap and never come twice."""
    following: Counter[int] = Counter()
    for record in sorted(lifecycle, key=lambda it: (it.partition, it.offset)):
        for event in decode_lifecycle(record.value or b"", f"{record.topic}/{record.partition}/{record.offset}"):
            if event.number != following[record.partition]:
                raise DisagreementError(
                    f"partition {record.partition}: number {following[record.partition]} is next, and not {event}"
                )
            following[record.partition] += 1
            yield event


def _outputs_agree(stories: dict[str, Story], outputs: Iterable[InputRecord]) -> None:
    """Each record of the output topic is told of once, and each that is told of is there."""
    shown: Counter[tuple[str, int | None]] = Counter()
    for record in outputs:
        body = orjson.loads(record.value or b"")
        place = body["executionId"], body["itemIndex"]
        shown[place] += 1
        story = stories.get(place[0])
        answers = set() if story is None else story.answers[place[1]]
        key = (record.key or b"").decode()
        if answers and place[1] is not None and story is not None and not story.gathered and key not in answers:
            raise DisagreementError(f"an output under another answer's id, {key}: {place}")
    told = Counter(
        {(name, item): count for name, story in stories.items() for item, count in story.outputs.items() if count}
    )
    if shown != told:
        raise DisagreementError(f"outputs without an event {shown - told}, events without an output {told - shown}")

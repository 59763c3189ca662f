"""Lifecycle events: what a turn's facts say of each execution, as one record of the same transaction (contract 10.2).

Value: a JSON object, format version 1. What events have in common is written once, and events are short arrays:

    {"v": 1, "first": 4711, "at": 1700000000000,
     "names": ["await_interaction_dispatched", ...],
     "scopes": [[executionId, unitId, stepIndex, stepId, transport], [executionId], ...],
     "events": [[name, scope, itemIndex, interactionId, correlationId, detail], ...]}

`at` is the partition's time in epoch milliseconds. An event's number is `first` and its place; numbers of a partition
have no gap and never come twice, so who reads can prove that nothing is missing. `name` and `scope` are places in the
lists before; what is None at the end of an array is left out. A reader must ignore a seventh element and unknown
keys of `detail`. Events are in order of their causes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import orjson

from tpf_streams.core.effects import Fact
from tpf_streams.core.execution import ExecutionRecord, OutputRecord, OwedRecord, RejectRecord
from tpf_streams.core.frozen import frozen
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.state import State
from tpf_streams.core.step import AwaitDefinition, PipelineDefinition
from tpf_streams.core.token import TokenClaims
from tpf_streams.core.unit import AwaitUnitRecord
from tpf_streams.errors import LogCorruptError
from tpf_streams.ports import Record

VERSION = 1
RECORD_BYTES_MAX = 900 * 1024
"""A turn whose record would be larger has several: a topic takes 4 MiB, and a batch of the client 1 MiB."""

Row: TypeAlias = tuple[object, ...]
Note: TypeAlias = Callable[["TurnEvents", Fact, Any], None]


def lifecycle_topic(application_id: str) -> str:
    return f"{application_id}-lifecycle"


@frozen
class LifecycleEvent:
    """One event as read. `number`: of its partition. `execution_id` None: of a completion that names no row."""

    number: int
    at_ms: int
    name: str
    execution_id: str | None
    unit_id: str | None = None
    step_index: int | None = None
    step_id: str | None = None
    transport: str | None = None
    item_index: int | None = None
    interaction_id: str | None = None
    correlation_id: str | None = None
    detail: Mapping[str, Any] | None = None


class TurnEvents:
    """The events of one turn in the making. Scopes are told apart by the id of their unit or execution."""

    __slots__ = ("definition", "names", "rows", "scope_rows", "scopes")

    def __init__(self, definition: PipelineDefinition) -> None:
        self.definition = definition
        self.names: dict[str, int] = {}
        self.scopes: dict[str | None, int] = {}
        self.scope_rows: list[Row] = []
        self.rows: list[Row] = []

    def execution(self, execution_id: str | None) -> int:
        """The scope of an execution as a whole."""
        found = self.scopes.get(execution_id)
        return self._new(execution_id, (execution_id,)) if found is None else found

    def unit(self, of: Any, step_index: int) -> int:
        """The scope of one await unit. `of`: any row that belongs to it."""
        found = self.scopes.get(of.unit_id)
        if found is not None:
            return found
        step = self.definition.steps[step_index]
        transport = step.transport.type if isinstance(step, AwaitDefinition) else None
        return self._new(of.unit_id, (of.execution_id, of.unit_id, step_index, step.step_id, transport))

    def _new(self, key: str | None, row: Row) -> int:
        self.scopes[key] = found = len(self.scope_rows)
        self.scope_rows.append(row)
        return found

    def add(self, name: str, scope: int, *rest: object) -> None:
        """`rest`: item index, interaction id, correlation id, detail."""
        names = self.names
        self.rows.append((names.setdefault(name, len(names)), scope, *rest))


class LifecycleWriter:
    """Makes the lifecycle records of one partition's turns."""

    def __init__(self, definition: PipelineDefinition, partition: int) -> None:
        self._definition = definition
        self._topic = lifecycle_topic(definition.application_id)
        self._partition = partition

    def records(self, facts: Sequence[Fact], state: State) -> list[Record]:
        """The record of a turn with `facts`; none where they say nothing of an execution. Takes the numbers from
        `state`, so that they hold with the turn."""
        turn = TurnEvents(self._definition)
        for fact in facts:
            found = _EVENTS.get(fact.name)
            if found is not None and isinstance(fact.about, found[0]):
                found[1](turn, fact, fact.about)
        if not turn.rows:
            return []
        common = {"v": VERSION, "at": state.now_ms, "names": list(turn.names), "scopes": turn.scope_rows}
        values = _values(common, state.take_numbers(len(turn.rows)), turn.rows)
        return [Record(self._topic, None, value, partition=self._partition) for value in values]


def _values(common: dict[str, object], first: int, rows: Sequence[Row]) -> list[bytes]:
    value = orjson.dumps({**common, "first": first, "events": rows})
    if len(value) <= RECORD_BYTES_MAX or len(rows) == 1:
        return [value]
    middle = len(rows) // 2
    return [*_values(common, first, rows[:middle]), *_values(common, first + middle, rows[middle:])]


def decode_lifecycle(value: bytes, place: str) -> Iterator[LifecycleEvent]:
    """The events of a record. `place` says where it stands. Raises LogCorruptError."""
    try:
        record = orjson.loads(value)
        if record["v"] != VERSION:
            raise LogCorruptError(
                f"{place}: lifecycle format {record['v']}; this program reads {VERSION}: use the one that wrote it"
            )
        names, scopes = record["names"], [(*scope, None, None, None, None)[:5] for scope in record["scopes"]]
        for number, (name, scope, *rest) in enumerate(record["events"], record["first"]):
            fields = (number, record["at"], names[name], *scopes[scope], *rest[:4])
            yield LifecycleEvent(*fields)
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise LogCorruptError(f"{place}: this is no lifecycle record ({type(error).__name__})") from error


# What each fact says, by its name: what it must be about, and the events. A fact that is not here, or is about nothing,
# is for metrics alone: here nothing may raise, or its partition would never come behind this turn.


def _submitted(turn: TurnEvents, fact: Fact, execution: ExecutionRecord) -> None:
    detail = {
        "tenantId": execution.tenant_id,
        "executionKey": execution.execution_key,
        "pipelineId": execution.pipeline_id,
        "source": (execution.source or {}).get("key"),
    }
    turn.add("start", turn.execution(execution.execution_id), None, None, None, detail)


def _of_execution(name: str) -> Note:
    def note(turn: TurnEvents, fact: Fact, _: None) -> None:
        turn.add(name, turn.execution(str(fact.ids.get("executionId"))))

    return note


def _ended(turn: TurnEvents, fact: Fact, _: None) -> None:
    scope = turn.execution(str(fact.ids.get("executionId")))
    if fact.labels.get("status") == "SUCCEEDED":
        turn.add("success", scope)
        return
    detail = {name: fact.ids.get(name) for name in ("errorCode", "errorMessage")}
    turn.add("cancelled" if detail["errorCode"] == "CANCELLED" else "error", scope, None, None, None, detail)


def _retried(turn: TurnEvents, fact: Fact, _: None) -> None:
    """Its steps gave up, and it waits for another try."""
    detail = {name: fact.ids.get(name) for name in ("errorCode", "attempt", "dueEpochMs")}
    turn.add("retry", turn.execution(str(fact.ids.get("executionId"))), None, None, None, detail)


def _redriven(turn: TurnEvents, fact: Fact, _: None) -> None:
    """An operator lets it go on behind its end."""
    detail = {name: fact.ids.get(name) for name in ("attempt", "reason")}
    turn.add("redrive", turn.execution(str(fact.ids.get("executionId"))), None, None, None, detail)


def _recalled(turn: TurnEvents, fact: Fact, _: None) -> None:
    """An item that had been rejected is tried once more."""
    scope = turn.execution(str(fact.ids.get("executionId")))
    turn.add("recall", scope, fact.ids.get("itemIndex"), None, None, {"stream": fact.ids.get("stream", 0)})


def _created(turn: TurnEvents, fact: Fact, it: InteractionRecord) -> None:
    step = turn.definition.steps[it.step_index]
    if isinstance(step, AwaitDefinition) and turn.definition.wants_slot(step):
        turn.add("await_admission_acquired", turn.unit(it, it.step_index), it.item_index, it.interaction_id)


def _dispatched(turn: TurnEvents, fact: Fact, it: InteractionRecord) -> None:
    scope = turn.unit(it, it.step_index)
    turn.add("await_interaction_dispatched", scope, it.item_index, it.interaction_id, it.correlation_id)


def _of_interaction(name: str) -> Note:
    def note(turn: TurnEvents, fact: Fact, it: InteractionRecord) -> None:
        turn.add(name, turn.unit(it, it.step_index), it.item_index, it.interaction_id)

    return note


def _answered(turn: TurnEvents, fact: Fact, it: InteractionRecord) -> None:
    detail = {"completedItemCount": fact.ids.get("completedItemCount")}
    scope = turn.unit(it, it.step_index)
    turn.add("await_unit_item_completed", scope, it.item_index, it.interaction_id, None, detail)


def _interaction_ended(turn: TurnEvents, fact: Fact, it: InteractionRecord) -> None:
    name = f"await_interaction_{it.status.value.lower()}"
    turn.add(name, turn.unit(it, it.step_index), it.item_index, it.interaction_id)


def _slot_released(turn: TurnEvents, fact: Fact, it: InteractionRecord | OwedRecord) -> None:
    step_index = it.holds_slot if isinstance(it, OwedRecord) else it.step_index
    if step_index is not None:
        turn.add("await_admission_released", turn.unit(it, step_index), it.item_index, it.interaction_id)


def _held(turn: TurnEvents, fact: Fact, it: InteractionRecord | TokenClaims) -> None:
    """Before its row, or behind the gates of the durable path."""
    if isinstance(it, TokenClaims):
        turn.add("await_completion_held", turn.execution(it.execution_id), None, it.interaction_id)
    else:
        scope = turn.unit(it, it.step_index)
        turn.add("await_completion_early_held", scope, it.item_index, it.interaction_id)


def _completion(turn: TurnEvents, fact: Fact, it: InteractionRecord | None) -> None:
    """A completion that was not admitted, by its outcome (contract 0.4)."""
    name = f"await_completion_{fact.labels.get('reason', 'duplicate')}"
    if it is None:
        turn.add(name, turn.execution(None))
    else:
        turn.add(name, turn.unit(it, it.step_index), it.item_index, it.interaction_id)


def _dispatch_complete(turn: TurnEvents, fact: Fact, it: InteractionRecord | AwaitUnitRecord) -> None:
    detail = {"expectedItemCount": fact.ids.get("expectedItemCount")}
    turn.add("await_unit_dispatch_complete", turn.unit(it, it.step_index), None, None, None, detail)


def _waiting(turn: TurnEvents, fact: Fact, it: InteractionRecord | AwaitUnitRecord) -> None:
    turn.add("await_execution_waiting", turn.unit(it, it.step_index))


def _unit_ended(turn: TurnEvents, fact: Fact, it: AwaitUnitRecord) -> None:
    """A completed unit is completed, and then, as any other, ended: who waits for its end waits for one name."""
    scope, status = turn.unit(it, it.step_index), str(fact.labels.get("status"))
    detail = {
        "status": status,
        "completedItemCount": it.completed_item_count,
        "rejectedItemCount": it.rejected_item_count,
        "expectedItemCount": it.expected_item_count,
    }
    if status == "COMPLETED":
        turn.add("await_unit_completed", scope, None, None, None, detail)
    turn.add("await_unit_terminal", scope, None, None, None, detail)


def _emitted(turn: TurnEvents, fact: Fact, it: OutputRecord) -> None:
    detail = {"outputs": fact.count} if it.arm is None else {"outputs": fact.count, "arm": it.arm}
    turn.add("emit", turn.execution(it.execution_id), it.item_index, None, None, detail)


def _rejected(turn: TurnEvents, fact: Fact, it: RejectRecord) -> None:
    """A source row, or an item. Not its reason: that may hold a piece of it."""
    where = (
        {"line": it.line, "column": it.column} if it.item_index is None else {"errorCode": fact.ids.get("errorCode")}
    )
    detail = {"ordinal": it.ordinal, "stream": fact.ids.get("stream", 0), **where}
    turn.add("reject", turn.execution(it.execution_id), it.item_index, None, None, detail)


def _gathered(turn: TurnEvents, fact: Fact, _: None) -> None:
    """An item is at the end of its stream, where a step takes the list. `stream`: its number, from 0."""
    detail = {"stream": fact.ids.get("stream", 0), "outputs": fact.ids.get("outputs")}
    scope = turn.execution(str(fact.ids.get("executionId")))
    turn.add("gather", scope, fact.ids.get("itemIndex"), None, None, detail)


def _published(turn: TurnEvents, fact: Fact, it: ExecutionRecord) -> None:
    turn.add("object_published", turn.execution(it.execution_id), None, None, None, {"name": it.published})


_ANYTHING = (object,)
_EVENTS: dict[str, tuple[tuple[type, ...], Note]] = {
    "execution.submitted.total": ((ExecutionRecord,), _submitted),
    "execution.duplicate.total": (_ANYTHING, _of_execution("execution_duplicate")),
    "execution.terminal.total": (_ANYTHING, _ended),
    "execution.retry.total": (_ANYTHING, _retried),
    "execution.redriven.total": (_ANYTHING, _redriven),
    "item.recalled.total": (_ANYTHING, _recalled),
    "execution.waiting.total": ((InteractionRecord, AwaitUnitRecord), _waiting),
    "interaction.created.total": ((InteractionRecord,), _created),
    "interaction.dispatched.total": ((InteractionRecord,), _dispatched),
    "interaction.ended.total": ((InteractionRecord,), _interaction_ended),
    "slot.released.total": ((InteractionRecord, OwedRecord), _slot_released),
    "completion.admitted.total": ((InteractionRecord,), _of_interaction("await_completion_admitted")),
    "completion.duplicate.total": ((InteractionRecord,), _completion),
    "completion.dropped.total": ((InteractionRecord, type(None)), _completion),
    "completion.early_held.total": ((InteractionRecord, TokenClaims), _held),
    "item.completed.total": ((InteractionRecord,), _answered),
    "item.rejected.total": ((RejectRecord,), _rejected),
    "row.rejected.total": ((RejectRecord,), _rejected),
    "unit.dispatch_complete.total": ((InteractionRecord, AwaitUnitRecord), _dispatch_complete),
    "unit.terminal.total": ((AwaitUnitRecord,), _unit_ended),
    "resume.released.total": ((InteractionRecord,), _of_interaction("await_resume_released")),
    "item.gathered.total": (_ANYTHING, _gathered),
    "output.emitted.total": ((OutputRecord,), _emitted),
    "object.published.total": ((ExecutionRecord,), _published),
    "session.cancelled.total": (_ANYTHING, _of_execution("await_session_cancelled")),
}

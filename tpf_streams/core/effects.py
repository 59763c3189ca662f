"""What a decision asks for. Imperative; never performed while deciding.

`SendRequest`, `EmitOutput`, `EmitReject`, `Forward` and the dead letters become records of the same transaction, a
request where its transport is one of the log; `RunSegment` of inline steps runs in the turn; everything else happens
after the commit and is owed in state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

from tpf_streams.core.events import ExecutionSubmitted, LifeEnded
from tpf_streams.core.execution import OwedRecord
from tpf_streams.core.frozen import frozen
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.step import Json


@frozen
class SendRequest:
    """Hand the request of `interaction` to its transport."""

    interaction: InteractionRecord


@frozen
class EmitOutput:
    """Append one output to the output topic. `key`: interaction id, or execution id of a scalar execution (0.16)."""

    tenant_id: str
    execution_id: str
    item_index: int | None
    key: str
    type: str
    arm: str | None
    payload: Json


@frozen
class DeadLetter:
    """Keep a completion that could not be used where an operator finds it (contract 0.4, 0.5)."""

    reason: str
    message: str
    origin: str
    value: bytes


@frozen
class DeadLetterExecution:
    """Tell operators of an execution that failed for good: the envelope of contract section 14, plain JSON."""

    execution_id: str
    reason: str
    envelope: Mapping[str, Json]


@frozen
class EmitReject:
    """Append to the item-reject topic what the pipeline's policy turned away: an item, or a row of its source (0.9)."""

    execution_id: str
    key: str
    value: Mapping[str, Json]


@frozen
class Forward:
    """An event for the home of another execution id, in the same transaction."""

    execution_id: str
    event: ExecutionSubmitted | LifeEnded


@frozen
class StartSource:
    """Begin, or go on with, the source of a live session."""

    execution_id: str


@frozen
class StopSource:
    """The source of this execution is not needed any more."""

    execution_id: str


@frozen
class RunSegment:
    """Run the service steps of `owed` on `value`; answered by SegmentCompleted or SegmentFailed.

    `value` is the converted object where admission has already converted it, else the plain payload.
    """

    owed: OwedRecord
    value: object
    converted: bool = False


@frozen
class RequestSlot:
    """Ask the admission budget of the await step `owed.step_index` for one slot; answered by SlotGranted."""

    owed: OwedRecord


@frozen
class UseSlot:
    """An item took one of the slots that its live session holds: from here on its interaction holds it."""

    execution_id: str


@frozen
class AdmitEarly:
    """A completion is waiting for the interaction just created: decide it in this turn, as EarlyDue."""

    interaction_id: str


@frozen
class ReturnSlot:
    """A slot of the await step's budget is free once this turn holds."""

    execution_id: str
    step_index: int


@frozen
class SendOwed:
    """Perform a dispatch outside the log."""

    owed: OwedRecord


@frozen
class ContinueOwed:
    """There is more RELEASE or CLOSE work: come back with OwedDue."""

    owed: OwedRecord


@frozen
class PublishObject:
    """Write the output object of an execution from its committed rows. `attempt`: the execution's."""

    execution_id: str
    attempt: int = 0


Effect: TypeAlias = (
    SendRequest
    | EmitOutput
    | DeadLetter
    | DeadLetterExecution
    | EmitReject
    | Forward
    | StartSource
    | StopSource
    | RunSegment
    | RequestSlot
    | UseSlot
    | AdmitEarly
    | ReturnSlot
    | SendOwed
    | ContinueOwed
    | PublishObject
)


@frozen
class Fact:
    """Something that became true with a turn, for metrics and the lifecycle. Names: contract 10.1 without `tpf.await.`.

    `labels` are bounded values (step id, transport, reason); `ids` and `about` are for events, never for metrics.
    `about`: the row or claims that it became true of, as this turn writes it.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    ids: Mapping[str, Json] = field(default_factory=dict)
    count: int = 1
    about: object | None = None

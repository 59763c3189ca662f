"""What happens to a partition. Past tense; the only way state changes.

Events that come as records of the `events` topic survive a crash there. Local events are results of owed work: after a
crash the work is owed still and the event comes again. Times in epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from tpf_streams.core.envelope import CompletionEnvelope
from tpf_streams.core.execution import OwedRecord
from tpf_streams.core.frozen import frozen
from tpf_streams.core.step import ItemReject, Json, SourceObject


@frozen
class ExecutionSubmitted:
    """Someone asks for an execution; the same key again meets the same row (contract 0.1).

    `life` 0 is what people ask for; the home of the key's first life sends it on to a later one (contract 0.18).
    `gone`: the life that it was sent to and that had gone by then; 0 where it was sent to none. `origin`: whom to tell
    what became of it (`SubmitOutcome`); empty: nobody waits.
    """

    tenant_id: str
    execution_key: str
    input_payload: Json
    source: SourceObject | None = None
    life: int = 0
    gone: int = 0
    origin: str = ""


@frozen
class CompletionReceived:
    """A completion envelope reached its home partition. `arrived_at_ms` decides whether it is late (0.8)."""

    envelope: CompletionEnvelope
    arrived_at_ms: int
    origin: str = ""
    raw: bytes = b""
    """The record's own bytes, for the dead-letter topic."""


@frozen
class ArrivalMarked:
    """The router has forwarded everything before these offsets (`topic/partition` -> offset)."""

    offsets: Mapping[str, int]


@frozen
class ItemsPulled:
    """The live session took elements from its source. `position`: elements taken before the first of these.

    `generation`: of the execution then. What a session of an earlier one still brings is of no use: a redrive has begun
    another, which holds the slots.
    """

    execution_id: str
    position: int
    elements: Sequence[Json | ItemReject]
    ended: bool
    generation: int = 0


@frozen
class ItemsRecalled:
    """A redriven stream has room for `count` more items of its earlier generations, from item `first` on."""

    execution_id: str
    first: int
    count: int
    generation: int = 0


@frozen
class SourceFailed:
    """The source step gave up after its retries, or gave something else than what is recorded."""

    execution_id: str
    code: str
    message: str
    detail: str
    retryable: bool = False
    generation: int = 0


@frozen
class SegmentCompleted:
    """The service steps behind `owed` ran. `outputs` are plain JSON; `arm` is set where the output is a union."""

    owed: OwedRecord
    outputs: Sequence[Json]


@frozen
class SegmentFailed:
    """The service steps behind `owed` gave up. `retryable`: another try, much later, may help (contract section 14)."""

    owed: OwedRecord
    code: str
    message: str
    detail: str
    retryable: bool = False


@frozen
class SlotGranted:
    """The admission budget gave the item behind `owed` its slot."""

    owed: OwedRecord


@frozen
class EarlyDue:
    """The row that an early completion waited for exists now (contract 0.11)."""

    interaction_id: str


@frozen
class RequestSent:
    """A dispatch outside the log is done; `metadata` is the transport's own."""

    owed: OwedRecord
    metadata: Mapping[str, Json] = field(default_factory=dict)


@frozen
class RequestFailed:
    """A dispatch outside the log failed for good. `retryable`: its tries ran out, where others end it at once."""

    owed: OwedRecord
    message: str
    detail: str = ""
    retryable: bool = False


@frozen
class OwedDue:
    """Time for the next bounded piece of RELEASE or CLOSE work."""

    owed: OwedRecord


@frozen
class DeadlinesReached:
    """The partition's time passed deadlines: sweep at most `limit` of them."""

    limit: int


@frozen
class RetriesDue:
    """The partition's time reached retries of executions: take up at most `limit` of them."""

    limit: int


@frozen
class RetentionReached:
    """Executions, or the memory of their keys, have been kept long enough: delete at most `limit` rows."""

    limit: int


@frozen
class LifeEnded:
    """A later life of an execution key has been deleted; told to the home of its first one."""

    tenant_id: str
    execution_key: str
    life: int


@frozen
class ObjectPublished:
    """The output object of an execution is in place under `name`. `attempt`: the execution's, when it was written."""

    execution_id: str
    name: str
    attempt: int = 0


@frozen
class PublishFailed:
    """The output object cannot be written. `attempt`: the execution's, when that was tried."""

    execution_id: str
    code: str
    message: str
    detail: str
    retryable: bool = False
    attempt: int = 0


@frozen
class SessionCancelled:
    """The live session ends; what is open goes on by the durable path (contract 0.20)."""

    execution_id: str


@frozen
class ExecutionCancelled:
    """An operator ends an execution. `origin`: whom to tell what became of it."""

    execution_id: str
    reason: str
    origin: str = ""


@frozen
class InteractionCancelled:
    """An operator ends one interaction."""

    interaction_id: str
    reason: str
    origin: str = ""


@frozen
class RedriveRequested:
    """An operator wants a failed execution to go on where it failed (contract 0.14).

    `expected_version`: of the row that the operator has seen, None: whichever. `allow_failed`: FAILED will do too.
    """

    execution_id: str
    expected_version: int | None = None
    allow_failed: bool = False
    reason: str = ""
    origin: str = ""


@frozen
class DecisionRaised:
    """Deciding another event of this execution raised: it fails with INTERNAL_ERROR (contract 0.5).

    `bare`: failing it in full raised too. Then its row alone says so, and what is open is left to end by itself.
    """

    execution_id: str
    message: str
    detail: str
    bare: bool = False


Event: TypeAlias = (
    ExecutionSubmitted
    | CompletionReceived
    | ArrivalMarked
    | ItemsPulled
    | ItemsRecalled
    | SourceFailed
    | SegmentCompleted
    | SegmentFailed
    | SlotGranted
    | EarlyDue
    | RequestSent
    | RequestFailed
    | OwedDue
    | DeadlinesReached
    | RetriesDue
    | RetentionReached
    | LifeEnded
    | ObjectPublished
    | PublishFailed
    | SessionCancelled
    | ExecutionCancelled
    | InteractionCancelled
    | RedriveRequested
    | DecisionRaised
)

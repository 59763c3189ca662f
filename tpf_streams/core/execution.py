"""The execution row: one run of a pipeline, and what is owed for it."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum

from tpf_streams.core.frozen import frozen
from tpf_streams.core.step import Json


class ExecutionStatus(StrEnum):
    """Contract 4.4. WAIT_RETRY and DLQ are kept for rows and callers that know them."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    WAITING_EXTERNAL = "WAITING_EXTERNAL"
    WAIT_RETRY = "WAIT_RETRY"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    DLQ = "DLQ"

    @property
    def terminal(self) -> bool:
        return self in _TERMINAL


_TERMINAL = frozenset({ExecutionStatus.SUCCEEDED, ExecutionStatus.FAILED, ExecutionStatus.DLQ})


@frozen
class StreamPlace:
    """Where the stream of a failed execution stood, for its redrive. `stream`: its number in the pipeline's course;
    `items`: those it had, of all generations.

    `ended`: the source itself had given everything; `settled`: and every item has its end, so that only the publishing
    is left. `rejects`: ordinals of reject rows given so far.
    """

    stream: int
    items: int
    source_position: int
    source_digest: str
    ended: bool
    settled: bool
    rejects: int


@frozen
class Summary:
    """What became of an execution's items; written once, by the turn that ends it. `place`: of a failed stream."""

    items: int = 0
    outputs: int = 0
    rejected_rows: int = 0
    rejected_items: int = 0
    by_arm: dict[str, int] = field(default_factory=dict)
    place: StreamPlace | None = None


@frozen
class ExecutionRecord:
    """One execution. Times in epoch milliseconds. `input_payload` is the submitted value, plain JSON.

    `source` holds the fields of a `SourceObject`, or None. `error_detail` is the traceback, cut to 8 KiB. `attempt`
    counts every retry and redrive; `retries` those of the segment under way, which `max-retries` bounds. The next is
    due at `next_due_epoch_ms`. `await_unit_id` stays when the execution goes on or fails: a redrive resumes there, or
    with `resume`, the work of the execution as a whole that was owed when it failed.
    """

    tenant_id: str
    execution_id: str
    execution_key: str
    pipeline_id: str
    life: int
    generation: int
    status: ExecutionStatus
    version: int
    current_step_index: int
    attempt: int
    input_payload: Json
    source: dict[str, str] | None
    await_unit_id: str | None
    error_code: str | None
    error_message: str | None
    error_detail: str | None
    created_at_epoch_ms: int
    updated_at_epoch_ms: int
    published: str | None = None
    summary: Summary | None = None
    retries: int = 0
    next_due_epoch_ms: int | None = None
    resume: OwedRecord | None = None


class OwedKind(StrEnum):
    """What a task still has to do for an execution, after any crash (architecture D3)."""

    SEGMENT = "SEGMENT"
    """Run the service steps from `step_index` on `payload`; item None of a stream: be its source."""
    SLOT = "SLOT"
    """Wait for a slot of the admission budget, then dispatch `payload` at the await step `step_index`."""
    SEND = "SEND"
    """Perform the dispatch of `interaction_id` outside the log."""
    RELEASE = "RELEASE"
    """Give the completed items of unit `unit_id` their continuations, from item `cursor` on."""
    CLOSE = "CLOSE"
    """End the open interactions of unit `unit_id`, from item `cursor` on; without an item, forget what is owed."""
    PUBLISH = "PUBLISH"
    """Write the execution's output object."""
    RETRY = "RETRY"
    """Run the service steps from `step_index` again when the execution's retry is due."""


@frozen
class OwedRecord:
    """One owed piece of work. Key: (execution, kind, item); gone in the turn that knows it done.

    `item_index` None: the scalar item, or the execution as a whole. `holds_slot`: the budget scope of this await step
    index is still held by the item (None: no slot). `attempt`: the execution's, where a redrive may owe the same again:
    what a run that hung says at last must not be taken for the word of the one begun since.
    """

    execution_id: str
    kind: OwedKind
    item_index: int | None
    step_index: int
    payload: Json = None
    interaction_id: str | None = None
    unit_id: str | None = None
    cursor: int = 0
    holds_slot: int | None = None
    arm: str | None = None
    attempt: int = 0


@frozen
class OutputRecord:
    """What one item gave, in order of its index; the published object is a function of these rows."""

    execution_id: str
    item_index: int | None
    type: str
    arm: str | None
    payloads: list[Json]


@frozen
class PartRecord:
    """What one item of a stream gave to the list that a later step takes, in order of its index (contract 0.21)."""

    payloads: list[Json]


@frozen
class RejectRecord:
    """One piece that became no output: a source row, or an item that failed or timed out."""

    execution_id: str
    ordinal: int
    item_index: int | None
    file: str
    line: int
    column: str
    reason: str
    raw: str


@frozen
class TombstoneRecord:
    """That an execution was here: what stays of it when it is deleted (contract 0.18).

    Under the id of the key's first life it says which life is the last one; under the id of any other, that this one is
    over. `expires_at_epoch_ms` None: the last life is not over yet, as far as is known here. `ingested`: it worked on
    an object, and that is not done a second time while the object is still listed.
    """

    tenant_id: str
    execution_key: str
    execution_id: str
    life: int
    expires_at_epoch_ms: int | None
    ingested: bool = False

    @property
    def next_life(self) -> int:
        """The life that a submission of the key meets, or begins."""
        return self.life if self.expires_at_epoch_ms is None else self.life + 1

"""The await unit: the one durable identity of a boundary, and the committed position of its live session."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum

from tpf_streams.core.frozen import frozen

CUT = "cut"


class UnitStatus(StrEnum):
    WAITING_EXTERNAL = "WAITING_EXTERNAL"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"

    @property
    def terminal(self) -> bool:
        return self is not UnitStatus.WAITING_EXTERNAL


@frozen
class AwaitUnitRecord:
    """Contract 4.1, with counters instead of sets (0.21). Times in epoch milliseconds.

    `itemized`: one interaction per item of a stream; else a single one. On the live path the counters and
    `dispatch_complete` are written by the last dispatching and the last delivering turn only (0.20).
    """

    tenant_id: str
    unit_id: str
    execution_id: str
    step_id: str
    step_index: int
    generation: int
    cardinality: str
    itemized: bool
    status: UnitStatus
    version: int
    expected_item_count: int | None
    completed_item_count: int
    rejected_item_count: int
    dispatch_complete: bool
    created_at_epoch_ms: int
    updated_at_epoch_ms: int


@frozen
class Recall:
    """What a redriven stream begins with: the items before `until` come from rows, in their order, and only then the
    source goes on; `ended`: it has nothing more. `rejects`: ordinals of reject rows used by earlier generations."""

    until: int
    ended: bool
    rejects: int


@frozen
class SessionRecord:
    """Where the stream of an execution stands. Fixed size, rewritten by the turns that move it.

    `next_item_index`: items dispatched so far. `source_position`: elements taken from the source (items and rejects).
    `source_digest`: chained SHA-256 over the items dispatched, hex. `settled`: items whose end is committed (output
    written, or rejected). In flight = next_item_index - settled. `completed`: answers admitted, per await step index;
    `unanswered`: items that ended there without one, so that both add up to the unit's items.
    `failure`: (code, message, detail, terminal reason) of an execution that drains before it fails, and CUT behind it
    where the source was stopped for it. `stream`: its number in the course of the pipeline; where that is not the last
    one, `outputs` and `output_bytes` are of the list that it comes to. `recall`: of a redriven stream.
    """

    execution_id: str
    live: bool
    next_item_index: int = 0
    source_position: int = 0
    source_digest: str = ""
    source_ended: bool = False
    settled: int = 0
    outputs: int = 0
    rejected_rows: int = 0
    rejected_items: int = 0
    completed: dict[str, int] = field(default_factory=dict)
    by_arm: dict[str, int] = field(default_factory=dict)
    failure: tuple[str, ...] | None = None
    publish_on_failure: bool = False
    unanswered: dict[str, int] = field(default_factory=dict)
    stream: int = 0
    output_bytes: int = 0
    recall: Recall | None = None

    @property
    def in_flight(self) -> int:
        return self.next_item_index - self.settled

    @property
    def recalling(self) -> bool:
        """Whether items of earlier generations are still to be taken up."""
        return self.recall is not None and self.next_item_index < self.recall.until

    @property
    def next_reject(self) -> int:
        """The ordinal of the next reject row."""
        before = 0 if self.recall is None else self.recall.rejects
        return before + self.rejected_rows + self.rejected_items

    @property
    def drained(self) -> bool:
        """Nothing more will come and nothing is open."""
        return self.source_ended and self.settled == self.next_item_index

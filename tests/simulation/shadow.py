"""What the rows of all partitions say, decoded from their bytes: the checkers' own view, built from committed turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.simulation.pipelines import Pipeline
from tpf_streams.core import rows
from tpf_streams.core.execution import (
    ExecutionRecord,
    OutputRecord,
    OwedRecord,
    PartRecord,
    RejectRecord,
    TombstoneRecord,
)
from tpf_streams.core.interaction import EarlyRecord, InteractionRecord
from tpf_streams.core.step import Json
from tpf_streams.core.unit import AwaitUnitRecord, SessionRecord
from tpf_streams.logs.memory import MemoryLog

_CLASSES: dict[bytes, type] = {
    b"a": PartRecord,
    b"e": ExecutionRecord,
    b"s": SessionRecord,
    b"u": AwaitUnitRecord,
    b"i": InteractionRecord,
    b"o": OutputRecord,
    b"r": RejectRecord,
    b"w": OwedRecord,
    b"x": TombstoneRecord,
    b"y": EarlyRecord,
}
_INDEXES = (b"c", b"d", b"g", b"j", b"l", b"m", b"n", b"t", b"z")


class Violation(AssertionError):
    """Something that must never be the case, is."""


@dataclass(frozen=True, slots=True)
class Part:
    """A row of a list, with what its key says: whose, taken by which step, and its place."""

    execution_id: str
    step_index: int
    item_index: int
    payloads: list[Json]


@dataclass(frozen=True, slots=True)
class Change:
    """One row of a turn; None is no row."""

    kind: bytes
    key: bytes
    old: Any
    new: Any


class Shadow:
    """Tables by kind of row; keys are the store's."""

    def __init__(self) -> None:
        self.tables: dict[bytes, dict[bytes, Any]] = {kind: {} for kind in (*_CLASSES, *_INDEXES)}

    @classmethod
    def of(cls, log: MemoryLog) -> Shadow:
        """The stores as they are."""
        shadow = cls()
        for partition in range(log.partitions):
            shadow.apply(dict(log.store(partition).scan(b"", b"\xff" * 64)))
        return shadow

    def apply(self, turn_rows: Mapping[bytes, bytes | None]) -> list[Change]:
        changes = []
        for key, value in turn_rows.items():
            kind = key[2:3]
            table = self.tables[kind]
            old, new = table.get(key), None if value is None else _decode(kind, key, value)
            if new is None:
                table.pop(key, None)
            else:
                table[key] = new
            changes.append(Change(kind, key, old, new))
        return changes

    @property
    def interactions(self) -> list[InteractionRecord]:
        return list(self.tables[b"i"].values())

    @property
    def executions(self) -> list[ExecutionRecord]:
        return list(self.tables[b"e"].values())

    def of_execution(self, kind: bytes, execution_id: str) -> list[Any]:
        return [row for row in self.tables[kind].values() if row.execution_id == execution_id]

    def of_partition(self, kind: bytes, partition: int) -> Iterator[Any]:
        prefix = partition.to_bytes(2, "big")
        return (row for key, row in self.tables[kind].items() if key[:2] == prefix)

    def lists_of(self, execution_id: str) -> dict[int, list[Part]]:
        """The lists of an execution by the step that takes them, in order."""
        found: dict[int, list[Part]] = {}
        for part in sorted(self.of_execution(b"a", execution_id), key=lambda it: (it.step_index, it.item_index)):
            found.setdefault(part.step_index, []).append(part)
        return found

    def list_at(self, execution_id: str, step_index: int) -> list[Json]:
        """The items of one list."""
        return [payload for part in self.lists_of(execution_id).get(step_index, []) for payload in part.payloads]

    def request(self, pipeline: Pipeline, row: InteractionRecord) -> Json:
        """What an interaction asks; a list where its step takes many together."""
        joins = pipeline.definition.steps[row.step_index].joins
        return self.list_at(row.execution_id, row.step_index) if joins else row.request_payload

    def answer(self, pipeline: Pipeline, row: InteractionRecord) -> Json:
        """What a completed interaction was given."""
        if row.item_index is None and pipeline.definition.steps[row.step_index].expands:
            return self.list_at(row.execution_id, row.step_index + 1)
        return row.response_payload

    def settled(self, pipeline: Pipeline, execution_id: str, stream: int) -> list[Any]:
        """The rows of items that have come to the end of a stream."""
        end = pipeline.definition.course.streams[stream].end
        if end == len(pipeline.definition.steps):
            return self.of_execution(b"o", execution_id)
        return self.lists_of(execution_id).get(end, [])

    def execution(self, execution_id: str) -> ExecutionRecord:
        return next(row for row in self.executions if row.execution_id == execution_id)

    def interaction(self, interaction_id: str) -> InteractionRecord | None:
        return next((row for row in self.interactions if row.interaction_id == interaction_id), None)


def _decode(kind: bytes, key: bytes, value: bytes) -> Any:
    if kind == b"a":
        place = int.from_bytes(key[19:21], "big"), int.from_bytes(key[21:25], "big")
        return Part(rows.execution_of(key), *place, rows.decode(PartRecord, value).payloads)
    cls = _CLASSES.get(kind)
    return rows.decode_bytes(value) if cls is None else rows.decode(cls, value)

"""What the rows of all partitions say, decoded from their bytes: the checkers' own view, built from committed turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tpf_streams.core import rows
from tpf_streams.core.execution import ExecutionRecord, OutputRecord, OwedRecord, RejectRecord
from tpf_streams.core.interaction import EarlyRecord, InteractionRecord
from tpf_streams.core.unit import AwaitUnitRecord, SessionRecord
from tpf_streams.logs.memory import MemoryLog

_CLASSES: dict[bytes, type] = {
    b"e": ExecutionRecord,
    b"s": SessionRecord,
    b"u": AwaitUnitRecord,
    b"i": InteractionRecord,
    b"o": OutputRecord,
    b"r": RejectRecord,
    b"w": OwedRecord,
    b"y": EarlyRecord,
}
_INDEXES = (b"c", b"d", b"m", b"n", b"z")


class Violation(AssertionError):
    """Something that must never be the case, is."""


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
            old, new = table.get(key), None if value is None else _decode(kind, value)
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

    def execution(self, execution_id: str) -> ExecutionRecord:
        return next(row for row in self.executions if row.execution_id == execution_id)

    def interaction(self, interaction_id: str) -> InteractionRecord | None:
        return next((row for row in self.interactions if row.interaction_id == interaction_id), None)


def _decode(kind: bytes, value: bytes) -> Any:
    cls = _CLASSES.get(kind)
    return rows.decode_bytes(value) if cls is None else rows.decode(cls, value)

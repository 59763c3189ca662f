"""Durable rows: their keys and their bytes.

Key: 2-byte slot (big-endian), 1 byte of kind, then the kind's own part, fixed width and ordered; see `Keys`.
Value: 1 byte format version, then a JSON array of the record's fields in order. A field is only ever added at the end,
with a default: rows of an earlier version decode with fewer elements. A row of a later version is refused, not guessed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import orjson

from tpf_streams.core.execution import (
    ExecutionRecord,
    ExecutionStatus,
    OutputRecord,
    OwedKind,
    OwedRecord,
    PartRecord,
    RejectRecord,
    StreamPlace,
    Summary,
    TombstoneRecord,
)
from tpf_streams.core.frozen import values_of
from tpf_streams.core.interaction import EarlyRecord, InteractionRecord, InteractionStatus
from tpf_streams.core.unit import AwaitUnitRecord, Recall, SessionRecord, UnitStatus
from tpf_streams.errors import LogCorruptError

VERSION = 1
_HEADER = bytes([VERSION])
_U16 = struct.Struct(">H")
_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")
KIND_AT = 2
"""Where in a key its kind is."""
EARLY_KIND = ord("y")
INTERACTION_KIND = ord("i")
OWED_KIND = ord("w")
UNIT_KIND = ord("u")
_ROUTE_BYTES = 4
_SCALAR = 0xFFFFFFFF
"""Item number of the scalar item in keys; real items stay below it."""

R = TypeVar("R")


@lru_cache(maxsize=16_384)
def raw_id(text: str) -> bytes:
    """The 16 bytes of an id's text. Kept, because an item's ids make a dozen keys a turn."""
    return bytes.fromhex(text.replace("-", ""))


def text_id(raw: bytes) -> str:
    """The text of 16 id bytes."""
    digits = raw.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


class Keys:
    """Store keys of one slot. `item_index` None is the scalar item."""

    def __init__(self, slot: int) -> None:
        self.prefix = struct.pack(">H", slot)
        self._part = self.prefix + b"a"
        self._correlation = self.prefix + b"c"
        self._deadline = self.prefix + b"d"
        self._execution = self.prefix + b"e"
        self._interaction = self.prefix + b"i"
        self.lifecycle = self.prefix + b"l"
        self.markers = self.prefix + b"m"
        self.now = self.prefix + b"n"
        self._output = self.prefix + b"o"
        self._reject = self.prefix + b"r"
        self._rejected = self.prefix + b"j"
        self._retry = self.prefix + b"t"
        self._session = self.prefix + b"s"
        self._retention = self.prefix + b"g"
        self._unit = self.prefix + b"u"
        self._owed = self.prefix + b"w"
        self._tombstone = self.prefix + b"x"
        self._early = self.prefix + bytes([EARLY_KIND])
        self._expiry = self.prefix + b"z"

    def execution(self, execution_id: str) -> bytes:
        return self._execution + raw_id(execution_id)

    def session(self, execution_id: str) -> bytes:
        return self._session + raw_id(execution_id)

    def unit(self, unit_id: str) -> bytes:
        return self._unit + raw_id(unit_id)

    def interaction(self, interaction_id: str) -> bytes:
        return self._interaction + raw_id(interaction_id)

    def interaction_of(self, raw: bytes) -> bytes:
        """The key of an interaction whose id came from outside, as `id_bytes` gives it."""
        return self._interaction + raw

    def correlation(self, correlation_id: str) -> bytes:
        """-> 16 bytes: the interaction's id."""
        return self._correlation + raw_id(correlation_id)

    def deadline(self, epoch_ms: int, interaction_id: str) -> bytes:
        """Present exactly while the interaction is open; in order of time."""
        return self._deadline + _U64.pack(epoch_ms) + raw_id(interaction_id)

    def retry(self, epoch_ms: int, execution_id: str) -> bytes:
        """Present exactly while the execution is in WAIT_RETRY; in order of time."""
        return self._retry + _U64.pack(epoch_ms) + raw_id(execution_id)

    def output(self, execution_id: str, item_index: int | None) -> bytes:
        """Present exactly when the item is settled."""
        return self._output + raw_id(execution_id) + _item(item_index)

    def part(self, execution_id: str, step_index: int, item_index: int) -> bytes:
        """A piece of the list that is taken at `step_index`."""
        return self._part + raw_id(execution_id) + _U16.pack(step_index) + _U32.pack(item_index)

    def reject(self, execution_id: str, ordinal: int) -> bytes:
        return self._reject + raw_id(execution_id) + _U32.pack(ordinal)

    def rejected(self, execution_id: str, end: int, item_index: int) -> bytes:
        """-> 4 bytes: the ordinal of the reject row of an item of the stream that ends at step `end`. A redrive takes
        it away with the row."""
        return self._rejected + raw_id(execution_id) + _U16.pack(end) + _U32.pack(item_index)

    def owed(self, execution_id: str, kind: OwedKind, item_index: int | None) -> bytes:
        return self._owed + raw_id(execution_id) + _OWED_BYTE[kind] + _item(item_index)

    def early(self, interaction_id: str) -> bytes:
        return self._early + raw_id(interaction_id)

    def early_expiry(self, epoch_ms: int, interaction_id: str) -> bytes:
        return self._expiry + _U64.pack(epoch_ms) + raw_id(interaction_id)

    def retention(self, epoch_ms: int, execution_id: str) -> bytes:
        """When to look whether the execution, or what remembers it, has to go; in order of time. -> b"", or the key of
        the last row that was looked at, where the rows of a deleted one are being deleted."""
        return self._retention + _U64.pack(epoch_ms) + raw_id(execution_id)

    def tombstone(self, execution_id: str) -> bytes:
        return self._tombstone + raw_id(execution_id)

    def outputs_of(self, execution_id: str) -> tuple[bytes, bytes]:
        return _range(self._output + raw_id(execution_id))

    def parts_of(self, execution_id: str, step_index: int) -> tuple[bytes, bytes]:
        """The list that is taken at `step_index`."""
        return _range(self._part + raw_id(execution_id) + _U16.pack(step_index))

    def all_parts_of(self, execution_id: str) -> tuple[bytes, bytes]:
        return _range(self._part + raw_id(execution_id))

    def rejects_of(self, execution_id: str) -> tuple[bytes, bytes]:
        return _range(self._reject + raw_id(execution_id))

    def owed_of(self, execution_id: str) -> tuple[bytes, bytes]:
        return _range(self._owed + raw_id(execution_id))

    def all_owed(self) -> tuple[bytes, bytes]:
        return _range(self._owed)

    def all_executions(self) -> tuple[bytes, bytes]:
        return _range(self._execution)

    def all_deadlines(self) -> tuple[bytes, bytes]:
        return _range(self._deadline)

    def all_early(self) -> tuple[bytes, bytes]:
        return _range(self._early)

    def all_expiries(self) -> tuple[bytes, bytes]:
        return _range(self._expiry)

    def all_retries(self) -> tuple[bytes, bytes]:
        return _range(self._retry)

    def retries_until(self, epoch_ms: int) -> tuple[bytes, bytes]:
        """Retries that are due at `epoch_ms`, this very millisecond included."""
        return self._retry, self._retry + _U64.pack(max(0, epoch_ms) + 1)

    def all_retention(self) -> tuple[bytes, bytes]:
        return _range(self._retention)

    def retention_until(self, epoch_ms: int) -> tuple[bytes, bytes]:
        return self._retention, self._retention + _U64.pack(max(0, epoch_ms))

    def left_of(self, execution_id: str) -> tuple[tuple[bytes, bytes], ...]:
        """Where the rows of an ended execution are besides its own one, in order of the keys.

        Interactions, units and early completions lie under ids of their own. These begin with the execution's route
        hash, and so, once in four thousand million, do those of another execution: the rows say whose they are.
        """
        raw = raw_id(execution_id)
        route = raw[:_ROUTE_BYTES]
        prefixes = (
            self._part + raw,
            self._interaction + route,
            self._rejected + raw,
            self._output + raw,
            self._reject + raw,
            self._unit + route,
            self._early + route,
        )
        return tuple(_range(prefix) for prefix in prefixes)

    def deadlines_until(self, epoch_ms: int) -> tuple[bytes, bytes]:
        """Deadlines that are over at `epoch_ms`: deadline < epoch_ms. Arriving at the deadline itself is in time."""
        return self._deadline, self._deadline + _U64.pack(max(0, epoch_ms))

    def expiries_until(self, epoch_ms: int) -> tuple[bytes, bytes]:
        return self._expiry, self._expiry + _U64.pack(max(0, epoch_ms))


def deadline_of(key: bytes) -> tuple[int, str]:
    """(epoch ms, id) of a key that is ordered by time: of an interaction, or of an execution."""
    return _U64.unpack(key[3:11])[0], text_id(key[11:27])


def execution_of(key: bytes) -> str:
    """The execution whose row it is, for the kinds of rows whose own part begins with one."""
    return text_id(key[3:19])


def tells_of_execution(key: bytes) -> bool:
    """Whether the row is what can be seen of an execution: itself, its live session, or the output of a scalar one."""
    kind = key[2:3]
    return kind in (b"e", b"s") or (kind == b"o" and key[19:] == _item(None))


def is_execution(key: bytes) -> bool:
    return key[2:3] == b"e"


def _item(item_index: int | None) -> bytes:
    return _U32.pack(_SCALAR if item_index is None else item_index)


def _range(prefix: bytes) -> tuple[bytes, bytes]:
    return prefix, prefix + b"\xff" * 24


_OWED_BYTE = {kind: bytes([number]) for number, kind in enumerate(OwedKind, start=1)}


def _execution(values: list[Any]) -> ExecutionRecord:
    values[6] = ExecutionStatus(values[6])
    if len(values) > 19 and values[19] is not None:
        values[19] = _summary(values[19])
    if len(values) > 22 and values[22] is not None:
        values[22] = OwedRecord(**{**values[22], "kind": OwedKind(values[22]["kind"])})
    return ExecutionRecord(*values)


def _summary(fields: dict[str, Any]) -> Summary:
    place = fields.pop("place", None)
    return Summary(**fields, place=None if place is None else StreamPlace(**place))


def _unit(values: list[Any]) -> AwaitUnitRecord:
    values[8] = UnitStatus(values[8])
    return AwaitUnitRecord(*values)


def _interaction(values: list[Any]) -> InteractionRecord:
    values[10] = InteractionStatus(values[10])
    return InteractionRecord(*values)


def _session(values: list[Any]) -> SessionRecord:
    if len(values) > 12 and values[12] is not None:
        values[12] = tuple(values[12])
    if len(values) > 17 and values[17] is not None:
        values[17] = Recall(**values[17])
    return SessionRecord(*values)


def _owed(values: list[Any]) -> OwedRecord:
    values[1] = OwedKind(values[1])
    return OwedRecord(*values)


_DECODE: dict[type, Callable[[list[Any]], Any]] = {
    ExecutionRecord: _execution,
    AwaitUnitRecord: _unit,
    InteractionRecord: _interaction,
    SessionRecord: _session,
    OwedRecord: _owed,
    OutputRecord: lambda values: OutputRecord(*values),
    PartRecord: lambda values: PartRecord(*values),
    RejectRecord: lambda values: RejectRecord(*values),
    EarlyRecord: lambda values: EarlyRecord(*values),
    TombstoneRecord: lambda values: TombstoneRecord(*values),
}
_VALUES: dict[type, Callable[[Any], tuple[Any, ...]]] = {cls: values_of(cls) for cls in _DECODE}


def encode(record: object) -> bytes:
    """Bytes of a row. `bytes` values (indexes) and dicts (markers) are taken as they are."""
    values = _VALUES.get(type(record))
    if values is not None:
        return _HEADER + orjson.dumps(values(record))
    if isinstance(record, bytes):
        return _HEADER + record
    return _HEADER + orjson.dumps(record)


def decode(cls: type[R], value: bytes) -> R:
    """The row of class `cls` in `value`. Raises LogCorruptError for a later version or bytes that are no row."""
    _check(value)
    try:
        record: R = _DECODE[cls](orjson.loads(value[1:]))
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise LogCorruptError(f"a {cls.__name__} row cannot be read: {type(error).__name__}") from error
    return record


def decode_bytes(value: bytes) -> bytes:
    """The raw part of an index row."""
    _check(value)
    return value[1:]


def decode_markers(value: bytes) -> dict[str, int]:
    """`topic/partition` -> offset, the router's markers that this partition has seen."""
    _check(value)
    try:
        return dict(orjson.loads(value[1:]).items())
    except (ValueError, AttributeError) as error:
        raise LogCorruptError(f"the row of markers cannot be read: {type(error).__name__}") from error


def _check(value: bytes) -> None:
    if not value or value[0] != VERSION:
        found = value[0] if value else "none"
        raise LogCorruptError(
            f"a row has format version {found}; this program reads {VERSION}: run the version that wrote it"
        )

"""What a decision reads, and what it wants to change.

`State` is the partition's rows under a cache of decoded ones, the changes of a turn whose commit is under way, and
those of the open turn. `decide` reads it and never writes it; the engine applies whole decisions. `Draft` is the pencil
of one decision: it reads through its own changes and ends as a `Decision`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast

from tpf_streams.core import rows
from tpf_streams.core.effects import Effect, Fact
from tpf_streams.core.execution import (
    ExecutionRecord,
    OutputRecord,
    OwedKind,
    OwedRecord,
    PartRecord,
    RejectRecord,
    TombstoneRecord,
)
from tpf_streams.core.frozen import frozen
from tpf_streams.core.identity import IdFactory, UnitIds
from tpf_streams.core.interaction import EarlyRecord, InteractionRecord
from tpf_streams.core.parts import Parts
from tpf_streams.core.rows import EARLY_KIND, KIND_AT, OWED_KIND, Keys
from tpf_streams.core.step import AwaitDefinition, PipelineDefinition
from tpf_streams.core.unit import AwaitUnitRecord, SessionRecord

R = TypeVar("R")
_CACHE_MAX = 8192
"""Decoded rows kept: above the largest window, so that an answer usually finds its row decoded."""
_CACHE_BYTES_MAX = 4 * 1024 * 1024
"""Of those rows as stored, of one partition; decoded they take three times as much. A row may hold two payloads of
256 KiB, and a worker has many partitions: the count alone bounds nothing."""
_READ_ONCE = frozenset({OutputRecord, PartRecord, RejectRecord, bytes, dict})
_ABSENT = object()


class RowReader(Protocol):
    """The part of a store that decisions need."""

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def scan(self, start: bytes, end: bytes, limit: int | None = None) -> Iterator[tuple[bytes, bytes]]: ...


@frozen
class Decision:
    """changes: (store key, record or None to delete), in order; the last one of a key counts."""

    changes: Sequence[tuple[bytes, object | None]]
    effects: Sequence[Effect]
    facts: Sequence[Fact]
    outcome: str | None = None
    """What became of a completion (contract 0.4), for the one who asked."""


class State:
    """One partition's rows. `now_ms` is the partition's time, set by the engine before each turn."""

    def __init__(self, store: RowReader, slot: int, definition: PipelineDefinition) -> None:
        self.definition = definition
        self.keys = Keys(slot)
        self.ids = IdFactory(definition.id_secret)
        self.signer = definition.signer if definition.resume_token_secrets else None
        self.now_ms = 0
        self.early_rows = sum(1 for _ in store.scan(*self.keys.all_early()))
        self._store = store
        self._cache: OrderedDict[bytes, tuple[object, int]] = OrderedDict()
        self._cached_bytes = 0
        self._encoded: dict[bytes, bytes | None] = {}
        self._dirty: dict[bytes, object | None] = {}
        self._sealed: dict[bytes, object | None] = {}
        self._new_owed: set[bytes] = set()
        # Of everything owed somebody keeps the work in memory, so its keys may be there too.
        self._owed = {key for key, _ in store.scan(*self.keys.all_owed())}
        self._units: dict[tuple[str, int, int], UnitIds] = {}

    def unit_ids(self, execution: ExecutionRecord, step: AwaitDefinition) -> UnitIds:
        """The ids of one await step of one execution; kept, because deriving them costs a digest each."""
        key = (execution.execution_id, step.index, execution.generation)
        found = self._units.get(key)
        if found is None:
            if len(self._units) >= 1024:
                self._units.clear()
            found = self.ids.unit(execution.tenant_id, execution.execution_id, step.step_id, step.index, key[2])
            self._units[key] = found
        return found

    def get(self, key: bytes, cls: type[R]) -> R | None:
        found: Any = self._dirty.get(key, _ABSENT)  # no cast: it is a call, and a dozen rows are asked for an item
        if found is _ABSENT and self._sealed:
            found = self._sealed.get(key, _ABSENT)
        return self.base(key, cls) if found is _ABSENT else found

    def base(self, key: bytes, cls: type[R]) -> R | None:
        """The row as of the last commit, whatever the turns under way say: for what is done outside of them."""
        kept: Any = self._cache.get(key)
        if kept is not None:
            return kept[0]  # type: ignore[no-any-return]
        value = self._store.get(key)
        if value is None:
            return None
        record = rows.decode(cls, value)
        self._remember(key, record, len(value))
        return record

    def _pending(self, key: bytes) -> object | None:
        """What the turns under way made of a row; `_ABSENT`: nothing."""
        return self._dirty.get(key, self._sealed.get(key, _ABSENT))

    def _pending_of(self, bounds: tuple[bytes, bytes]) -> dict[bytes, object | None]:
        """What they made of a range, in no order."""
        start, end = bounds
        return {key: it for part in (self._sealed, self._dirty) for key, it in part.items() if start <= key < end}

    def get_bytes(self, key: bytes) -> bytes | None:
        found = self._pending(key)
        if found is not _ABSENT:
            return cast("bytes | None", found)
        value = self._store.get(key)
        return None if value is None else rows.decode_bytes(value)

    @property
    def markers(self) -> dict[str, int]:
        """What the router has forwarded to this partition: `topic/partition` -> offset (contract 0.8)."""
        found = self._pending(self.keys.markers)
        if found is not _ABSENT:
            return cast("dict[str, int]", found)
        value = self._store.get(self.keys.markers)
        return {} if value is None else rows.decode_markers(value)

    @property
    def stored_now_ms(self) -> int:
        """The partition's time at its last commit: its now never goes back, not even over a restart (0.8)."""
        value = self._store.get(self.keys.now)
        return 0 if value is None else int.from_bytes(rows.decode_bytes(value), "big")

    def remember_now(self) -> None:
        """Write the partition's time with the open turn."""
        self._dirty[self.keys.now] = self.now_ms.to_bytes(8, "big")

    def take_numbers(self, count: int) -> int:
        """The first of `count` numbers for lifecycle events; they are used up when the open turn holds."""
        key = self.keys.lifecycle
        found = self.get_bytes(key)
        first = 0 if found is None else int.from_bytes(found, "big")
        self._dirty[key] = (first + count).to_bytes(8, "big")
        return first

    def prefetch(self, cls: type[R], keys: Sequence[bytes]) -> None:
        """Read many rows at once into the cache."""
        missing = [key for key in keys if key not in self._cache and self._pending(key) is _ABSENT]
        for key, value in zip(missing, self._store.get_many(missing) if missing else (), strict=True):
            if value is not None:
                self._remember(key, rows.decode(cls, value), len(value))

    def parts(self, execution_id: str, step_index: int) -> Parts:
        """The list that is taken at `step_index`, as it is committed: for whoever works on it behind the commit."""
        return Parts(self._store, self.keys.parts_of(execution_id, step_index))

    def parts_now(self, execution_id: str, step_index: int) -> list[Any]:
        """The same in memory, changes of the open turn included: for a list that has to become one request."""
        found = self.scan(self.keys.parts_of(execution_id, step_index), PartRecord)
        return [payload for _, part in found for payload in part.payloads]

    def scan(self, bounds: tuple[bytes, bytes], cls: type[R], limit: int | None = None) -> Iterator[tuple[bytes, R]]:
        """Committed and changed rows of a range, in key order; with a limit, at most that many."""
        changed = self._pending_of(bounds)
        if not changed:
            for key, value in self._store.scan(*bounds, limit):
                yield key, rows.decode(cls, value)
            return
        more = None if limit is None else limit + len(changed)
        merged: dict[bytes, Any] = {**dict(self._store.scan(*bounds, more)), **changed}
        live = [key for key in sorted(merged) if merged[key] is not None]
        for key in live[:limit]:
            value = merged[key]
            yield key, (value if key in changed else rows.decode(cls, value))

    def scan_keys(self, bounds: tuple[bytes, bytes], limit: int | None = None) -> list[bytes]:
        """Keys of a range that exist now, in order."""
        changed = self._pending_of(bounds)
        found = {key for key, _ in self._store.scan(*bounds, None if limit is None else limit + len(changed))}
        for key, record in changed.items():
            if record is None:
                found.discard(key)
            else:
                found.add(key)
        return sorted(found)[:limit]

    def stored(self, bounds: tuple[bytes, bytes], limit: int) -> Iterator[tuple[bytes, bytes]]:
        """Committed rows of a range as bytes, at most `limit`: for what no open turn writes any more."""
        return self._store.scan(*bounds, limit)

    def first_retention_ms(self) -> int | None:
        """The earliest committed time at which something has been kept long enough, epoch ms."""
        return next((rows.deadline_of(key)[0] for key, _ in self.stored(self.keys.all_retention(), 1)), None)

    def first_deadline_ms(self) -> int | None:
        """The earliest committed deadline or expiry, epoch ms. Changes of turns under way do not count yet."""
        firsts = [
            rows.deadline_of(key)[0]
            for bounds in (self.keys.all_deadlines(), self.keys.all_expiries())
            for key, _ in self._store.scan(*bounds, 1)
        ]
        return min(firsts, default=None)

    def first_retry_ms(self) -> int | None:
        """When the first committed retry of an execution is due, epoch ms."""
        return next((rows.deadline_of(key)[0] for key, _ in self._store.scan(*self.keys.all_retries(), 1)), None)

    def apply(self, decision: Decision) -> None:
        """Take a whole decision into the open turn."""
        dirty = self._dirty
        for key, record in decision.changes:
            kind = key[KIND_AT]
            if kind == OWED_KIND and self._passes_by(key, record):
                continue
            if kind == EARLY_KIND:
                self.early_rows += (record is not None) - (self.get(key, EarlyRecord) is not None)
            dirty[key] = record

    def _passes_by(self, key: bytes, record: object | None) -> bool:
        """Whether what is owed is done in the turn that owes it: then nobody need ever hear of it, neither the store
        nor a changelog."""
        if record is None:
            self._owed.discard(key)
            if key not in self._new_owed:
                return False
            self._new_owed.discard(key)
            del self._dirty[key]
            return True
        if key not in self._owed and key not in self._dirty:
            self._new_owed.add(key)
        self._owed.add(key)
        return False

    @property
    def changed(self) -> bool:
        return bool(self._dirty)

    def seal(self) -> dict[bytes, bytes | None]:
        """End the open turn; -> its rows as bytes, to be committed. The next turn may be decided on them meanwhile:
        should the commit fail, everything here falls with the incarnation."""
        assert not self._sealed, "one commit at a time"
        encode = rows.encode
        self._encoded = {key: None if record is None else encode(record) for key, record in self._dirty.items()}
        self._sealed, self._dirty = self._dirty, {}
        self._new_owed.clear()
        return self._encoded

    def committed(self) -> None:
        """The sealed turn holds: its rows are the base now."""
        sealed = self._sealed
        for key, value in self._encoded.items():
            record = sealed[key]
            if value is not None and _needed_again(record):
                self._remember(key, record, len(value))
            elif key in self._cache:
                self._forget(key)
        self._sealed = {}
        self._encoded = {}

    def _remember(self, key: bytes, record: object, size: int) -> None:
        self._forget(key)
        self._cache[key] = record, size
        self._cached_bytes += size
        while len(self._cache) > _CACHE_MAX or self._cached_bytes > _CACHE_BYTES_MAX:
            self._cached_bytes -= self._cache.popitem(last=False)[1][1]

    def _forget(self, key: bytes) -> None:
        kept = self._cache.pop(key, None)
        if kept is not None:
            self._cached_bytes -= kept[1]


def _needed_again(record: object) -> bool:
    """What is settled is read by publishing only, indexes as bytes: kept, they would push others out."""
    if isinstance(record, InteractionRecord):
        return not record.status.terminal
    return type(record) not in _READ_ONCE


class Draft:
    """The changes, effects and facts of one decision in the making."""

    __slots__ = ("_changes", "_effects", "_facts", "definition", "keys", "now_ms", "outcome", "state")

    def __init__(self, state: State) -> None:
        self.state = state
        self.definition = state.definition
        self.keys = state.keys
        self.now_ms = state.now_ms
        self.outcome: str | None = None
        self._changes: dict[bytes, object | None] = {}
        self._effects: list[Effect] = []
        self._facts: list[Fact] = []

    def decision(self) -> Decision:
        return Decision(tuple(self._changes.items()), self._effects, self._facts, self.outcome)

    def effect(self, effect: Effect) -> None:
        self._effects.append(effect)

    def fact(
        self, name: str, labels: Mapping[str, str], count: int = 1, about: object | None = None, **ids: object
    ) -> None:
        self._facts.append(Fact(name, labels, ids, count, about))

    def put(self, key: bytes, record: object | None) -> None:
        self._changes[key] = record

    def delete(self, key: bytes) -> None:
        self._changes[key] = None

    def get(self, key: bytes, cls: type[R]) -> R | None:
        found: Any = self._changes.get(key, _ABSENT)
        return self.state.get(key, cls) if found is _ABSENT else found

    def execution(self, execution_id: str) -> ExecutionRecord | None:
        return self.get(self.keys.execution(execution_id), ExecutionRecord)

    def put_execution(self, record: ExecutionRecord) -> None:
        self.put(self.keys.execution(record.execution_id), record)

    def session(self, execution_id: str) -> SessionRecord | None:
        return self.get(self.keys.session(execution_id), SessionRecord)

    def put_session(self, record: SessionRecord) -> None:
        self.put(self.keys.session(record.execution_id), record)

    def unit(self, unit_id: str) -> AwaitUnitRecord | None:
        return self.get(self.keys.unit(unit_id), AwaitUnitRecord)

    def put_unit(self, record: AwaitUnitRecord) -> None:
        self.put(self.keys.unit(record.unit_id), record)

    def interaction(self, interaction_id: str) -> InteractionRecord | None:
        return self.get(self.keys.interaction(interaction_id), InteractionRecord)

    def put_interaction(self, record: InteractionRecord) -> None:
        self.put(self.keys.interaction(record.interaction_id), record)

    def output(self, execution_id: str, item_index: int | None) -> OutputRecord | None:
        return self.get(self.keys.output(execution_id, item_index), OutputRecord)

    def owed(self, execution_id: str, kind: OwedKind, item_index: int | None) -> OwedRecord | None:
        return self.get(self.keys.owed(execution_id, kind, item_index), OwedRecord)

    def put_owed(self, record: OwedRecord) -> None:
        self.put(self.keys.owed(record.execution_id, record.kind, record.item_index), record)

    def done(self, record: OwedRecord) -> None:
        """The owed work is known done."""
        self.delete(self.keys.owed(record.execution_id, record.kind, record.item_index))

    def tombstone(self, execution_id: str) -> TombstoneRecord | None:
        return self.get(self.keys.tombstone(execution_id), TombstoneRecord)

    def all_owed(self, execution_id: str, limit: int | None = None) -> list[OwedRecord]:
        """What is owed for an execution, in order of the keys, this decision's changes included; at most `limit`."""
        start, end = self.keys.owed_of(execution_id)
        changed = {key: cast("OwedRecord | None", it) for key, it in self._changes.items() if start <= key < end}
        more = None if limit is None else limit + len(changed)
        found: dict[bytes, OwedRecord | None] = dict(self.state.scan((start, end), OwedRecord, more))
        found.update(changed)
        return [record for _, record in sorted(found.items()) if record is not None][:limit]

    def step(self, index: int) -> AwaitDefinition:
        step: Any = self.definition.steps[index]
        return step  # type: ignore[no-any-return]

"""Decisions read the rows under the changes of the open turn, and see exactly what a plain map would show."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.core.machine import Machine, pipeline
from tpf_streams.core import rows, state
from tpf_streams.core.execution import OutputRecord, OwedKind, OwedRecord
from tpf_streams.core.interaction import EarlyRecord
from tpf_streams.core.rows import text_id
from tpf_streams.core.state import Decision, Draft, State
from tpf_streams.core.unit import SessionRecord
from tpf_streams.stores.memory import MemoryStateStore

ID = "0123abcd-1111-8222-8333-444444444444"
DEFINITION = pipeline("s")
ITEMS = 6
items = st.integers(0, ITEMS - 1)
changes = st.lists(st.tuples(items, st.none() | st.integers(0, 3)), max_size=8)


def output(item: int, value: int) -> OutputRecord:
    return OutputRecord(ID, item, "T", None, [value])


def opened(store: MemoryStateStore | None = None) -> State:
    return State(MemoryStateStore() if store is None else store, 0, DEFINITION)


def commit(found: State, store: MemoryStateStore) -> None:
    store.write(found.seal())
    found.committed()


@settings(max_examples=150)
@given(st.lists(st.tuples(changes, st.booleans()), max_size=5), st.none() | st.integers(0, ITEMS))
def test_the_overlay_shows_what_a_plain_map_would(turns, limit):
    store = MemoryStateStore()
    found, model = opened(store), dict[int, OutputRecord]()
    keys = found.keys
    for turn, committed in turns:
        made = [(keys.output(ID, item), None if value is None else output(item, value)) for item, value in turn]
        found.apply(Decision(made, [], []))
        for item, value in turn:
            if value is None:
                model.pop(item, None)
            else:
                model[item] = output(item, value)
        if committed:
            commit(found, store)
        assert [found.get(keys.output(ID, item), OutputRecord) for item in range(ITEMS)] == [
            model.get(item) for item in range(ITEMS)
        ]
        wanted = [(keys.output(ID, item), model[item]) for item in sorted(model)][:limit]
        assert list(found.scan(keys.outputs_of(ID), OutputRecord, limit)) == wanted
        assert found.scan_keys(keys.outputs_of(ID), limit) == [key for key, _ in wanted]
    commit(found, store)
    fresh = opened(store)
    assert dict(fresh.scan(keys.outputs_of(ID), OutputRecord)) == {keys.output(ID, n): model[n] for n in model}


owed_changes = st.lists(st.tuples(st.sampled_from([OwedKind.SEGMENT, OwedKind.SLOT]), items, st.booleans()), max_size=8)


@settings(max_examples=150)
@given(owed_changes, owed_changes, owed_changes)
def test_everything_owed_is_seen_through_turn_and_draft(stored, turned, drafted):
    store = MemoryStateStore()
    found, model = opened(store), dict[tuple[OwedKind, int], OwedRecord]()

    def pairs(wanted: Any) -> list[tuple[bytes, OwedRecord | None]]:
        made: list[tuple[bytes, OwedRecord | None]] = []
        for kind, item, there in wanted:
            record = OwedRecord(ID, kind, item, 0)
            made.append((found.keys.owed(ID, kind, item), record if there else None))
            if there:
                model[kind, item] = record
            else:
                model.pop((kind, item), None)
        return made

    found.apply(Decision(pairs(stored), [], []))
    commit(found, store)
    found.apply(Decision(pairs(turned), [], []))
    draft = Draft(found)
    for key, record in pairs(drafted):
        draft.put(key, record)
    order = [OwedKind.SEGMENT, OwedKind.SLOT]
    assert draft.all_owed(ID) == [model[place] for place in sorted(model, key=lambda it: (order.index(it[0]), it[1]))]
    for kind in order:
        for item in range(ITEMS):
            assert draft.owed(ID, kind, item) == model.get((kind, item))


def test_the_last_change_of_a_key_counts():
    found = opened()
    key = found.keys.output(ID, 0)
    found.apply(Decision([(key, output(0, 1)), (key, None), (key, output(0, 2))], [], []))
    assert found.get(key, OutputRecord) == output(0, 2)
    draft = Draft(found)
    draft.put(key, output(0, 3))
    draft.delete(key)
    assert draft.get(key, OutputRecord) is None
    assert draft.decision().changes == ((key, None),)


def test_rows_read_at_once_are_read_once():
    store = Counting()
    keys = opened(store).keys
    store.write({keys.output(ID, item): rows.encode(output(item, item)) for item in range(3)})
    found = opened(store)
    wanted = [keys.output(ID, item) for item in range(5)]
    found.prefetch(OutputRecord, wanted)
    assert [found.get(key, OutputRecord) for key in wanted[:3]] == [output(item, item) for item in range(3)]
    assert (store.many, store.gets) == ([5], 0)
    found.prefetch(OutputRecord, wanted[:3])
    assert store.many == [5]


class Counting(MemoryStateStore):
    """Counts what is read of it."""

    def __init__(self) -> None:
        super().__init__()
        self.many: list[int] = []
        self.gets = 0

    def get_many(self, keys):
        self.many.append(len(keys))
        return super().get_many(keys)

    def get(self, key):
        self.gets += 1
        return super().get(key)


def test_what_is_kept_decoded_is_bounded(monkeypatch):
    monkeypatch.setattr(state, "_CACHE_MAX", 2)
    store = MemoryStateStore()
    found = opened(store)
    sessions = [SessionRecord(text_id(bytes([number]) * 16), live=True) for number in range(4)]
    for session in sessions:
        found.apply(Decision([(found.keys.session(session.execution_id), session)], [], []))
        commit(found, store)
    assert len(found._cache) == 2
    assert [found.get(found.keys.session(it.execution_id), SessionRecord) for it in sessions] == sessions


def test_what_is_settled_is_not_kept_decoded():
    """Read once, by publishing: kept, it would push out the rows that the next turns need."""
    store = MemoryStateStore()
    found = opened(store)
    found.apply(Decision([(found.keys.output(ID, 0), output(0, 0))], [], []))
    commit(found, store)
    assert not found._cache
    assert found.get(found.keys.output(ID, 0), OutputRecord) == output(0, 0)


def test_what_is_kept_decoded_is_bounded_in_bytes_too(monkeypatch):
    """A row holds payloads of up to 256 KiB: thousands of them would be gigabytes."""
    monkeypatch.setattr(state, "_CACHE_BYTES_MAX", 300)
    store = MemoryStateStore()
    found = opened(store)
    for item in range(6):
        found.apply(Decision([(found.keys.output(ID, item), output(item, 10**15))], [], []))
    commit(found, store)
    for reader in (found, opened(store)):
        for item in range(6):
            assert reader.get(reader.keys.output(ID, item), OutputRecord) == output(item, 10**15)
        sizes = [size for _, size in reader._cache.values()]
        assert 0 < sum(sizes) == reader._cached_bytes <= 300
        assert len(sizes) < 6
    found.apply(Decision([(key, None) for key in list(found._cache)], [], []))
    commit(found, store)
    assert (found._cache, found._cached_bytes) == ({}, 0)


def test_the_ids_of_units_are_kept_and_bounded():
    machine = Machine(pipeline("k"))
    step = machine.definition.steps[0]
    for number in range(1_100):
        execution = machine.execution(machine.submit({}, key=f"key-{number}"))
        first = machine.state.unit_ids(execution, step)  # type: ignore[arg-type]
        assert machine.state.unit_ids(execution, step) is first  # type: ignore[arg-type]
    assert len(machine.state._units) <= 1_024


def test_early_rows_are_counted_through_turns_and_openings():
    store = MemoryStateStore()
    found = opened(store)
    early = EarlyRecord(ID, "t", None, "token", None, None, {}, 1, 2)
    key = found.keys.early(ID)
    for change, count in [(early, 1), (early, 1), (None, 0), (None, 0), (early, 1)]:
        found.apply(Decision([(key, change)], [], []))
        assert found.early_rows == count
    commit(found, store)
    assert opened(store).early_rows == 1


def test_the_earliest_deadline_or_expiry_is_the_first_committed_one():
    store = MemoryStateStore()
    found = opened(store)
    assert found.first_deadline_ms() is None
    keys = found.keys
    for key in (keys.deadline(50, ID), keys.early_expiry(40, ID), keys.deadline(60, ID)):
        found.apply(Decision([(key, b"")], [], []))
    assert found.first_deadline_ms() is None
    commit(found, store)
    assert found.first_deadline_ms() == 40


def test_the_partitions_time_and_markers_outlive_it():
    store = MemoryStateStore()
    found = opened(store)
    assert (found.stored_now_ms, found.markers) == (0, {})
    found.now_ms = 1_700_000_000_123
    found.remember_now()
    found.apply(Decision([(found.keys.markers, {"t/0": 3})], [], []))
    assert found.markers == {"t/0": 3}
    commit(found, store)
    fresh = opened(store)
    assert (fresh.stored_now_ms, fresh.markers) == (1_700_000_000_123, {"t/0": 3})


def test_an_index_is_seen_before_and_after_its_commit():
    store = MemoryStateStore()
    found = opened(store)
    key = found.keys.correlation(ID)
    assert found.get_bytes(key) is None
    found.apply(Decision([(key, b"\x01")], [], []))
    assert found.get_bytes(key) == b"\x01"
    commit(found, store)
    assert found.get_bytes(key) == b"\x01"

"""What every StateStore does."""

from __future__ import annotations

import gc
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpf_streams.ports import StateStore
from tpf_streams.stores.memory import MemoryStateStore
from tpf_streams.stores.rocksdb import RocksDbStateStore


def test_a_missing_key_is_none(store: StateStore):
    assert store.get(b"no") is None
    assert store.get_many([b"no", b"neither"]) == [None, None]
    assert store.get_many([]) == []
    assert list(store.scan(b"", b"\xff")) == []


def test_an_empty_value_is_a_value(store: StateStore):
    store.write({b"k": b""})
    assert store.get(b"k") == b""
    assert store.get_many([b"k", b"no"]) == [b"", None]
    assert list(store.scan(b"k", b"l")) == [(b"k", b"")]


def test_get_many_answers_in_the_order_asked_and_repeats(store: StateStore):
    store.write({b"a": b"1", b"b": b"2"})
    assert store.get_many((b"b", b"x", b"a", b"b")) == [b"2", None, b"1", b"2"]


def test_a_write_replaces_and_deletes(store: StateStore):
    store.write({b"a": b"1", b"b": b"2"})
    store.write({b"a": None, b"b": b"3", b"never there": None})
    assert store.get_many([b"a", b"b"]) == [None, b"3"]


def test_a_key_deleted_and_put_again_is_found_once(store: StateStore):
    store.write({b"a": b"1"})
    assert list(store.scan(b"", b"\xff")) == [(b"a", b"1")]
    store.write({b"a": None})
    store.write({b"a": b"2"})
    assert list(store.scan(b"", b"\xff")) == [(b"a", b"2")]


def test_a_scan_takes_the_start_and_leaves_the_end(store: StateStore):
    store.write({bytes((n,)): b"v" for n in range(9)})
    assert [key[0] for key, _ in store.scan(b"\x02", b"\x05")] == [2, 3, 4]
    assert list(store.scan(b"\x05", b"\x05")) == []
    assert list(store.scan(b"\x06", b"\x05")) == []


def test_a_scan_stops_at_its_limit(store: StateStore):
    store.write({bytes((n,)): b"v" for n in range(9)})
    assert [key[0] for key, _ in store.scan(b"\x02", b"\x07", 3)] == [2, 3, 4]
    assert [key[0] for key, _ in store.scan(b"\x02", b"\x04", 30)] == [2, 3]
    assert list(store.scan(b"\x02", b"\x07", 0)) == []


def test_a_scan_sees_the_store_as_of_the_call(store: StateStore):
    store.write({b"a": b"1", b"c": b"1"})
    scan = store.scan(b"", b"\xff")
    store.write({b"a": b"2", b"b": b"2", b"c": None})
    assert list(scan) == [(b"a", b"1"), (b"c", b"1")]


def test_the_ends_of_a_scan_need_not_outlive_the_call(store: StateStore):
    """rocksdict keeps a bare pointer to the upper bound; scans once ended early when it was freed."""
    store.write({b"%05d" % n: b"v" for n in range(3_000)})
    for length in range(1, 30):
        scan = store.scan(b"0" + b"0" * (length % 4), b"9" + b"\xff" * length)
        gc.collect()
        junk = [bytes((255 - length,)) * (length + 1) for _ in range(100)]
        assert sum(1 for _ in scan) == 3_000
        del junk


def test_an_interrupted_scan_leaves_the_store_usable(store: StateStore):
    store.write({b"a": b"1", b"b": b"2"})
    scan = store.scan(b"", b"\xff")
    assert next(scan) == (b"a", b"1")
    del scan
    store.write({b"c": b"3"})
    assert store.get(b"c") == b"3"


keys = st.binary(min_size=0, max_size=3)
batches = st.dictionaries(keys, st.none() | st.binary(max_size=4), max_size=60)
steps = st.lists(batches | st.tuples(keys, keys, st.none() | st.integers(0, 5)), max_size=25)


def replay(store: StateStore, script: list[object]) -> None:
    """Do the same to a dict, and compare every answer."""
    model: dict[bytes, bytes] = {}
    for step in script:
        if isinstance(step, dict):
            store.write(step)
            model.update({key: value for key, value in step.items() if value is not None})
            for key in [key for key, value in step.items() if value is None]:
                model.pop(key, None)
            assert store.get_many(list(step)) == [model.get(key) for key in step]
        elif isinstance(step, tuple):
            start, end, limit = step
            inside = [(key, model[key]) for key in sorted(model) if start <= key < end]
            assert list(store.scan(start, end, limit)) == inside[:limit]
    assert list(store.scan(b"", b"\xff" * 5)) == sorted(model.items())


@given(steps)
def test_the_memory_store_is_a_sorted_dict(script: list[object]):
    replay(MemoryStateStore(), script)


@given(steps)
@settings(max_examples=40)
def test_the_rocksdb_store_is_a_sorted_dict(script: list[object]):
    with TemporaryDirectory() as path:
        store = RocksDbStateStore(path, 4 * 1024 * 1024)
        try:
            replay(store, script)
        finally:
            store.close()


def test_a_closed_rocksdb_store_opens_with_its_rows(tmp_path: Path):
    store = RocksDbStateStore(tmp_path)
    store.write({b"a": b"1", b"b": None})
    store.close()
    again = RocksDbStateStore(tmp_path)
    assert list(again.scan(b"", b"\xff")) == [(b"a", b"1")]
    again.close()


@pytest.mark.parametrize("count", [31, 32, 33, 100])
def test_the_memory_store_keeps_order_over_few_and_many_changes(count: int):
    store = MemoryStateStore({b"%04d" % n: b"v" for n in range(0, 1_000, 2)})
    store.write({b"%04d" % n: b"v" for n in range(1, 2 * count, 2)})
    store.write({b"%04d" % n: None for n in range(0, 2 * count, 2)})
    found = [key for key, _ in store.scan(b"", b"\xff")]
    assert found == sorted(found)
    assert len(found) == len(store) == 500

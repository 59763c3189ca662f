"""What the RocksDB store does beyond its port."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tpf_streams.errors import LogCorruptError, LogOwnedError
from tpf_streams.stores.rocksdb import MIB, RocksDbStateStore, rocksdb_options


def mem_tables(stores: list[RocksDbStateStore]) -> int:
    return sum(int(store._db.property_int_value("rocksdb.cur-size-all-mem-tables") or 0) for store in stores)


def test_one_budget_bounds_blocks_and_write_buffers(tmp_path: Path):
    options, memory = rocksdb_options(8 * MIB)
    assert str(memory) == "RocksDB memory 8 MiB: 6 MiB blocks, 2 MiB write buffers, at most 256 open files"
    stores = [RocksDbStateStore(tmp_path / name, options) for name in ("one", "two")]
    value = bytes(range(256)) * 40
    for n in range(2_000):
        for store in stores:
            store.write({b"%06d" % (n * 7919 % 2_000): value})
    # Full buffers are flushed in the background: on a busy machine a moment after the write that filled them.
    deadline = time.monotonic() + 30
    while mem_tables(stores) > 3 * MIB and time.monotonic() < deadline:
        time.sleep(0.02)
    assert mem_tables(stores) <= 3 * MIB
    assert all(sum(1 for _ in store.scan(b"", b"\xff")) == 2_000 for store in stores)
    for store in stores:
        store.close()


def test_too_small_a_budget_is_refused():
    with pytest.raises(ValueError, match="at least"):
        rocksdb_options(1_000)


def test_a_second_opening_says_that_the_directory_is_open(tmp_path: Path):
    store = RocksDbStateStore(tmp_path)
    with pytest.raises(LogOwnedError, match=str(tmp_path)):
        RocksDbStateStore(tmp_path)
    store.close()


def test_a_damaged_table_is_told_by_every_kind_of_read(tmp_path: Path):
    store = RocksDbStateStore(tmp_path)
    store.write({b"%04d" % n: b"%d" % n * 100 for n in range(1_000)})
    store.close()
    (table,) = tmp_path.glob("*.sst")
    content = bytearray(table.read_bytes())
    content[len(content) // 3] ^= 0xFF
    table.write_bytes(content)
    store = RocksDbStateStore(tmp_path)
    keys = [b"%04d" % n for n in range(1_000)]
    with pytest.raises(LogCorruptError):
        list(store.scan(b"", b"\xff"))
    with pytest.raises(LogCorruptError):
        store.get_many(keys)
    with pytest.raises(LogCorruptError):
        [store.get(key) for key in keys]
    store.close()


def test_the_last_key_of_a_range(tmp_path: Path):
    store = RocksDbStateStore(tmp_path)
    assert store.last(b"a", b"z") is None
    store.write({b"b": b"1", b"c": b"2", b"d": b"3"})
    assert store.last(b"a", b"d") == (b"c", b"2")
    assert store.last(b"a", b"cc") == (b"c", b"2")
    assert store.last(b"a", b"b") is None
    assert store.last(b"e", b"f") is None
    store.close()


def test_a_range_is_deleted_and_the_sequence_grows(tmp_path: Path):
    store = RocksDbStateStore(tmp_path)
    store.write({b"%d" % n: b"v" for n in range(9)})
    before = store.sequence()
    store.delete_range(b"2", b"5")
    assert [key for key, _ in store.scan(b"", b"\xff")] == [b"0", b"1", b"5", b"6", b"7", b"8"]
    assert store.sequence() > before
    grown = store.sequence()
    store.close()
    store = RocksDbStateStore(tmp_path)
    assert store.sequence() >= grown
    store.sync()
    store.close()


def test_a_value_that_is_no_bytes_writes_nothing(tmp_path: Path):
    store = RocksDbStateStore(tmp_path)
    with pytest.raises(ValueError, match="bytes"):
        store.write({b"a": b"1", b"b": "text"})  # type: ignore[dict-item]
    assert store.get(b"a") is None
    store.close()

"""The lifecycle topic of a local log is bounded by bytes and by age, over restarts and crashes, and offsets go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.conftest import SMALL_MEMORY_BYTES
from tpf_streams.logs.local import LocalLog, Retention
from tpf_streams.logs.local.keys import decode_record
from tpf_streams.ports import InputRecord, Record, TopicPartition
from tpf_streams.stores.rocksdb import RocksDbStateStore
from tpf_streams.testing import ManualClock

TOPIC = "app-lifecycle"
FIRST = TopicPartition(TOPIC, 0)
VALUE = b"x" * 1_000
HOUR_MS = 3_600_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def make(path: Path, clock: ManualClock, **kept: int) -> LocalLog:
    return LocalLog.open(
        path,
        RocksDbStateStore,
        partitions=2,
        memory_bytes=SMALL_MEMORY_BYTES,
        lifecycle=Retention(**{"age_ms": HOUR_MS, "bytes": 64_000, **kept}),
        clock=clock,
    )


def event(partition: int = 0) -> Record:
    return Record(TOPIC, None, VALUE, partition=partition)


def offsets(log: LocalLog, partition: int = 0) -> list[int]:
    return [record.offset for record in log.read(TOPIC) if record.partition == partition]


async def append(log: LocalLog, count: int, partition: int = 0) -> None:
    for _ in range(count):
        await log.append([event(partition)])


async def test_no_more_bytes_are_kept_than_allowed(tmp_path, clock):
    log = make(tmp_path, clock)
    await append(log, 200)
    kept = offsets(log)
    assert kept == list(range(kept[0], 200)), "the youngest, without a gap"
    assert 55 <= len(kept) <= 64
    await append(log, 3, partition=1)
    assert offsets(log, 1) == [0, 1, 2], "each partition for itself"
    await log.close()


async def test_what_is_too_old_goes_with_the_next_write(tmp_path, clock):
    log = make(tmp_path, clock, bytes=10_000_000)
    await append(log, 5)
    clock.advance(HOUR_MS // 2)
    await append(log, 5)
    clock.advance(HOUR_MS // 2 + HOUR_MS // 10)
    await append(log, 1)
    assert offsets(log)[-6:] == [5, 6, 7, 8, 9, 10]
    assert 0 not in offsets(log)
    await log.close()


@pytest.mark.parametrize("restarts", [1, 40])
async def test_a_restart_does_not_forget_how_much_there_is(tmp_path, clock, restarts):
    """With few records between two starts no stretch would ever be full, if each start counted from nothing."""
    for _ in range(restarts):
        log = make(tmp_path, clock)
        await append(log, 200 // restarts)
        await log.close()
    log = make(tmp_path, clock)
    await append(log, 1)
    kept = offsets(log)
    assert (kept[-1], 55 <= len(kept) <= 64) == (200, True), kept
    await log.close()


async def test_a_start_reads_no_more_than_the_open_stretch(tmp_path, clock, monkeypatch):
    log = make(tmp_path, clock, bytes=640_000)
    await append(log, 100)
    await log.close()
    decoded: list[int] = []

    def noted(name: TopicPartition, offset: int, data: bytes) -> InputRecord:
        decoded.append(offset)
        return decode_record(name, offset, data)

    monkeypatch.setattr("tpf_streams.logs.local.retention.decode_record", noted)
    log = make(tmp_path, clock, bytes=640_000)
    assert len(decoded) <= 10
    await log.close()


async def test_offsets_and_the_last_record_stay_when_all_else_is_too_old(tmp_path, clock):
    log = make(tmp_path, clock)
    await append(log, 30)
    clock.advance(3 * HOUR_MS)
    await append(log, 1)
    await log.close()
    log = make(tmp_path, clock)
    assert offsets(log)[-1] == 30
    assert (await log.end_offsets([TOPIC]))[FIRST] == 31
    await append(log, 1)
    assert offsets(log)[-1] == 31
    await log.close()


async def test_a_note_without_its_records_deleted_is_met_by_the_next_trim(tmp_path, clock, monkeypatch):
    """A crash between the two writes of a trim."""
    log = make(tmp_path, clock)
    await append(log, 60)
    monkeypatch.setattr(log.journal.store, "delete_range", lambda start, end: None)
    await append(log, 10)
    monkeypatch.undo()
    await log.close()
    log = make(tmp_path, clock)
    await append(log, 100)
    assert 55 <= len(offsets(log)) <= 64
    await log.close()


async def test_a_history_begins_where_records_are_kept(tmp_path, clock):
    log = make(tmp_path, clock)
    await append(log, 200)
    found = [record.offset async for lot in log.history(TOPIC, 0) for record in lot]
    assert found == offsets(log)
    assert [record.offset async for lot in log.history(TOPIC, 0, 190) for record in lot] == list(range(190, 200))
    assert [lot async for lot in log.history(TOPIC, 1)] == []
    await log.close()

"""What a local log forgets, what it keeps, and what it holds in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.conftest import EVENTS, SMALL_MEMORY_BYTES, event
from tpf_streams.logs.local import LocalLog, journal, partition
from tpf_streams.ports import Record, TopicPartition, Turn
from tpf_streams.stores.rocksdb import RocksDbStateStore

INPUT = TopicPartition(EVENTS, 0)


@pytest.fixture(autouse=True)
def trim_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "TRIM_RECORDS", 10)


def make(path: Path, **settings: object) -> LocalLog:
    settings = {"partitions": 2, "memory_bytes": SMALL_MEMORY_BYTES, **settings}
    return LocalLog.open(path, RocksDbStateStore, **settings)  # type: ignore[arg-type]


def offsets(log: LocalLog, topic: str) -> list[int]:
    return [record.offset for record in log.read(topic)]


async def consume(log: LocalLog, count: int) -> None:
    task = await log.open_task(0)
    for record in await task.poll(count):
        await task.commit(Turn(positions={INPUT: record.offset + 1}))


async def test_consumed_events_go_and_the_rest_stays_readable(tmp_path: Path):
    log = make(tmp_path)
    await log.append([event(b"%d" % n) for n in range(30)])
    await consume(log, 25)
    assert offsets(log, EVENTS) == list(range(20, 30))
    assert next(record.offset for record in log.read(EVENTS, start=3)) == 20
    await log.close()
    log = make(tmp_path)
    assert [record.offset for record in await (await log.open_task(0)).poll(100)] == list(range(25, 30))
    await log.close()


async def test_offsets_go_on_after_everything_was_trimmed(tmp_path: Path):
    log = make(tmp_path)
    await log.append([event(b"%d" % n) for n in range(20)])
    task = await log.open_task(0)
    await task.commit(Turn(positions={INPUT: 20}))
    assert offsets(log, EVENTS) == [19], "the last one stays and carries the end"
    await log.close()
    log = make(tmp_path)
    assert (await log.end_offsets([EVENTS]))[INPUT] == 20
    await log.append([event(b"next")])
    assert [record.offset for record in await (await log.open_task(0)).poll(10)] == [20]
    await log.close()


async def test_a_topic_waits_for_its_slowest_group_even_one_that_never_committed(tmp_path: Path):
    log = make(tmp_path)
    slow = await log.open_reader("slow", ["answers"])
    fast = await log.open_reader("fast", ["answers"])
    await log.append([Record("answers", None, b"%d" % n) for n in range(50)])
    await fast.poll(40)
    await fast.commit()
    assert len(offsets(log, "answers")) == 50
    await log.close()
    log = make(tmp_path)
    fast = await log.open_reader("fast", ["answers"])
    await fast.poll(40)
    await fast.commit()
    assert len(offsets(log, "answers")) == 50, "a group is remembered over a restart"
    slow = await log.open_reader("slow", ["answers"])
    assert [record.offset for record in await slow.poll(30)] == list(range(30))
    await slow.commit()
    assert offsets(log, "answers") == list(range(30, 50))
    await log.close()


async def test_topics_without_consumers_and_kept_topics_are_not_trimmed(tmp_path: Path):
    log = make(tmp_path, keep=["answers"])
    reader = await log.open_reader("g", ["answers"])
    await log.append([Record(topic, None, b"x") for topic in ("answers", "outputs") for _ in range(40)])
    await reader.poll(100)
    await reader.commit()
    assert (len(offsets(log, "answers")), len(offsets(log, "outputs"))) == (40, 40)
    await log.close()


@pytest.mark.parametrize(("records", "size"), [(16, 1 << 20), (1_000, 4_000)])
async def test_a_slow_consumer_misses_nothing_that_left_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int, size: int
):
    monkeypatch.setattr(partition, "RECENT_RECORDS_MAX", records)
    monkeypatch.setattr(partition, "RECENT_BYTES_MAX", size)
    log = make(tmp_path)
    task = await log.open_task(0)
    seen: list[bytes | None] = []
    for n in range(100):
        await log.append([event(b"%d" % (3 * n + k)) for k in range(3)])
        seen += [record.value for record in await task.poll(2)]
        part = log.journal.topic(EVENTS)[0]
        assert len(part._recent) <= records + 3
    while found := await task.poll(7):
        seen += [record.value for record in found]
    assert seen == [b"%d" % n for n in range(300)]
    await log.close()


async def test_consumed_records_leave_memory(tmp_path: Path):
    log = make(tmp_path)
    await log.append([event(b"x") for _ in range(3_000)])
    task = await log.open_task(0)
    await task.commit(Turn(positions={INPUT: 2_500}))
    part = log.journal.topic(EVENTS)[0]
    assert len(part._recent) == 500
    await task.close()
    assert [record.offset for record in await (await log.open_task(0)).poll(1)] == [2_500]
    await log.close()


async def test_topics_that_nobody_consumes_are_not_held_in_memory(tmp_path: Path):
    log = make(tmp_path)
    await log.append([Record("outputs", None, b"x") for _ in range(100)])
    assert log.journal.topic("outputs")[0]._recent == []
    reader = await log.open_reader("late", ["outputs"])
    assert len(await reader.poll(1_000)) == 100
    await log.append([Record("outputs", None, b"x")])
    assert [record.offset for record in await reader.poll(1_000)] == [100]
    await log.close()

"""The arithmetic of the benchmarks: what is wrong here makes every figure wrong. Nothing is timed."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from tests.benchmarks.bare import BareLoop, CountingBareStore
from tests.benchmarks.listeners import LatencyListener, WindowListener
from tests.benchmarks.payments import EVENTS, OUTPUTS, REQUESTS, RESPONSES, write_payments
from tests.benchmarks.report import Sample, latencies_s, latency_summary, medians, percentile, table
from tests.benchmarks.work import STAGE_RECORDS, CountingStore, Part, Stage, Work
from tpf_streams.engine.wire import completion_record
from tpf_streams.ports import InputRecord, Record, TopicPartition, Turn


def test_medians_are_taken_figure_by_figure():
    samples = [Sample(1, 30, 5, 9, 100), Sample(2, 10, 6, 7, 300), Sample(9, 20, 4, 8, 200)]
    assert medians(samples) == Sample(2, 20, 5, 8, 200)


def test_a_sample_is_per_item():
    found = {"items": 1_000, "seconds": 0.5, "cpu_s": 0.25, "latency_ms": {"p50": 1, "p99": 2}, "peak_bytes": 2**21}
    assert Sample.of(found) == Sample(2_000, 250, 1, 2, 2)


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_percentile_is_the_nearest_rank(share, expected):
    assert percentile(list(range(100, 0, -1)), share) == expected


def test_percentile_of_nothing_is_refused():
    with pytest.raises(ValueError, match="nothing was measured"):
        percentile([], 0.5)


def test_answers_are_matched_by_their_offset():
    waits = latencies_s([10.0, 10.0, 11.0], {2: 11.5, 0: 12.0, 1: 10.25})
    assert waits == [2.0, 0.25, 0.5]
    assert latency_summary(waits) == {"p50": 500.0, "p99": 2000.0, "max": 2000.0}


@pytest.mark.parametrize("settled", [{0: 2.0}, {0: 2.0, 2: 2.0}, {0: 2.0, 1: 0.5}])
def test_figures_that_leave_answers_out_or_run_backwards_are_refused(settled):
    with pytest.raises(ValueError):
        latencies_s([1.0, 1.0], settled)


def test_table_aligns_its_columns():
    assert table([["", "ours"], ["items/s", "12"]]) == "         ours\n-------  ----\nitems/s    12"


def test_the_same_payments_each_time(tmp_path):
    first = write_payments(tmp_path / "a.csv", 3).read_bytes()
    assert first == write_payments(tmp_path / "b.csv", 3).read_bytes()
    assert [line.split(b",")[0] for line in first.splitlines()] == [b"ID", b"1", b"2", b"3"]


def test_work_adds_up_by_stage_and_comes_back_from_json():
    work = Work(syncs=2)
    work.add({"record output+": Part(3, 45, 300), "row d-": Part(3, 90, 0), "row s+": Part(1, 20, 80)})
    work.add({"row n+": Part(1, 8, 9)})
    assert work.stages["settle"].items == 3
    assert work.stages["other"] == Stage(1, 0, {"row n+": Part(1, 8, 9)})
    totals = work.totals()
    assert (totals["batches"], totals["records put"], totals["rows put"], totals["deletes"]) == (2, 3, 2, 3)
    assert totals["bytes"] == 45 + 300 + 90 + 20 + 80 + 8 + 9
    assert Work.of(json.loads(json.dumps(asdict(work)))) == work


def test_the_bare_loop_does_the_work_it_is_told(tmp_path, monkeypatch):
    """Twelve items in turns of four: every batch, row, byte, sync and read, stage by stage."""
    told = Work(syncs=7, reads={"keys": 2, "scans": 4, "scanned": 12})
    for stage in ("dispatch", "answer", "forward", "settle"):
        for _ in range(3):
            parts = {f"{STAGE_RECORDS[stage]}+": Part(4, 4 * 15, 4 * 90), "group+": Part(1, 20, 8)}
            if stage == "dispatch":
                parts |= {"row i+": Part(4, 4 * 22, 4 * 50), "row d+": Part(4, 4 * 30, 4)}
            if stage == "settle":
                parts |= {"row d-": Part(4, 4 * 30, 0), "row o+": Part(4, 4 * 26, 4 * 60)}
            told.add(parts)
    told.add({"row n+": Part(1, 9, 12)})
    monkeypatch.setattr(CountingStore, "counted", Work())
    store = CountingBareStore(tmp_path / "db")
    loop = BareLoop(store, told, 12, bytes(range(12 * 16)))
    store.prefixes = loop.prefixes
    loop.run(iter([b"1,a,2.00,EUR\n"] * 12))
    assert loop.publish(tmp_path / "out") == 12
    store.close()
    assert CountingStore.counted.stages == told.stages
    assert CountingStore.counted.totals() | {"rows scanned": 12} == told.totals()
    assert len(loop.waits_s) == 12


def _answer(offset: int, source: int) -> InputRecord:
    record = completion_record(EVENTS, 0, "id", b"{}", 1, f"{RESPONSES}/0/{source}")
    return InputRecord(EVENTS, 0, offset, 1, record.key, record.value, record.headers)


def _turn(position: int, *topics: str) -> Turn:
    return Turn([Record(topic, b"k", b"v") for topic in topics], {}, {TopicPartition(EVENTS, 0): position})


def test_an_answer_is_settled_by_the_turn_whose_position_passes_it(monkeypatch):
    now = iter([1.0, 2.0, 5.0, 9.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(now))
    listener = LatencyListener()
    listener.forwarding([Record(RESPONSES, b"a", b"")])
    listener.forwarding([Record(RESPONSES, b"b", b"")])
    listener.forwarding([Record(EVENTS, b"a", b"")])
    listener.polled(0, [InputRecord(EVENTS, 0, 0, 1, None, b"{}"), _answer(1, 0), _answer(2, 1)])
    listener.committed(0, _turn(2, OUTPUTS))
    listener.committed(0, _turn(3, OUTPUTS))
    assert listener.figures()["latency_ms"] == {"p50": 4000.0, "p99": 7000.0, "max": 7000.0}


def test_the_window_is_counted_from_both_sides():
    listener = WindowListener()
    listener.committing(0, Turn([Record(REQUESTS, b"k", b"v")] * 3))
    listener.read([REQUESTS], [InputRecord(REQUESTS, 0, at, 1, None, b"") for at in range(3)])
    listener.forwarded([Record(RESPONSES, b"k", b"")] * 2)
    listener.polled(0, [_answer(0, 0), _answer(1, 1)])
    listener.committing(0, _turn(2, REQUESTS))
    assert listener.figures() == {"open_max": {"at_provider": 3, "on_the_way": 3}, "open_at_end": 1 + 2}

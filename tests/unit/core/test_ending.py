"""How executions end: drained streams, published objects, failures, cancellations, and what they leave behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.core.machine import Machine, pipeline
from tpf_streams.core import effects as fx
from tpf_streams.core import events as ev
from tpf_streams.core.execution import ExecutionStatus, OwedKind, Summary
from tpf_streams.core.interaction import InteractionStatus
from tpf_streams.core.step import ItemReject, Json, OnItemFailure, Parallelism, SourceObject
from tpf_streams.core.unit import UnitStatus
from tpf_streams.core.window import DURABLE_PULL, credit


def test_a_stream_succeeds_when_its_source_has_ended_and_everything_is_settled():
    machine = Machine(pipeline("Sks"))
    execution_id = machine.submit()
    machine.pull(execution_id, [{"n": 0}, ItemReject("f", 2, "a", "bad", "raw"), {"n": 1}])
    for item in (1, 0):
        machine.answer(machine.interaction(execution_id, 1, item))
    machine.run_segments()
    assert machine.execution(execution_id).status is ExecutionStatus.RUNNING
    machine.pull(execution_id, ended=True)
    execution = machine.execution(execution_id)
    assert execution.status is ExecutionStatus.SUCCEEDED
    assert execution.summary == Summary(items=2, outputs=2, rejected_rows=1, rejected_items=0, by_arm={})
    assert machine.session(execution_id) is None
    assert machine.slots_held == 0


def test_an_object_is_published_before_the_execution_succeeds():
    machine = Machine(pipeline("Sks", publishes=True))
    execution_id = machine.stream(1, ended=True)
    machine.answer(machine.interaction(execution_id, 1, 0))
    machine.run_segments()
    assert machine.owed_kinds(execution_id) == [OwedKind.PUBLISH]
    assert machine.take(fx.PublishObject) == [fx.PublishObject(execution_id)]
    assert machine.execution(execution_id).status is ExecutionStatus.RUNNING
    machine.decide(ev.ObjectPublished(execution_id, "\udcff.csv.out"))
    execution = machine.execution(execution_id)
    assert (execution.status, execution.published) == (ExecutionStatus.SUCCEEDED, "\\udcff.csv.out")
    assert not machine.decide(ev.ObjectPublished(execution_id, "b.csv.out")).changes


def test_an_object_that_cannot_be_written_fails_the_execution():
    machine = Machine(pipeline("Sks", publishes=True))
    execution_id = machine.stream(0, ended=True)
    machine.decide(ev.PublishFailed(execution_id, "OUTPUT_EXISTS", "there already", "trace"))
    execution = machine.execution(execution_id)
    assert (execution.status, execution.error_code, execution.error_detail) == (
        ExecutionStatus.FAILED,
        "OUTPUT_EXISTS",
        "trace",
    )
    assert machine.owed(execution_id) == []


def test_a_source_that_breaks_after_dispatches_publishes_what_there_is_and_then_fails():
    machine = Machine(pipeline("Sks", publishes=True))
    execution_id = machine.stream(1)
    machine.decide(ev.SourceFailed(execution_id, "SOURCE_CHANGED", "other bytes", "trace"))
    machine.answer(machine.interaction(execution_id, 1, 0))
    machine.run_segments()
    assert machine.owed_kinds(execution_id) == [OwedKind.PUBLISH]
    machine.decide(ev.ObjectPublished(execution_id, "a.csv.out"))
    execution = machine.execution(execution_id)
    assert (execution.status, execution.error_code, execution.published) == (
        ExecutionStatus.FAILED,
        "SOURCE_CHANGED",
        "a.csv.out",
    )


def test_a_source_that_breaks_before_anything_was_dispatched_fails_at_once():
    machine = Machine(pipeline("Sks", publishes=True))
    execution_id = machine.submit()
    machine.pull(execution_id, [ItemReject("f", 2, "a", "bad")])
    machine.decide(ev.SourceFailed(execution_id, "CSV_STRUCTURE", "f:3 an unclosed quote", ""))
    execution = machine.execution(execution_id)
    assert (execution.status, execution.error_code) == (ExecutionStatus.FAILED, "CSV_STRUCTURE")
    assert machine.owed(execution_id) == []


def test_the_first_reason_is_kept_while_the_rest_drains():
    machine = Machine(pipeline("Sks"))
    execution_id = machine.stream(3)
    for item in range(3):
        machine.answer(machine.interaction(execution_id, 1, item))
    first, second, third = machine.take(fx.RunSegment)
    machine.decide(ev.SegmentFailed(first.owed, "FIRST", "the first", "trace"))
    machine.decide(ev.SegmentFailed(second.owed, "SECOND", "the second", ""))
    assert machine.execution(execution_id).status is ExecutionStatus.RUNNING
    machine.decide(ev.SegmentCompleted(third.owed, [{"out": 2}]))
    execution = machine.execution(execution_id)
    assert (execution.status, execution.error_code, execution.error_detail) == (
        ExecutionStatus.FAILED,
        "FIRST",
        "trace",
    )
    assert execution.summary is not None
    assert replace(execution.summary, place=None) == Summary(items=3, outputs=1, rejected_items=2)
    assert machine.facts["unit.dispatch_complete.total"] == 1
    assert machine.slots_held == 0


def test_rejected_items_go_to_the_rejects_and_the_stream_goes_on():
    machine = Machine(pipeline("Sks", on_item_failure=OnItemFailure.REJECT_ITEM))
    machine.decide(
        ev.ExecutionSubmitted(
            "tenant-1", "key-1", None, SourceObject("s", "file", "root", "in/a.csv", "e", "/r/in/a.csv")
        )
    )
    execution_id = machine.state.ids.execution_id("tenant-1", "pay", "key-1", 0)
    machine.pull(execution_id, [{"n": 0}, {"n": 1}], ended=True)
    for item in range(2):
        machine.answer(machine.interaction(execution_id, 1, item))
    first, second = machine.take(fx.RunSegment)
    machine.decide(ev.SegmentFailed(first.owed, "BAD", "it raised", ""))
    machine.decide(ev.SegmentCompleted(second.owed, []))
    execution = machine.execution(execution_id)
    assert execution.status is ExecutionStatus.SUCCEEDED
    (reject,) = machine.rejects(execution_id)
    assert (reject.file, reject.item_index, reject.reason) == ("in/a.csv", 0, "BAD: it raised")
    assert machine.slots_held == 0


@pytest.mark.parametrize("shape", ["Sksks", "sks"])
@pytest.mark.parametrize("outputs", [[], [{"n": 1}, {"n": 2}]])
def test_before_an_await_one_item_is_expected(shape, outputs):
    machine = Machine(pipeline(shape))
    execution_id = machine.stream(1) if shape[0] == "S" else machine.submit({"n": 1})
    if shape[0] == "S":
        machine.answer(machine.interaction(execution_id, 1, 0))
    (effect,) = machine.take(fx.RunSegment)
    machine.decide(ev.SegmentCompleted(effect.owed, outputs))
    execution = machine.execution(execution_id)
    assert (execution.status, execution.error_code) == (ExecutionStatus.FAILED, "ITEM_COUNT")
    assert machine.slots_held == 0


def test_a_scalar_execution_gives_one_output():
    machine = Machine(pipeline("s"))
    execution_id = machine.submit({"n": 1})
    (effect,) = machine.take(fx.RunSegment)
    machine.decide(ev.SegmentCompleted(effect.owed, []))
    assert machine.execution(execution_id).error_code == "ITEM_COUNT"


@pytest.mark.parametrize("shape", ["S", "Ss"])
def test_items_that_wait_for_nobody_are_outputs_as_they_come(shape):
    machine = Machine(pipeline(shape, max_payload_bytes=50, on_item_failure=OnItemFailure.REJECT_ITEM))
    execution_id = machine.submit()
    machine.pull(execution_id, [{"n": 0}, {"n": "x" * 50}, {"n": 2}], ended=True)
    execution = machine.execution(execution_id)
    assert execution.status is ExecutionStatus.SUCCEEDED
    assert machine.outputs(execution_id) == {0: [{"n": 0}], 1: [], 2: [{"n": 2}]}
    assert [it.key for it in machine.take(fx.EmitOutput)] == [f"{execution_id}:0", f"{execution_id}:2"]


def test_an_item_that_is_no_json_ends_the_source():
    machine = Machine(pipeline("Sks"))
    execution_id = machine.submit()
    machine.pull(execution_id, [{"n": 0}, {"n": "\ud800"}, {"n": 2}])
    machine.answer(machine.interaction(execution_id, 1, 0))
    machine.run_segments()
    execution = machine.execution(execution_id)
    assert (execution.status, execution.error_code) == (ExecutionStatus.FAILED, "INVALID_PAYLOAD")
    assert "item 1 is not plain JSON" in (execution.error_message or "")
    assert machine.find(execution_id, 1, 2) is None


@pytest.mark.parametrize("how", ["source", "source with items", "segment"])
def test_texts_from_outside_are_cut_and_always_fit_a_row(how):
    machine = Machine(pipeline("s" if how == "segment" else "Sks"))
    execution_id = machine.submit({"n": 1})
    message, detail = "\udcff" + "é" * 1_000, "start" + "é" * 8_192 + "\udcffend"
    if how == "source with items":
        machine.pull(execution_id, [{"n": 0}])
        machine.decide(ev.SourceFailed(execution_id, "\udcff" * 200, message, detail))
        assert machine.session(execution_id) is not None, "the reason waits in the session's row"
        machine.answer(machine.interaction(execution_id, 1, 0))
        machine.run_segments()
    elif how == "source":
        machine.pull(execution_id, [ItemReject("\udcff.csv", 1, "\udcff", "\udcff" * 600, "\udcffraw")])
        machine.decide(ev.SourceFailed(execution_id, "BROKEN", message, detail))
    else:
        (effect,) = machine.take(fx.RunSegment)
        machine.decide(ev.SegmentFailed(effect.owed, "BROKEN", message, detail))
    execution = machine.execution(execution_id)
    assert len(execution.error_code or "") <= 128
    assert len(execution.error_message or "") == 512
    assert (execution.error_message or "").startswith("\\udcffé")
    assert len((execution.error_detail or "").encode()) <= 8 * 1024
    assert (execution.error_detail or "").endswith("\\udcffend")
    for reject in machine.rejects(execution_id):
        assert (reject.file, len(reject.reason), reject.raw) == ("\\udcff.csv", 512, "\\udcffraw")


def test_a_cancelled_execution_closes_what_is_open_in_bounded_turns(monkeypatch):
    monkeypatch.setattr("tpf_streams.core.ending.CLOSE_AT_ONCE", 2)
    machine = Machine(pipeline("Sksk", max_concurrency=8))
    execution_id = machine.stream(5)
    machine.answer(machine.interaction(execution_id, 1, 4))
    machine.run_segments()
    machine.grant_slots()
    machine.decide(ev.ExecutionCancelled(execution_id, "enough"))
    execution = machine.execution(execution_id)
    assert (execution.status, execution.error_code, execution.error_message) == (
        ExecutionStatus.FAILED,
        "CANCELLED",
        "enough",
    )
    assert machine.owed_kinds(execution_id) == [OwedKind.CLOSE, OwedKind.CLOSE]
    assert machine.slots_held > 0
    machine.go_on()
    assert machine.owed(execution_id) == []
    assert (machine.slots_held, machine.deadlines()) == (0, 0)
    assert {machine.interaction(execution_id, 1, item).status for item in range(4)} == {InteractionStatus.CANCELLED}
    for step in (1, 3):
        unit = machine.unit(execution_id, step)
        assert unit is not None
        assert unit.status is UnitStatus.FAILED


@pytest.mark.parametrize("shape", ["kSks", "Sks"])
def test_an_ended_unit_is_not_closed_again(shape):
    machine = Machine(pipeline(shape))
    execution_id = machine.submit({"n": 1})
    if shape[0] == "k":
        machine.grant_slots()
        machine.answer(machine.interaction(execution_id, 0))
    machine.decide(ev.ExecutionCancelled(execution_id, "enough"))
    if shape[0] == "k":
        unit = machine.unit(execution_id, 0)
        assert unit is not None
        assert unit.status is UnitStatus.COMPLETED
    assert machine.slots_held == 0


def test_a_decision_that_raised_fails_its_execution():
    machine = Machine(pipeline("Sks"))
    execution_id = machine.stream(2)
    machine.decide(ev.DecisionRaised(execution_id, "SegmentCompleted: KeyError: 'x'", "trace"))
    execution = machine.execution(execution_id)
    assert (execution.error_code, execution.error_message, execution.error_detail) == (
        "INTERNAL_ERROR",
        "SegmentCompleted: KeyError: 'x'",
        "trace",
    )
    assert machine.slots_held == 0
    assert not machine.decide(ev.DecisionRaised("00000000-0000-8000-8000-000000000000", "none", "")).changes


def test_union_arms_are_counted_and_told_with_the_output():
    machine = Machine(pipeline("Sks", arms=("approved", "rejected")))
    execution_id = machine.stream(4, ended=True)
    answers: list[Json] = [{"approved": {}}, {"approved": {}}, {"rejected": {}}, {"other": {}}]
    for item, answer in enumerate(answers):
        machine.answer(machine.interaction(execution_id, 1, item), answer)
    machine.run_segments()
    assert [it.arm for it in machine.take(fx.EmitOutput)] == ["approved", "approved", "rejected", None]
    summary = machine.execution(execution_id).summary
    assert summary is not None
    assert summary.by_arm == {"approved": 2, "rejected": 1}


@pytest.mark.parametrize(("parallelism", "window"), [(Parallelism.SEQUENTIAL, 1), (Parallelism.AUTO, 4)])
def test_the_credit_of_a_session_is_what_its_window_has_left(parallelism, window):
    machine = Machine(pipeline("Sks", parallelism=parallelism))
    execution_id = machine.stream(1)
    session = machine.session(execution_id)
    assert session is not None
    assert credit(machine.definition, session) == window - 1
    machine.decide(ev.SessionCancelled(execution_id))
    session = machine.session(execution_id)
    assert session is not None
    assert credit(machine.definition, session) == DURABLE_PULL
    machine.pull(execution_id, ended=True)
    session = machine.session(execution_id)
    assert session is not None
    assert credit(machine.definition, session) == 0

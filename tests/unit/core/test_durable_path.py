"""The durable path: recorded, held, and gone on only behind the four gates (contract 0.20, section 6)."""

from __future__ import annotations

import pytest

from tests.unit.core.machine import Machine, pipeline
from tpf_streams.core import effects as fx
from tpf_streams.core import events as ev
from tpf_streams.core.execution import ExecutionStatus, OwedKind
from tpf_streams.core.interaction import InteractionStatus
from tpf_streams.core.step import ItemReject, OnItemFailure, OnItemTimeout
from tpf_streams.core.unit import UnitStatus


def test_an_answer_before_the_dispatch_is_complete_is_held_and_released_by_the_park():
    machine = Machine(pipeline("Sws"))
    execution_id = machine.stream(3)
    assert machine.answer(machine.interaction(execution_id, 1, 0)) == "admitted"
    assert machine.take(fx.RunSegment) == []
    assert machine.facts["completion.early_held.total"] == 1

    machine.pull(execution_id, ended=True)

    assert machine.execution(execution_id).status is ExecutionStatus.WAITING_EXTERNAL
    machine.go_on()
    assert [effect.owed.item_index for effect in machine.take(fx.RunSegment)] == [0]
    assert machine.facts["resume.released.total"] == 1


def test_behind_the_gates_an_answer_goes_on_at_once():
    machine = Machine(pipeline("Sws"))
    execution_id = machine.stream(2, ended=True)
    assert machine.answer(machine.interaction(execution_id, 1, 1)) == "admitted"
    assert machine.run_segments() == 1
    assert machine.answer(machine.interaction(execution_id, 1, 0)) == "admitted"
    unit = machine.unit(execution_id, 1)
    assert unit is not None
    assert (unit.status, unit.completed_item_count, unit.expected_item_count) == (UnitStatus.COMPLETED, 2, 2)
    assert machine.run_segments() == 1
    assert machine.execution(execution_id).status is ExecutionStatus.SUCCEEDED
    assert machine.outputs(execution_id) == {0: [{"out": 0}], 1: [{"out": 1}]}


def test_a_stream_without_items_succeeds():
    machine = Machine(pipeline("Sws"))
    execution_id = machine.stream(0, ended=True)
    assert machine.execution(execution_id).status is ExecutionStatus.SUCCEEDED
    unit = machine.unit(execution_id, 1)
    assert unit is not None
    assert (unit.status, unit.expected_item_count, unit.dispatch_complete) == (UnitStatus.COMPLETED, 0, True)
    assert machine.owed(execution_id) == []


def test_a_stream_of_nothing_but_bad_rows_succeeds():
    machine = Machine(pipeline("Sws"))
    execution_id = machine.submit()
    machine.pull(execution_id, [ItemReject("f", 2, "a", "bad"), ItemReject("f", 3, "a", "bad")], ended=True)
    execution = machine.execution(execution_id)
    assert execution.status is ExecutionStatus.SUCCEEDED
    assert execution.summary is not None
    assert (execution.summary.items, execution.summary.rejected_rows) == (0, 2)


@pytest.mark.parametrize("shape", ["Sws", "Sw"])
def test_a_source_that_fails_on_the_way_lets_what_is_dispatched_finish(shape):
    machine = Machine(pipeline(shape))
    execution_id = machine.stream(3)
    machine.answer(machine.interaction(execution_id, 1, 0))
    machine.decide(ev.SourceFailed(execution_id, "BROKEN", "the source broke", "trace"))
    machine.run_segments()
    for item in (1, 2):
        machine.answer(machine.interaction(execution_id, 1, item))
        machine.run_segments()
    execution = machine.execution(execution_id)
    assert (execution.status, execution.error_code) == (ExecutionStatus.FAILED, "BROKEN")
    assert sorted(machine.outputs(execution_id)) == [0, 1, 2]
    assert machine.owed(execution_id) == []


def test_a_failed_item_stops_the_source_and_the_others_finish():
    machine = Machine(pipeline("Sws", idempotency_fields=("n",)))
    execution_id = machine.submit()
    machine.pull(execution_id, [{"n": 0}, {"other": 1}, {"n": 2}])
    machine.answer(machine.interaction(execution_id, 1, 0))
    machine.run_segments()
    execution = machine.execution(execution_id)
    assert (execution.status, execution.error_code) == (ExecutionStatus.FAILED, "INVALID_PAYLOAD")
    assert "n" in (execution.error_message or "")
    assert machine.outputs(execution_id) == {0: [{"out": 0}], 1: []}


def test_a_live_session_cancelled_while_completions_are_owed_settles_each_once():
    machine = Machine(pipeline("Sks"))
    execution_id = machine.stream(4)
    machine.answer(machine.interaction(execution_id, 1, 0))
    machine.answer(machine.interaction(execution_id, 1, 1))
    running = machine.take(fx.RunSegment)
    machine.decide(ev.SegmentCompleted(running[0].owed, [{"out": 0}]))

    machine.decide(ev.SessionCancelled(execution_id))
    machine.answer(machine.interaction(execution_id, 1, 2))
    assert machine.take(fx.RunSegment) == []
    machine.pull(execution_id, ended=True)
    machine.go_on()
    assert [effect.owed.item_index for effect in machine.take(fx.RunSegment)] == [2]
    # Item 1 is still owed from the live path: it is not started a second time.
    machine.decide(ev.SegmentCompleted(running[1].owed, [{"out": 1}]))
    machine.answer(machine.interaction(execution_id, 1, 3))
    for owed in [owed for owed in machine.owed(execution_id) if owed.kind is OwedKind.SEGMENT]:
        machine.decide(ev.SegmentCompleted(owed, [{"out": owed.item_index}]))

    execution = machine.execution(execution_id)
    assert execution.status is ExecutionStatus.SUCCEEDED
    assert machine.outputs(execution_id) == {n: [{"out": n}] for n in range(4)}
    assert machine.slots_held == 0
    assert machine.facts["unit.terminal.total"] == 1


@pytest.mark.parametrize("ended_first", [True, False])
def test_a_source_that_ends_before_or_after_the_cancellation(ended_first):
    machine = Machine(pipeline("Sks"))
    execution_id = machine.stream(2, ended=ended_first)
    machine.decide(ev.SessionCancelled(execution_id))
    if not ended_first:
        assert machine.execution(execution_id).status is ExecutionStatus.RUNNING
        machine.pull(execution_id, ended=True)
    assert machine.execution(execution_id).status is ExecutionStatus.WAITING_EXTERNAL
    for item in (1, 0):
        machine.answer(machine.interaction(execution_id, 1, item))
    machine.run_segments()
    assert machine.execution(execution_id).status is ExecutionStatus.SUCCEEDED
    assert machine.slots_held == 0


def test_a_live_session_cancelled_after_its_source_failed_still_ends():
    machine = Machine(pipeline("Sks"))
    execution_id = machine.stream(2)
    machine.decide(ev.SourceFailed(execution_id, "BROKEN", "the source broke", ""))
    machine.decide(ev.SessionCancelled(execution_id))
    for item in (0, 1):
        machine.answer(machine.interaction(execution_id, 1, item))
    machine.run_segments()
    assert machine.execution(execution_id).error_code == "BROKEN"
    assert machine.slots_held == 0


@pytest.mark.parametrize("shape", ["Swsws", "Sww", "Sksks", "Skk", "Swsks", "Sksws", "Sqq"])
@pytest.mark.parametrize("cancelled", [False, True])
def test_two_awaits_in_a_row(shape, cancelled):
    machine = Machine(pipeline(shape))
    first, second = (n for n, letter in enumerate(shape) if letter in "kwq")
    execution_id = machine.stream(3)
    machine.answer(machine.interaction(execution_id, first, 0))
    machine.run_segments()
    machine.grant_slots()
    if cancelled:
        machine.decide(ev.SessionCancelled(execution_id))
    machine.pull(execution_id, ended=True)
    for item in (1, 2):
        machine.answer(machine.interaction(execution_id, first, item))
    machine.run_segments()
    machine.grant_slots()
    for item in (2, 0, 1):
        assert machine.answer(machine.interaction(execution_id, second, item)) == "admitted"
    machine.run_segments()
    assert machine.execution(execution_id).status is ExecutionStatus.SUCCEEDED
    assert sorted(machine.outputs(execution_id)) == [0, 1, 2]
    for step in (first, second):
        unit = machine.unit(execution_id, step)
        assert unit is not None
        assert (unit.status, unit.completed_item_count, unit.expected_item_count) == (UnitStatus.COMPLETED, 3, 3)
    assert machine.slots_held == 0
    assert machine.owed(execution_id) == []


def test_the_release_goes_on_behind_its_cursor_and_starts_nothing_twice(monkeypatch):
    monkeypatch.setattr("tpf_streams.core.fallback.CLOSE_AT_ONCE", 2)
    machine = Machine(pipeline("Sws"))
    execution_id = machine.stream(5)
    for item in (0, 3):
        machine.answer(machine.interaction(execution_id, 1, item))
    machine.pull(execution_id, ended=True)
    (first,) = machine.take(fx.ContinueOwed)
    machine.decide(ev.OwedDue(first.owed))
    (rest,) = machine.take(fx.ContinueOwed)
    assert (first.owed.cursor, rest.owed.cursor) == (0, 2)
    # Behind the cursor an answer starts at once; before it the release will come to it.
    machine.answer(machine.interaction(execution_id, 1, 1))
    machine.answer(machine.interaction(execution_id, 1, 4))
    assert [effect.owed.item_index for effect in machine.take(fx.RunSegment)] == [0, 1]
    machine.effects.append(rest)
    machine.go_on()
    assert [effect.owed.item_index for effect in machine.take(fx.RunSegment)] == [3, 4]
    assert OwedKind.RELEASE not in machine.owed_kinds(execution_id)


def test_a_stream_that_ends_during_its_release_owes_no_more_release(monkeypatch):
    monkeypatch.setattr("tpf_streams.core.fallback.CLOSE_AT_ONCE", 2)
    machine = Machine(pipeline("Sw", on_item_timeout=OnItemTimeout.REJECT_ITEM))
    execution_id = machine.stream(5)
    machine.answer(machine.interaction(execution_id, 1, 0))
    for item in range(1, 5):
        machine.decide(ev.InteractionCancelled(machine.interaction(execution_id, 1, item).interaction_id, "no"))
    machine.pull(execution_id, ended=True)
    machine.go_on()
    assert machine.execution(execution_id).status is ExecutionStatus.SUCCEEDED
    assert machine.owed(execution_id) == []


def test_rejected_items_complete_a_durable_unit_with_a_count():
    machine = Machine(pipeline("Sws", on_item_timeout=OnItemTimeout.REJECT_ITEM))
    execution_id = machine.stream(3, ended=True)
    machine.answer(machine.interaction(execution_id, 1, 0))
    machine.now_ms += 60_001
    machine.decide(ev.DeadlinesReached(1))
    unit = machine.unit(execution_id, 1)
    assert unit is not None
    assert (unit.status, unit.rejected_item_count) == (UnitStatus.WAITING_EXTERNAL, 1)
    machine.decide(ev.DeadlinesReached(100))
    unit = machine.unit(execution_id, 1)
    assert unit is not None
    assert (unit.status, unit.completed_item_count, unit.rejected_item_count) == (UnitStatus.COMPLETED, 1, 2)
    assert machine.execution(execution_id).status is ExecutionStatus.WAITING_EXTERNAL
    machine.run_segments()
    assert machine.execution(execution_id).status is ExecutionStatus.SUCCEEDED


def test_an_answered_item_whose_continuation_fails_does_not_complete_the_unit_for_another():
    machine = Machine(pipeline("Sks", on_item_failure=OnItemFailure.REJECT_ITEM))
    execution_id = machine.stream(2)
    machine.answer(machine.interaction(execution_id, 1, 0))
    (effect,) = machine.take(fx.RunSegment)
    machine.decide(ev.SegmentFailed(effect.owed, "BAD", "a bad answer", ""))
    machine.decide(ev.SessionCancelled(execution_id))
    machine.pull(execution_id, ended=True)
    unit = machine.unit(execution_id, 1)
    assert unit is not None
    assert (unit.status, unit.completed_item_count, unit.rejected_item_count) == (UnitStatus.WAITING_EXTERNAL, 1, 0)
    machine.answer(machine.interaction(execution_id, 1, 1))
    machine.run_segments()
    unit = machine.unit(execution_id, 1)
    assert unit is not None
    assert (unit.status, unit.completed_item_count, unit.rejected_item_count) == (UnitStatus.COMPLETED, 2, 0)
    summary = machine.execution(execution_id).summary
    assert summary is not None
    assert (summary.items, summary.outputs, summary.rejected_items) == (2, 1, 1)
    assert machine.slots_held == 0


def test_a_second_cancellation_and_one_after_the_end_change_nothing():
    machine = Machine(pipeline("Sks"))
    execution_id = machine.stream(1, ended=True)
    machine.decide(ev.SessionCancelled(execution_id))
    assert not machine.decide(ev.SessionCancelled(execution_id)).changes
    machine.answer(machine.interaction(execution_id, 1, 0))
    machine.run_segments()
    assert machine.execution(execution_id).status is ExecutionStatus.SUCCEEDED
    assert not machine.decide(ev.SessionCancelled(execution_id)).changes


def test_an_answer_to_a_stream_that_failed_is_terminal_though_its_row_is_open(monkeypatch):
    monkeypatch.setattr("tpf_streams.core.ending.CLOSE_AT_ONCE", 1)
    machine = Machine(pipeline("Sks"))
    execution_id = machine.stream(3)
    machine.decide(ev.ExecutionCancelled(execution_id, "enough"))
    last = machine.interaction(execution_id, 1, 2)
    assert last.status is InteractionStatus.DISPATCHED
    assert machine.answer(last) == "terminal"
    # Late or not makes no difference: the bounded closing is behind time, not the answer.
    assert machine.answer(machine.interaction(execution_id, 1, 1), at_ms=last.deadline_epoch_ms + 1) == "terminal"
    machine.go_on()
    assert machine.slots_held == 0
    assert machine.deadlines() == 0
    assert machine.owed(execution_id) == []


def test_what_a_failed_stream_owed_is_forgotten_in_bounded_turns(monkeypatch):
    """A durable stream may owe a continuation for each of its items: no turn grows with their number."""
    for module in ("ending", "fallback"):
        monkeypatch.setattr(f"tpf_streams.core.{module}.CLOSE_AT_ONCE", 3)
    machine = Machine(pipeline("Sqsqs", max_concurrency=40))
    execution_id = machine.stream(40, ended=True)
    for item in range(30):
        machine.answer(machine.interaction(execution_id, 1, item))
    machine.go_on()
    for effect in machine.take(fx.RunSegment)[:10]:
        machine.decide(ev.SegmentCompleted(effect.owed, [{"n": 1}]))
    machine.grant_slots()
    owed = len(machine.owed(execution_id))
    decision = machine.decide(ev.ExecutionCancelled(execution_id, "enough"))
    assert len(decision.changes) < 40
    assert owed - 12 < len(machine.owed(execution_id)) <= owed
    while due := machine.take(fx.ContinueOwed):
        for more in due:
            assert len(machine.decide(ev.OwedDue(more.owed)).changes) < 20
    assert machine.owed(execution_id) == []
    assert (machine.slots_held, machine.deadlines()) == (0, 0)

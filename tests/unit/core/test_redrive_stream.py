"""A failed stream goes on where it failed: items keep what they have, and only the others are asked for (0.14)."""

from __future__ import annotations

import pytest

from tests.unit.core.machine import TIMEOUT_MS, Machine, pipeline
from tests.unit.core.test_redrive import fail_segment, pass_deadlines
from tpf_streams.core import effects as fx
from tpf_streams.core import events as ev
from tpf_streams.core.execution import ExecutionStatus, StreamPlace, Summary
from tpf_streams.core.rows import decode, encode
from tpf_streams.core.step import ItemReject, OnItemFailure, OnItemTimeout
from tpf_streams.core.unit import UnitStatus

E = ExecutionStatus


def place_of(machine: Machine, execution_id: str) -> StreamPlace:
    summary = machine.execution(execution_id).summary
    assert summary is not None
    assert summary.place is not None
    return summary.place


class TestStream:
    def failed(self, **options: object) -> tuple[Machine, str]:
        """Four items: 0 has its output, 1 an answer whose step failed, 2 and 3 are open when 2 is late."""
        machine = Machine(pipeline("Sks", **{"max_concurrency": 4, **options}))
        execution_id = machine.stream(4)
        for item in (0, 1):
            machine.answer(machine.interaction(execution_id, 1, item), {"yes": item})
        first, second = machine.take(fx.RunSegment)
        machine.decide(ev.SegmentCompleted(first.owed, [{"out": 0}]))
        machine.decide(ev.SegmentFailed(second.owed, "BAD", "bad", ""))
        pass_deadlines(machine)
        assert machine.execution(execution_id).status is E.FAILED
        assert machine.slots_held == 0
        machine.effects.clear()
        return machine, execution_id

    def test_items_keep_their_outputs_and_answers_and_only_the_others_are_asked_for(self):
        machine, execution_id = self.failed()
        old = [machine.interaction(execution_id, 1, item) for item in range(4)]
        assert machine.redrive(execution_id) == "redriven"
        assert machine.execution(execution_id).generation == 1
        (start,) = machine.take(fx.StartSource)
        assert start.execution_id == execution_id
        machine.take(fx.SendRequest)
        machine.reopen()
        machine.recall(execution_id)
        session = machine.session(execution_id)
        assert session is not None
        assert (session.next_item_index, session.settled, session.outputs, session.completed) == (4, 1, 1, {"1": 2})
        assert [it.interaction.item_index for it in machine.take(fx.SendRequest)] == [2, 3]
        (again,) = machine.take(fx.RunSegment)
        assert (again.owed.item_index, again.value) == (1, {"yes": 1})
        assert machine.rejects(execution_id) == []
        machine.decide(ev.SegmentCompleted(again.owed, [{"out": 1}]))
        for item in (2, 3):
            new = machine.interaction(execution_id, 1, item)
            assert (new.request_payload, new.idempotency_key) == (
                old[item].request_payload,
                old[item].idempotency_key,
            )
            assert new.interaction_id != old[item].interaction_id
            assert machine.answer(old[item]) in ("late", "terminal")
            assert machine.answer(new) == "admitted"
        machine.run_segments()
        machine.pull(execution_id, [{"n": 4}], ended=True)
        machine.answer(machine.interaction(execution_id, 1, 4))
        machine.run_segments()
        execution, unit = machine.execution(execution_id), machine.unit(execution_id, 1)
        assert (execution.status, execution.error_code) == (E.SUCCEEDED, None)
        assert execution.summary == Summary(items=5, outputs=5)
        assert unit is not None
        assert (unit.status, unit.expected_item_count, unit.completed_item_count) == (UnitStatus.COMPLETED, 5, 5)
        assert sorted(machine.outputs(execution_id)) == [0, 1, 2, 3, 4]
        assert machine.slots_held == 0
        assert machine.owed(execution_id) == []

    def test_the_window_bounds_what_is_taken_up(self):
        machine, execution_id = self.failed()
        machine.redrive(execution_id)
        machine.recall(execution_id, 2)
        session = machine.session(execution_id)
        assert session is not None
        assert (session.next_item_index, session.in_flight, session.recalling) == (3, 2, True)
        machine.decide(ev.ItemsRecalled(execution_id, 1, 9))
        assert machine.session(execution_id) == session, "it is about a place that is past"
        machine.recall(execution_id, 1)
        session = machine.session(execution_id)
        assert session is not None
        assert (session.recalling, session.source_position) == (False, 4)

    def test_the_source_goes_on_where_it_stood(self):
        machine, execution_id = self.failed()
        machine.redrive(execution_id)
        machine.recall(execution_id)
        before = machine.session(execution_id)
        machine.decide(ev.ItemsPulled(execution_id, 0, [{"n": 0}], ended=True))
        assert machine.session(execution_id) == before

    def test_a_source_that_had_ended_is_not_read_again(self):
        machine = Machine(pipeline("Sks", on_item_failure=OnItemFailure.FAIL_EXECUTION))
        execution_id = machine.stream(2, ended=True)
        machine.answer(machine.interaction(execution_id, 1, 0))
        fail_segment(machine)
        machine.answer(machine.interaction(execution_id, 1, 1))
        machine.run_segments()
        assert machine.execution(execution_id).status is E.FAILED
        machine.redrive(execution_id)
        machine.recall(execution_id)
        session = machine.session(execution_id)
        assert session is not None
        assert (session.source_ended, session.in_flight) == (True, 1)
        machine.run_segments()
        assert machine.execution(execution_id).summary == Summary(items=2, outputs=2)

    def test_a_source_that_was_stopped_for_the_failure_goes_on(self):
        machine = Machine(pipeline("Sks"))
        execution_id = machine.stream(1)
        machine.answer(machine.interaction(execution_id, 1, 0))
        fail_segment(machine)
        place = place_of(machine, execution_id)
        assert (place.ended, place.settled) == (False, False)
        machine.redrive(execution_id)
        machine.recall(execution_id)
        session = machine.session(execution_id)
        assert session is not None
        assert session.source_ended is False
        machine.run_segments()
        machine.pull(execution_id, [], ended=True)
        assert machine.execution(execution_id).status is E.SUCCEEDED

    def test_only_the_publishing_is_left(self):
        machine = Machine(pipeline("Sks", publishes=True, on_item_timeout=OnItemTimeout.REJECT_ITEM))
        execution_id = machine.stream(2, ended=True)
        machine.answer(machine.interaction(execution_id, 1, 0))
        machine.run_segments()
        pass_deadlines(machine)
        machine.decide(ev.PublishFailed(execution_id, "PUBLISH_FAILED", "full", ""))
        machine.take(fx.PublishObject)
        summary = machine.execution(execution_id).summary
        assert machine.redrive(execution_id) == "redriven"
        assert machine.take(fx.PublishObject) == [fx.PublishObject(execution_id, 1)]
        assert machine.execution(execution_id).generation == 0
        machine.decide(ev.ObjectPublished(execution_id, "a.out", attempt=1))
        execution = machine.execution(execution_id)
        assert (execution.status, execution.published) == (E.SUCCEEDED, "a.out")
        assert execution.summary is not None
        assert (execution.summary.outputs, execution.summary.rejected_items) == (1, 1)
        assert summary is not None
        assert execution.summary.by_arm == summary.by_arm

    def test_rejects_of_rows_stay_and_those_of_items_go_with_their_second_try(self):
        machine = Machine(pipeline("Sks", on_item_timeout=OnItemTimeout.REJECT_ITEM))
        execution_id = machine.submit()
        machine.pull(execution_id, [{"n": 0}, ItemReject("f", 2, "c", "bad row"), {"n": 1}])
        machine.now_ms += TIMEOUT_MS + 1
        machine.decide(ev.DeadlinesReached(1))
        machine.decide(ev.ExecutionCancelled(execution_id, "no"))
        assert [it.item_index is None for it in machine.rejects(execution_id)] == [True, False]
        machine.redrive(execution_id)
        machine.recall(execution_id)
        assert [it.item_index for it in machine.rejects(execution_id)] == [None]
        machine.pull(execution_id, [ItemReject("f", 4, "c", "another")], ended=True)
        assert [(it.ordinal, it.line) for it in machine.rejects(execution_id)] == [(0, 2), (2, 4)]
        for item in (0, 1):
            machine.answer(machine.interaction(execution_id, 1, item))
        machine.run_segments()
        assert machine.execution(execution_id).summary == Summary(items=2, outputs=2, rejected_rows=2)

    @pytest.mark.parametrize("policy", list(OnItemFailure))
    def test_an_item_that_cannot_be_asked_for_stays_rejected(self, policy):
        machine = Machine(pipeline("Sks", idempotency_fields=("n",), on_item_failure=policy))
        execution_id = machine.submit()
        machine.pull(execution_id, [{"n": 0}, {"x": 1}])
        machine.decide(ev.ExecutionCancelled(execution_id, "no"))
        machine.redrive(execution_id)
        machine.recall(execution_id)
        machine.answer(machine.interaction(execution_id, 1, 0))
        machine.run_segments()
        if policy is OnItemFailure.REJECT_ITEM:
            machine.pull(execution_id, [], ended=True)
        execution = machine.execution(execution_id)
        assert execution.summary is not None
        assert (execution.summary.outputs, execution.summary.rejected_items) == (1, 1)
        fails = policy is OnItemFailure.FAIL_EXECUTION
        assert (execution.status, execution.error_code) == (
            (E.FAILED, "INVALID_PAYLOAD") if fails else (E.SUCCEEDED, None)
        )
        assert len(machine.rejects(execution_id)) == 1
        assert machine.slots_held == 0

    def test_an_item_at_its_second_await_is_asked_there(self):
        machine = Machine(pipeline("Skis"))
        execution_id = machine.stream(2, ended=True)
        for item in (0, 1):
            machine.answer(machine.interaction(execution_id, 1, item))
        second = machine.interaction(execution_id, 2, 0)
        machine.answer(machine.interaction(execution_id, 2, 1), {"yes": 2})
        machine.now_ms = second.deadline_epoch_ms + 1
        machine.decide(ev.DeadlinesReached(100))
        machine.take(fx.RunSegment)
        machine.redrive(execution_id)
        machine.recall(execution_id)
        assert machine.find(execution_id, 1, 0) is None, "its first answer stays where it was given"
        machine.answer(machine.interaction(execution_id, 2, 0))
        assert machine.run_segments() == 2
        execution, unit = machine.execution(execution_id), machine.unit(execution_id, 2)
        assert (execution.status, execution.summary) == (E.SUCCEEDED, Summary(items=2, outputs=2))
        assert unit is not None
        assert (unit.completed_item_count, unit.expected_item_count) == (2, 2)

    def test_the_durable_path_holds_kept_answers_behind_its_gates(self):
        machine = Machine(pipeline("Sqs"))
        execution_id = machine.stream(3)
        machine.answer(machine.interaction(execution_id, 1, 0), {"yes": 0})
        pass_deadlines(machine)
        machine.redrive(execution_id)
        machine.recall(execution_id)
        assert machine.take(fx.RunSegment) == []
        machine.answer(machine.interaction(execution_id, 1, 2), {"yes": 2})
        machine.pull(execution_id, [], ended=True)
        assert machine.execution(execution_id).status is E.WAITING_EXTERNAL
        assert machine.run_segments() == 2
        machine.answer(machine.interaction(execution_id, 1, 1))
        assert machine.run_segments() == 1
        assert machine.execution(execution_id).summary == Summary(items=3, outputs=3)
        unit = machine.unit(execution_id, 1)
        assert unit is not None
        assert (unit.status, unit.completed_item_count) == (UnitStatus.COMPLETED, 3)

    def test_it_fails_again_in_the_middle_and_is_redriven_again(self):
        machine, execution_id = self.failed()
        machine.redrive(execution_id)
        machine.recall(execution_id, 1)
        machine.decide(ev.ExecutionCancelled(execution_id, "no"))
        machine.go_on()
        machine.take(fx.RunSegment)
        place = place_of(machine, execution_id)
        assert place.items == 4
        machine.redrive(execution_id)
        machine.recall(execution_id)
        for item in (2, 3):
            machine.answer(machine.interaction(execution_id, 1, item))
        assert machine.run_segments() == 3
        machine.pull(execution_id, [], ended=True)
        execution = machine.execution(execution_id)
        assert (execution.generation, execution.summary) == (2, Summary(items=4, outputs=4))
        assert machine.slots_held == 0

    def test_a_stream_that_had_nothing_begins_anew(self):
        machine = Machine(pipeline("Sk"))
        execution_id = machine.submit()
        machine.decide(ev.SourceFailed(execution_id, "UNREADABLE", "no file", ""))
        machine.redrive(execution_id)
        machine.pull(execution_id, [{"n": 0}], ended=True)
        machine.answer(machine.interaction(execution_id, 1, 0))
        assert machine.execution(execution_id).status is E.SUCCEEDED

    def test_a_stream_without_items_whose_source_had_ended_is_over_at_once(self):
        machine = Machine(pipeline("Sk", publishes=True))
        execution_id = machine.stream(0, ended=True)
        machine.decide(ev.ExecutionCancelled(execution_id, "no"))
        machine.redrive(execution_id)
        machine.decide(ev.ObjectPublished(execution_id, "a.out", attempt=1))
        assert machine.execution(execution_id).status is E.SUCCEEDED


def test_rows_of_a_redriven_stream_come_back():
    machine, execution_id = TestStream().failed()
    execution = machine.execution(execution_id)
    assert decode(type(execution), encode(execution)) == execution
    machine.redrive(execution_id)
    session = machine.session(execution_id)
    assert session is not None
    assert decode(type(session), encode(session)) == session
    assert session.recall is not None

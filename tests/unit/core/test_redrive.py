"""A failed execution goes on where it failed: what is kept, what is asked for again, and under which ids (0.14)."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.core.machine import TIMEOUT_MS, Machine, pipeline
from tpf_streams.core import effects as fx
from tpf_streams.core import events as ev
from tpf_streams.core.execution import ExecutionStatus, Summary

E = ExecutionStatus


def fail_segment(machine: Machine, *, code: str = "BAD") -> None:
    (effect,) = machine.take(fx.RunSegment)
    machine.decide(ev.SegmentFailed(effect.owed, code, "bad", ""))


def pass_deadlines(machine: Machine) -> None:
    machine.now_ms += TIMEOUT_MS + 1
    machine.decide(ev.DeadlinesReached(100))
    machine.go_on()


class TestScalar:
    def test_without_a_unit_it_begins_with_its_input(self):
        machine = Machine(pipeline("sis"))
        execution_id = machine.submit({"n": 1})
        fail_segment(machine)
        assert machine.redrive(execution_id) == "redriven"
        execution = machine.execution(execution_id)
        assert (execution.status, execution.generation, execution.attempt, execution.summary) == (E.RUNNING, 1, 1, None)
        (effect,) = machine.take(fx.RunSegment)
        assert (effect.owed.step_index, effect.value) == (0, {"n": 1})

    def test_a_stored_answer_is_used_and_nothing_is_asked_for(self):
        """T94."""
        machine = Machine(pipeline("is"))
        execution_id = machine.submit({"n": 1})
        row = machine.interaction(execution_id, 0)
        machine.answer(row, {"yes": 1})
        fail_segment(machine)
        assert machine.execution(execution_id).await_unit_id == row.unit_id
        machine.reopen()
        assert machine.redrive(execution_id) == "redriven"
        execution = machine.execution(execution_id)
        assert (execution.status, execution.generation, execution.error_code) == (E.RUNNING, 0, None)
        (effect,) = machine.take(fx.RunSegment)
        assert (effect.owed.step_index, effect.value) == (1, {"yes": 1})
        assert machine.facts["interaction.created.total"] == 1
        machine.decide(ev.SegmentCompleted(effect.owed, [{"out": 1}]))
        assert machine.execution(execution_id).status is E.SUCCEEDED

    def test_what_has_no_answer_is_asked_for_under_new_ids_and_the_same_key(self):
        """T39."""
        machine = Machine(pipeline("sks", idempotency_fields=("n",)))
        execution_id = machine.submit({"n": 1})
        (effect,) = machine.take(fx.RunSegment)
        machine.decide(ev.SegmentCompleted(effect.owed, [{"n": 7}]))
        machine.grant_slots()
        old = machine.interaction(execution_id, 1)
        pass_deadlines(machine)
        assert machine.redrive(execution_id) == "redriven"
        machine.grant_slots()
        new = machine.interaction(execution_id, 1)
        assert (new.request_payload, new.idempotency_key) == (old.request_payload, old.idempotency_key)
        assert {new.interaction_id, new.correlation_id, new.unit_id}.isdisjoint(
            {old.interaction_id, old.correlation_id, old.unit_id}
        )
        assert machine.answer(old, at_ms=old.deadline_epoch_ms) == "terminal"
        assert machine.answer(old, at_ms=old.deadline_epoch_ms + 1) == "late"
        assert machine.answer(new) == "admitted"
        machine.run_segments()
        assert machine.execution(execution_id).status is E.SUCCEEDED
        assert machine.slots_held == 0

    def test_the_answer_of_an_earlier_generation_serves_a_later_redrive(self):
        machine = Machine(pipeline("isis"))
        execution_id = machine.submit({"n": 1})
        machine.answer(machine.interaction(execution_id, 0))
        machine.run_segments({"n": 2})
        pass_deadlines(machine)
        machine.redrive(execution_id)
        assert machine.execution(execution_id).generation == 1
        pass_deadlines(machine)
        machine.redrive(execution_id)
        second = machine.interaction(execution_id, 2)
        assert (machine.execution(execution_id).generation, second.request_payload) == (2, {"n": 2})
        machine.answer(second, {"yes": 2})
        fail_segment(machine)
        machine.redrive(execution_id)
        assert machine.execution(execution_id).generation == 2
        assert machine.run_segments() == 1
        assert machine.execution(execution_id).status is E.SUCCEEDED

    def test_one_that_failed_before_its_second_dispatch_goes_on_to_it(self):
        machine = Machine(pipeline("isk"))
        execution_id = machine.submit({"n": 1})
        machine.answer(machine.interaction(execution_id, 0))
        machine.run_segments({"n": 2})
        machine.decide(ev.ExecutionCancelled(execution_id, "no"))
        machine.take(fx.RequestSlot)
        machine.redrive(execution_id)
        machine.grant_slots()
        assert machine.interaction(execution_id, 2).request_payload == {"n": 2}
        assert machine.slots_held == 1

    def test_rows_of_an_earlier_version_forgot_the_unit(self):
        machine = Machine(pipeline("isis"))
        execution_id = machine.submit({"n": 1})
        machine.answer(machine.interaction(execution_id, 0))
        machine.run_segments({"n": 2})
        pass_deadlines(machine)
        row = replace(machine.execution(execution_id), await_unit_id=None)
        machine.put(row, machine.state.keys.execution(execution_id))
        machine.redrive(execution_id)
        assert machine.interaction(execution_id, 2).request_payload == {"n": 2}


class TestRefusals:
    def setup_method(self) -> None:
        self.machine = Machine(pipeline("s"))
        self.id = self.machine.submit({"n": 1})

    def refused(self, outcome: str, **how: object) -> None:
        before = self.machine.execution(self.id)
        assert self.machine.redrive(self.id, **how) == outcome
        assert self.machine.execution(self.id) == before

    def test_who_runs(self):
        self.refused("not_failed")

    def test_who_succeeded(self):
        self.machine.run_segments()
        self.refused("not_failed")

    def test_another_version(self):
        fail_segment(self.machine)
        version = self.machine.execution(self.id).version
        self.refused("version_mismatch", expected_version=version + 1)
        assert self.machine.redrive(self.id, expected_version=version) == "redriven"
        self.refused("not_failed", expected_version=version)

    def test_failed_is_to_be_allowed(self):
        fail_segment(self.machine)
        self.refused("failed_not_allowed", allow_failed=False)

    def test_nobody(self):
        assert self.machine.redrive("0123abcd-1111-8222-8333-444444444444") == "not_found"

    def test_while_it_is_still_being_closed(self, monkeypatch):
        monkeypatch.setattr("tpf_streams.core.ending.CLOSE_AT_ONCE", 2)
        self.machine = Machine(pipeline("Sks", max_concurrency=9))
        self.id = self.machine.stream(9)
        self.machine.decide(ev.ExecutionCancelled(self.id, "no"))
        self.refused("closing")
        self.machine.go_on()
        assert self.machine.redrive(self.id) == "redriven"

    def test_an_input_that_was_not_kept(self):
        self.machine = Machine(pipeline("s", max_aggregate_bytes=10))
        self.id = self.machine.submit({"n": "far too long for this"})
        self.refused("not_redrivable")

    def test_a_stream_of_an_earlier_version(self):
        self.machine = Machine(pipeline("Sk"))
        self.id = self.machine.stream(2)
        self.machine.decide(ev.ExecutionCancelled(self.id, "no"))
        row = replace(self.machine.execution(self.id), summary=Summary(2, 0, 0, 0), resume=None)
        self.machine.put(row, self.machine.state.keys.execution(self.id))
        self.refused("not_redrivable")

"""Deadlines: swept in order, a bounded number a turn, and what they end."""

from __future__ import annotations

from tests.unit.core.machine import Machine, pipeline
from tpf_streams.core import events as ev
from tpf_streams.core.execution import ExecutionStatus
from tpf_streams.core.step import OnItemTimeout
from tpf_streams.core.unit import UnitStatus


def test_only_the_unit_whose_answer_is_missing_is_timed_out():
    machine = Machine(pipeline("Skk"))
    execution_id = machine.stream(2)
    machine.answer(machine.interaction(execution_id, 1, 0))
    machine.now_ms += 1
    machine.grant_slots()
    machine.now_ms = machine.interaction(execution_id, 1, 1).deadline_epoch_ms + 1
    machine.decide(ev.DeadlinesReached(1))
    units = [machine.unit(execution_id, step) for step in (1, 2)]
    assert [unit and unit.status for unit in units] == [UnitStatus.TIMED_OUT, UnitStatus.FAILED]


def test_many_deadlines_pass_a_bounded_number_at_a_time_in_their_order():
    machine = Machine(pipeline("Sks", on_item_timeout=OnItemTimeout.REJECT_ITEM, max_concurrency=5))
    execution_id = machine.stream(5)
    machine.now_ms += 60_000
    machine.decide(ev.DeadlinesReached(10))
    assert machine.deadlines() == 5, "at the deadline itself an answer is in time"
    machine.now_ms += 1
    machine.decide(ev.DeadlinesReached(2))
    assert machine.deadlines() == 3
    machine.decide(ev.DeadlinesReached(10))
    assert machine.deadlines() == 0
    assert [reject.item_index for reject in machine.rejects(execution_id)] == sorted(
        range(5), key=lambda item: machine.interaction(execution_id, 1, item).interaction_id
    )
    machine.pull(execution_id, ended=True)
    unit = machine.unit(execution_id, 1)
    assert unit is not None
    assert (unit.status, unit.completed_item_count, unit.rejected_item_count) == (UnitStatus.COMPLETED, 0, 5)
    assert machine.execution(execution_id).status is ExecutionStatus.SUCCEEDED


def test_a_deadline_without_an_open_interaction_is_swept_away():
    machine = Machine(pipeline("i"))
    row = machine.interaction(machine.submit({"n": 1}), 0)
    machine.answer(row)
    machine.put(b"", machine.state.keys.deadline(row.deadline_epoch_ms, row.interaction_id))
    machine.put(b"", machine.state.keys.deadline(row.deadline_epoch_ms, "00000000-0000-8000-8000-000000000000"))
    machine.now_ms = row.deadline_epoch_ms + 1
    machine.decide(ev.DeadlinesReached(10))
    assert machine.deadlines() == 0

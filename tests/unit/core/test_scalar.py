"""One execution without a stream: a key, boundaries one after the other, one output."""

from __future__ import annotations

from tests.unit.core.machine import SECRET, Machine, pipeline
from tpf_streams.core.execution import ExecutionStatus


def test_the_same_key_again_meets_the_same_execution():
    machine = Machine(pipeline("k"))
    execution_id = machine.submit({"n": 1})
    before = machine.execution(execution_id)
    assert machine.submit({"n": 2}) == execution_id
    assert machine.execution(execution_id) == before
    assert machine.facts["execution.duplicate.total"] == 1
    assert machine.submit({"n": 1}, tenant="tenant-2") != execution_id


def test_an_answer_to_an_earlier_boundary_moves_nothing():
    """O05: a release must name the unit the execution is parked on."""
    machine = Machine(pipeline("kk", resume_token_secrets=(SECRET,)))
    execution_id = machine.submit({"n": 1})
    machine.grant_slots()
    first = machine.interaction(execution_id, 0)
    machine.answer(first)
    machine.grant_slots()
    parked = machine.execution(execution_id)
    assert machine.answer(first) == "duplicate"
    assert machine.answer(first, {"another": 1}) == "conflict"
    assert machine.execution(execution_id) == parked
    machine.answer(machine.interaction(execution_id, 1))
    assert machine.execution(execution_id).status is ExecutionStatus.SUCCEEDED


def test_units_are_counted_once_each():
    machine = Machine(pipeline("kk"))
    execution_id = machine.submit({"n": 1})
    for step in (0, 1):
        machine.grant_slots()
        machine.answer(machine.interaction(execution_id, step))
    assert machine.facts["unit.terminal.total"] == 2
    assert machine.facts["scalar.continuation.started.total"] == 2

"""Rows that no event of today leaves behind, as a damaged store or another version may: nothing raises, nothing hangs.

A decision that raised would be a dead letter, and its execution FAILED; each of these goes on as well as it can.
"""

from __future__ import annotations

from dataclasses import replace

from tests.unit.core.machine import Machine, pipeline
from tpf_streams.core import effects as fx
from tpf_streams.core import events as ev
from tpf_streams.core.execution import ExecutionStatus, OwedKind, OwedRecord
from tpf_streams.core.interaction import InteractionStatus


def test_a_dispatch_that_failed_though_its_interaction_has_ended():
    machine = Machine(pipeline("w"))
    execution_id = machine.submit({"n": 1})
    (owed,) = machine.owed(execution_id)
    row = machine.interaction(execution_id, 0)
    machine.put(replace(row, status=InteractionStatus.CANCELLED), machine.state.keys.interaction(row.interaction_id))
    machine.decide(ev.RequestFailed(owed, "HTTP 500"))
    assert machine.owed(execution_id) == []
    assert machine.execution(execution_id).status is ExecutionStatus.WAITING_EXTERNAL


def test_an_answer_to_an_item_whose_session_is_gone_is_kept():
    machine = Machine(pipeline("Sks"))
    execution_id = machine.stream(1)
    machine.put(None, machine.state.keys.session(execution_id))
    assert machine.answer(machine.interaction(execution_id, 1, 0), {"n": 1}) == "admitted"
    assert machine.interaction(execution_id, 1, 0).response_payload == {"n": 1}
    assert machine.take(fx.RunSegment) == []


def test_an_item_ends_without_an_answer_though_its_session_is_gone():
    machine = Machine(pipeline("Sks", on_item_timeout="REJECT_ITEM"))
    execution_id = machine.stream(1)
    machine.put(None, machine.state.keys.session(execution_id))
    machine.now_ms = machine.interaction(execution_id, 1, 0).deadline_epoch_ms + 1
    machine.decide(ev.DeadlinesReached(10))
    assert machine.interaction(execution_id, 1, 0).status is InteractionStatus.TIMED_OUT
    assert machine.deadlines() == 0


def test_a_release_of_a_unit_that_is_gone_is_owed_no_more():
    machine = Machine(pipeline("Sws"))
    execution_id = machine.stream(1)
    unit = machine.unit(execution_id, 1)
    assert unit is not None
    owed = OwedRecord(execution_id, OwedKind.RELEASE, 1, 1, unit_id=unit.unit_id)
    machine.put(owed, machine.state.keys.owed(execution_id, OwedKind.RELEASE, 1))
    machine.put(None, machine.state.keys.unit(unit.unit_id))
    machine.decide(ev.OwedDue(owed))
    assert OwedKind.RELEASE not in machine.owed_kinds(execution_id)


def test_an_expiry_without_its_early_row_is_swept_away():
    machine = Machine(pipeline("i"))
    row = machine.interaction(machine.submit({"n": 1}), 0)
    machine.put(b"", machine.state.keys.early_expiry(machine.now_ms - 1, row.interaction_id))
    machine.decide(ev.DeadlinesReached(10))
    assert machine.state.scan_keys(machine.state.keys.all_expiries()) == []
    assert machine.facts["completion.dropped.total"] == 0


def test_unknown_fields_of_a_completion_are_counted_and_ignored():
    machine = Machine(pipeline("i"))
    row = machine.interaction(machine.submit({"n": 1}), 0)
    assert machine.complete(machine.envelope(row, unknown_fields=("x", "y"))) == "admitted"
    assert machine.facts["completion.unknown_fields.total"] == 2

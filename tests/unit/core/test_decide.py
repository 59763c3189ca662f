"""What the table itself decides: markers, what operators are told, and local results of work that is not owed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.core.machine import Machine, pipeline
from tpf_streams.core import effects as fx
from tpf_streams.core import events as ev
from tpf_streams.core.execution import ExecutionStatus, OwedKind
from tpf_streams.core.outcome import OperatorOutcome

NOBODY = "0123abcd-1111-8222-8333-444444444444"


def test_markers_are_kept_beside_those_of_before():
    """Forgotten, they would hold the deadlines of this partition until the grace is over."""
    machine = Machine(pipeline("k"))
    machine.decide(ev.ArrivalMarked({"answers/0": 7, "answers/1": 3}))
    machine.decide(ev.ArrivalMarked({"answers/0": 9}))
    machine.reopen()
    assert machine.state.markers == {"answers/0": 9, "answers/1": 3}


def test_what_an_operator_is_told_of_a_cancellation():
    machine = Machine(pipeline("i"))
    execution_id = machine.submit({"n": 1})
    row = machine.interaction(execution_id, 0)

    def outcomes(ident: str, interaction_id: str) -> list[str | None]:
        events = (ev.InteractionCancelled(interaction_id, "enough"), ev.ExecutionCancelled(ident, "enough"))
        return [machine.decide(event).outcome for event in events]

    assert outcomes(NOBODY, NOBODY) == [OperatorOutcome.NOT_FOUND, OperatorOutcome.NOT_FOUND]
    assert machine.execution(execution_id).status is ExecutionStatus.WAITING_EXTERNAL
    assert outcomes(execution_id, row.interaction_id) == [OperatorOutcome.CANCELLED, OperatorOutcome.TERMINAL]
    assert outcomes(execution_id, row.interaction_id) == [OperatorOutcome.TERMINAL, OperatorOutcome.TERMINAL]
    assert machine.facts["execution.terminal.total"] == 1


def test_an_execution_is_cancelled_with_its_reason():
    machine = Machine(pipeline("i"))
    execution_id = machine.submit({"n": 1})
    assert machine.decide(ev.ExecutionCancelled(execution_id, "closed today")).outcome is OperatorOutcome.CANCELLED
    execution = machine.execution(execution_id)
    assert (execution.status, execution.error_code) == (ExecutionStatus.FAILED, "CANCELLED")
    assert execution.error_message == "closed today"


@pytest.mark.parametrize("ended", [False, True])
def test_a_result_of_work_that_is_not_owed_changes_nothing(ended):
    """I8: a repeat, or the execution has ended in the meantime."""
    machine = Machine(pipeline("s"))
    execution_id = machine.submit({"n": 1})
    (effect,) = machine.take(fx.RunSegment)
    if ended:
        machine.decide(ev.ExecutionCancelled(execution_id, "enough"))
    else:
        machine.decide(ev.SegmentCompleted(effect.owed, [{"n": 2}]))
    for event in (
        ev.SegmentCompleted(effect.owed, [{"n": 3}]),
        ev.SegmentFailed(effect.owed, "Down", "down", "", retryable=True),
        ev.SegmentFailed(effect.owed, "Down", "down", ""),
    ):
        decision = machine.decide(event)
        assert not (decision.changes or decision.effects or decision.facts)
    assert len(machine.outputs(execution_id)) == (0 if ended else 1)


def test_a_slot_that_nobody_waits_for_goes_back():
    machine = Machine(pipeline("k"))
    execution_id = machine.submit({"n": 1})
    (asked,) = machine.take(fx.RequestSlot)
    machine.decide(ev.ExecutionCancelled(execution_id, "enough"))
    decision = machine.decide(ev.SlotGranted(asked.owed))
    assert list(decision.effects) == [fx.ReturnSlot(execution_id, 0)]


def test_bounded_work_that_is_not_owed_any_more_is_not_done():
    machine = Machine(pipeline("Sk"))
    execution_id = machine.stream(2)
    owed = replace(machine.owed(execution_id)[0], kind=OwedKind.CLOSE, item_index=1, payload=2)
    decision = machine.decide(ev.OwedDue(owed))
    assert not (decision.changes or decision.effects)
    assert machine.deadlines() == 2


def test_nothing_is_held_for_an_interaction():
    assert not Machine(pipeline("i")).decide(ev.EarlyDue(NOBODY)).changes


def test_an_execution_that_has_ended_does_not_fail_once_more():
    """Two events of one execution may raise in one turn; the first reason stays."""
    machine = Machine(pipeline("i"))
    execution_id = machine.submit({"n": 1})
    machine.decide(ev.DecisionRaised(execution_id, "the first", ""))
    assert machine.execution(execution_id).error_code == "INTERNAL_ERROR"
    for ident in (execution_id, NOBODY):
        assert not machine.decide(ev.DecisionRaised(ident, "the second", "")).changes
    assert machine.execution(execution_id).error_message == "the first"

"""Going out: dispatches outside the log, and what becomes of the answer that is faster than its acknowledgement."""

from __future__ import annotations

import pytest

from tests.unit.core.machine import Machine, pipeline
from tpf_streams.core import effects as fx
from tpf_streams.core import events as ev
from tpf_streams.core.execution import ExecutionStatus, OwedKind
from tpf_streams.core.interaction import InteractionStatus
from tpf_streams.core.step import OnItemFailure, OnItemTimeout


def test_a_request_that_is_a_record_of_the_log_is_dispatched_with_its_row():
    machine = Machine(pipeline("k", budget_enabled=False))
    execution_id = machine.submit({"n": 1})
    (effect,) = machine.take(fx.SendRequest)
    assert effect.interaction.status is InteractionStatus.DISPATCHED
    assert machine.owed(execution_id) == []
    assert machine.facts["interaction.dispatched.total"] == 1
    assert machine.facts["unit.dispatch_complete.total"] == 1


def test_a_dispatch_outside_the_log_is_owed_until_it_is_known_done():
    machine = Machine(pipeline("w"))
    execution_id = machine.submit({"n": 1})
    assert machine.interaction(execution_id, 0).status is InteractionStatus.WAITING
    assert machine.owed_kinds(execution_id) == [OwedKind.SEND]
    assert machine.facts["unit.dispatch_complete.total"] == 1
    assert machine.send() == 1
    assert machine.interaction(execution_id, 0).status is InteractionStatus.DISPATCHED
    assert machine.interaction(execution_id, 0).transport_metadata == {"adapter": "test"}
    assert machine.owed(execution_id) == []


def test_an_answer_that_wins_over_the_acknowledgement_keeps_its_row():
    machine = Machine(pipeline("ws"))
    execution_id = machine.submit({"n": 1})
    (effect,) = machine.take(fx.SendOwed)
    assert machine.answer(machine.interaction(execution_id, 0)) == "admitted"
    assert not machine.decide(ev.RequestSent(effect.owed, {"adapter": "late"})).changes
    assert not machine.decide(ev.RequestFailed(effect.owed, "late")).changes
    assert machine.interaction(execution_id, 0).status is InteractionStatus.COMPLETED


def test_an_acknowledgement_behind_the_end_of_its_execution_tells_nothing(monkeypatch):
    """It is closed in bounded turns: one that was sent meanwhile is open still."""
    monkeypatch.setattr("tpf_streams.core.ending.CLOSE_AT_ONCE", 1)
    machine = Machine(pipeline("Sws"))
    execution_id = machine.stream(8)
    sends = machine.take(fx.SendOwed)
    machine.decide(ev.ExecutionCancelled(execution_id, "no"))
    left = [it for it in machine.owed(execution_id) if it.kind is OwedKind.SEND]
    assert left
    last = next(send.owed for send in sends if send.owed == left[-1])
    decision = machine.decide(ev.RequestSent(last, {"adapter": "late"}))
    assert not decision.facts
    assert last not in machine.owed(execution_id)
    assert machine.interaction(execution_id, 1, last.item_index).status is InteractionStatus.WAITING


@pytest.mark.parametrize("result", ["sent", "failed"])
def test_an_old_acknowledgement_does_not_end_the_owing_of_the_next_dispatch(result):
    machine = Machine(pipeline("ww"))
    execution_id = machine.submit({"n": 1})
    (first,) = machine.take(fx.SendOwed)
    machine.answer(machine.interaction(execution_id, 0))
    assert machine.owed_kinds(execution_id) == [OwedKind.SEND]
    stale = ev.RequestSent(first.owed) if result == "sent" else ev.RequestFailed(first.owed, "late")
    assert not machine.decide(stale).changes
    assert machine.owed_kinds(execution_id) == [OwedKind.SEND]
    assert machine.interaction(execution_id, 1).status is InteractionStatus.WAITING


@pytest.mark.parametrize("end", ["timeout", "cancel"])
def test_an_interaction_that_ends_owes_no_dispatch_any_more(end):
    machine = Machine(pipeline("Sws", on_item_timeout=OnItemTimeout.REJECT_ITEM))
    execution_id = machine.stream(1, ended=True)
    if end == "timeout":
        machine.now_ms += 60_001
        machine.decide(ev.DeadlinesReached(10))
    else:
        machine.decide(ev.InteractionCancelled(machine.interaction(execution_id, 1, 0).interaction_id, "no"))
    assert machine.execution(execution_id).status is ExecutionStatus.SUCCEEDED
    assert machine.owed(execution_id) == []


def test_a_scalar_dispatch_that_fails_for_good_fails_the_execution():
    machine = Machine(pipeline("w"))
    execution_id = machine.submit({"n": 1})
    (effect,) = machine.take(fx.SendOwed)
    machine.decide(ev.RequestFailed(effect.owed, "HTTP 500"))
    execution = machine.execution(execution_id)
    assert (execution.status, execution.error_code) == (ExecutionStatus.FAILED, "DISPATCH_FAILED")
    assert machine.interaction(execution_id, 0).status is InteractionStatus.FAILED
    assert machine.owed(execution_id) == []


def test_an_item_whose_dispatch_fails_ends_by_the_policy_for_failing_items():
    """Contract 0.9: onItemTimeout is for answers that do not come, onItemFailure for work that does not succeed."""
    machine = Machine(pipeline("Qs".replace("Q", "Sq"), on_item_failure=OnItemFailure.REJECT_ITEM))
    execution_id = machine.stream(2, ended=True)
    first, second = machine.take(fx.SendOwed)
    machine.decide(ev.RequestFailed(first.owed, "HTTP 500"))
    machine.decide(ev.RequestSent(second.owed))
    machine.answer(machine.interaction(execution_id, 1, 1))
    machine.run_segments()
    execution = machine.execution(execution_id)
    assert execution.status is ExecutionStatus.SUCCEEDED
    assert [reject.reason for reject in machine.rejects(execution_id)] == ["DISPATCH_FAILED: HTTP 500"]
    assert machine.slots_held == 0


def test_a_failed_dispatch_lets_what_is_open_finish_before_the_execution_fails():
    machine = Machine(pipeline("Sws", on_item_timeout=OnItemTimeout.REJECT_ITEM))
    execution_id = machine.stream(2)
    first, _ = machine.take(fx.SendOwed)
    machine.decide(ev.RequestFailed(first.owed, "HTTP 500"))
    assert machine.execution(execution_id).status is ExecutionStatus.WAITING_EXTERNAL
    machine.answer(machine.interaction(execution_id, 1, 1))
    machine.run_segments()
    execution = machine.execution(execution_id)
    assert (execution.status, execution.error_code) == (ExecutionStatus.FAILED, "DISPATCH_FAILED")
    assert machine.outputs(execution_id) == {0: [], 1: [{"out": 1}]}


def test_a_request_too_large_fails_before_the_commit():
    machine = Machine(pipeline("k", max_payload_bytes=64, budget_enabled=False))
    execution_id = machine.submit({"n": "x" * 64})
    execution = machine.execution(execution_id)
    assert (execution.status, execution.error_code) == (ExecutionStatus.FAILED, "PAYLOAD_TOO_LARGE")
    assert machine.take(fx.SendRequest) == []


def test_an_output_too_large_fails_before_the_commit():
    machine = Machine(pipeline("s", max_payload_bytes=64))
    execution_id = machine.submit({"n": 1})
    machine.run_segments({"n": "x" * 64})
    execution = machine.execution(execution_id)
    assert (execution.status, execution.error_code) == (ExecutionStatus.FAILED, "PAYLOAD_TOO_LARGE")


@pytest.mark.parametrize("bad", ["\ud800", 2**70, object()], ids=["surrogate", "long", "object"])
def test_an_output_that_no_row_can_hold_fails_its_execution_and_nothing_else(bad):
    machine = Machine(pipeline("s"))
    execution_id = machine.submit({"n": 1})
    machine.run_segments({"n": bad})
    execution = machine.execution(execution_id)
    assert (execution.status, execution.error_code) == (ExecutionStatus.FAILED, "INVALID_PAYLOAD")


def test_output_that_is_nested_too_deep_for_a_row_fails_its_execution():
    deep: object = 1
    for _ in range(253):
        deep = [deep]
    machine = Machine(pipeline("s"))
    execution_id = machine.submit({"n": 1})
    machine.run_segments(deep)
    assert machine.execution(execution_id).error_code == "INVALID_PAYLOAD"


def test_a_deadline_starts_with_the_slot():
    machine = Machine(pipeline("k"))
    execution_id = machine.submit({"n": 1})
    assert machine.deadlines() == 0
    machine.now_ms += 1_000_000
    machine.grant_slots()
    assert machine.interaction(execution_id, 0).deadline_epoch_ms == machine.now_ms + 60_000


def test_a_slot_for_an_execution_that_has_ended_goes_back_once():
    machine = Machine(pipeline("k"))
    execution_id = machine.submit({"n": 1})
    machine.decide(ev.ExecutionCancelled(execution_id, "no"))
    machine.grant_slots()
    assert machine.slots_held == 0


def test_a_slot_whose_item_cannot_be_dispatched_goes_back_once():
    machine = Machine(pipeline("k", idempotency_fields=("missing",)))
    execution_id = machine.submit({"n": 1})
    machine.grant_slots()
    assert machine.execution(execution_id).error_code == "INVALID_PAYLOAD"
    assert machine.slots_held == 0
    assert machine.owed(execution_id) == []


def test_an_assignee_is_a_field_of_the_payload_or_the_word_itself():
    machine = Machine(pipeline("i", assignee="manager", group="duty"))
    named = machine.submit({"manager": 7, "n": 1})
    plain = machine.submit({"n": 1}, key="key-2")
    empty = machine.submit({"manager": None}, key="key-3")
    rows = [machine.interaction(execution_id, 0) for execution_id in (named, plain, empty)]
    assert [(row.assignee, row.group) for row in rows] == [("7", "duty"), ("manager", "duty"), (None, "duty")]


@pytest.mark.parametrize("metadata", [{"x": "x" * 300_000}, {"x": object()}, {"x": 2**70}])
def test_what_a_transport_tells_is_kept_only_where_a_row_can_hold_it(metadata):
    machine = Machine(pipeline("w"))
    execution_id = machine.submit({"n": 1})
    (effect,) = machine.take(fx.SendOwed)
    machine.decide(ev.RequestSent(effect.owed, metadata))
    row = machine.interaction(execution_id, 0)
    assert (row.status, row.transport_metadata) == (InteractionStatus.DISPATCHED, {"adapter": "webhook"})


def test_an_input_that_no_row_may_hold_fails_its_execution():
    machine = Machine(pipeline("s", max_aggregate_bytes=100))
    execution = machine.execution(machine.submit({"n": "x" * 100}))
    assert (execution.status, execution.error_code, execution.input_payload) == (
        ExecutionStatus.FAILED,
        "PAYLOAD_TOO_LARGE",
        None,
    )

"""Retries of whole segments of scalar executions, and what is told when they end (contract 0.9, section 14)."""

from __future__ import annotations

import pytest

from tests.unit.core.machine import START_MS, TIMEOUT_MS, Machine, pipeline
from tpf_streams.core import effects as fx
from tpf_streams.core import events as ev
from tpf_streams.core.execution import ExecutionRecord, ExecutionStatus, OwedKind
from tpf_streams.core.interaction import InteractionStatus
from tpf_streams.core.retry import DELAY_MAX_MS, delay_ms
from tpf_streams.core.step import Limits, OnItemFailure, OnItemTimeout
from tpf_streams.core.unit import UnitStatus

E = ExecutionStatus


def fail(machine: Machine, *, retryable: bool = True) -> None:
    (effect,) = machine.take(fx.RunSegment)
    machine.decide(ev.SegmentFailed(effect.owed, "Down", "the desk is down", "trace", retryable))


def due(machine: Machine, execution: ExecutionRecord) -> None:
    assert execution.next_due_epoch_ms is not None
    machine.now_ms = execution.next_due_epoch_ms
    machine.decide(ev.RetriesDue(100))


def test_a_segment_that_fails_waits_longer_each_time_and_then_runs_on_the_same_input():
    machine = Machine(pipeline("s", retry_delay_ms=1_000, retry_multiplier=3.0))
    execution_id = machine.submit({"n": 1})
    waits = []
    for retry in (1, 2, 3):
        fail(machine)
        execution = machine.execution(execution_id)
        assert (execution.status, execution.retries, execution.attempt) == (E.WAIT_RETRY, retry, retry)
        assert (execution.error_code, execution.error_message, execution.error_detail) == (
            "Down",
            "the desk is down",
            "trace",
        )
        waits.append((execution.next_due_epoch_ms or 0) - machine.now_ms)
        due(machine, execution)
        (effect,) = [it for it in machine.effects if isinstance(it, fx.RunSegment)]
        assert (effect.value, effect.converted) == ({"n": 1}, False)
    assert waits == [1_000, 3_000, 9_000]
    machine.run_segments()
    execution = machine.execution(execution_id)
    assert (execution.status, execution.error_code, execution.next_due_epoch_ms) == (E.SUCCEEDED, None, None)
    assert machine.state.first_retry_ms() is None
    assert machine.owed(execution_id) == []


def test_not_before_its_time_and_once():
    machine = Machine(pipeline("s"))
    execution_id = machine.submit({"n": 1})
    fail(machine)
    machine.now_ms += 9_999
    assert not machine.decide(ev.RetriesDue(100)).changes
    machine.now_ms += 1
    machine.reopen()
    machine.decide(ev.RetriesDue(100))
    assert machine.execution(execution_id).status is E.RUNNING
    assert not machine.decide(ev.RetriesDue(100)).changes
    assert len(machine.take(fx.RunSegment)) == 1


def test_many_that_are_due_together_are_taken_up_in_bounded_turns():
    machine = Machine(pipeline("s"))
    for key in range(7):
        machine.submit({"n": key}, f"key-{key}")
    for effect in machine.take(fx.RunSegment):
        machine.decide(ev.SegmentFailed(effect.owed, "Down", "down", "", retryable=True))
    machine.now_ms += 10_000
    started = []
    while machine.state.first_retry_ms() is not None:
        machine.decide(ev.RetriesDue(3))
        started.append(len(machine.take(fx.RunSegment)))
    assert started == [3, 3, 1]


@pytest.mark.parametrize(
    ("retryable", "reason", "retries"), [(True, "retry_exhausted", 2), (False, "non_retryable", 0)]
)
def test_when_it_ends_a_dead_letter_says_why(retryable, reason, retries):
    machine = Machine(pipeline("ss", max_retries=2))
    execution_id = machine.submit({"n": 1}, "order-7")
    while machine.execution(execution_id).status is not E.FAILED:
        fail(machine, retryable=retryable)
        execution = machine.execution(execution_id)
        if execution.status is E.WAIT_RETRY:
            due(machine, execution)
    (letter,) = machine.take(fx.DeadLetterExecution)
    assert (letter.execution_id, letter.reason) == (execution_id, reason)
    assert letter.envelope == {
        "tenantId": "tenant-1",
        "executionId": execution_id,
        "executionKey": "order-7",
        "correlationId": "order-7",
        "transitionKey": f"{execution_id}:0:{retries}",
        "resourceType": "tpf.orchestrator.execution",
        "resourceName": "OrchestratorService/Run",
        "transport": "LOCAL",
        "platform": "COMPUTE",
        "terminalStatus": "FAILED",
        "terminalReason": reason,
        "errorCode": "Down",
        "errorMessage": "the desk is down",
        "retryable": retryable,
        "retriesObserved": retries,
        "createdAtEpochMs": machine.now_ms,
        "errorDetail": "trace",
    }


def test_max_retries_0_fails_at_once():
    machine = Machine(pipeline("s", max_retries=0))
    execution_id = machine.submit({"n": 1})
    fail(machine)
    assert machine.execution(execution_id).status is E.FAILED


def test_a_retry_behind_an_await_keeps_its_unit_and_runs_on_its_answer():
    """T93."""
    machine = Machine(pipeline("is"))
    execution_id = machine.submit({"n": 1})
    row = machine.interaction(execution_id, 0)
    machine.answer(row, {"yes": 1})
    fail(machine)
    execution = machine.execution(execution_id)
    assert (execution.status, execution.await_unit_id) == (E.WAIT_RETRY, row.unit_id)
    machine.reopen()
    due(machine, execution)
    (effect,) = machine.take(fx.RunSegment)
    assert (effect.owed.step_index, effect.value) == (1, {"yes": 1})


def test_each_segment_has_retries_of_its_own():
    machine = Machine(pipeline("sis", max_retries=1))
    execution_id = machine.submit({"n": 1})
    fail(machine)
    due(machine, machine.execution(execution_id))
    machine.run_segments()
    machine.answer(machine.interaction(execution_id, 1))
    fail(machine)
    execution = machine.execution(execution_id)
    assert (execution.status, execution.retries, execution.attempt) == (E.WAIT_RETRY, 1, 2)


def test_an_execution_that_waits_for_its_retry_can_be_cancelled():
    machine = Machine(pipeline("s"))
    execution_id = machine.submit({"n": 1})
    fail(machine)
    machine.decide(ev.ExecutionCancelled(execution_id, "enough"))
    execution = machine.execution(execution_id)
    assert (execution.status, execution.error_code, execution.next_due_epoch_ms) == (E.FAILED, "CANCELLED", None)
    assert (machine.state.first_retry_ms(), machine.owed(execution_id)) == (None, [])
    assert machine.take(fx.DeadLetterExecution) == []


def test_a_time_out_and_a_failed_continuation_have_no_dead_letter():
    late = Machine(pipeline("k"))
    late.submit({"n": 1})
    late.grant_slots()
    late.now_ms += TIMEOUT_MS + 1
    late.decide(ev.DeadlinesReached(100))
    stream = Machine(pipeline("Sks"))
    execution_id = stream.stream(1, ended=True)
    stream.answer(stream.interaction(execution_id, 1, 0))
    fail(stream)
    assert stream.execution(execution_id).status is E.FAILED
    assert late.take(fx.DeadLetterExecution) == stream.take(fx.DeadLetterExecution) == []


@pytest.mark.parametrize("shape", ["w", "Sqs"])
@pytest.mark.parametrize(("retryable", "reason"), [(True, "retry_exhausted"), (False, "non_retryable")])
def test_a_dispatch_that_fails_fails_unit_and_execution_with_its_reason(shape, retryable, reason):
    machine = Machine(pipeline(shape))
    execution_id = machine.submit({"n": 1}) if shape == "w" else machine.stream(1, ended=True)
    (effect,) = machine.take(fx.SendOwed)
    index = effect.owed.step_index
    machine.decide(ev.RequestFailed(effect.owed, "HTTP 500: no desk", "trace", retryable))
    execution = machine.execution(execution_id)
    assert (execution.status, execution.error_code) == (E.FAILED, "DISPATCH_FAILED")
    assert (execution.error_message, execution.error_detail) == ("HTTP 500: no desk", "trace")
    item = None if shape == "w" else 0
    assert machine.interaction(execution_id, index, item).status is InteractionStatus.FAILED
    unit = machine.unit(execution_id, index)
    assert unit is not None
    assert unit.status is (UnitStatus.FAILED if shape == "w" else UnitStatus.COMPLETED)
    (letter,) = machine.take(fx.DeadLetterExecution)
    assert (letter.reason, letter.envelope["errorDetail"]) == (reason, "trace")


@pytest.mark.parametrize("retryable", [True, False])
def test_a_source_and_a_publishing_that_fail_are_dead_letters(retryable):
    reason = "retry_exhausted" if retryable else "non_retryable"
    early, drained = Machine(pipeline("Sk")), Machine(pipeline("Sk", publishes=True))
    early.decide(ev.SourceFailed(early.submit(), "BROKEN", "broken", "", retryable))
    execution_id = drained.stream(1)
    drained.decide(ev.SourceFailed(execution_id, "BROKEN", "broken", "", retryable))
    drained.answer(drained.interaction(execution_id, 1, 0))
    drained.decide(ev.ObjectPublished(execution_id, "a.out"))
    full = Machine(pipeline("Sk", publishes=True))
    execution_id = full.stream(0, ended=True)
    full.decide(ev.PublishFailed(execution_id, "PUBLISH_FAILED", "full", "", retryable))
    for machine in (early, drained, full):
        (letter,) = machine.take(fx.DeadLetterExecution)
        assert letter.reason == reason


class TestRejects:
    """What the pipeline's policy turns away goes to the item-reject topic too (contract 0.9)."""

    def test_a_late_item(self):
        machine = Machine(pipeline("Sk", on_item_timeout=OnItemTimeout.REJECT_ITEM))
        execution_id = machine.stream(1, ended=True)
        row = machine.interaction(execution_id, 1, 0)
        machine.now_ms += TIMEOUT_MS + 1
        machine.decide(ev.DeadlinesReached(100))
        (reject,) = machine.take(fx.EmitReject)
        assert (reject.key, reject.execution_id) == (row.interaction_id, execution_id)
        assert reject.value == {
            "tenantId": "tenant-1",
            "executionId": execution_id,
            "itemIndex": 0,
            "stepId": "Step1",
            "interactionId": row.interaction_id,
            "code": "AWAIT_TIMEOUT",
            "message": f"Await interaction timed out: {row.interaction_id}",
            "payload": {"n": 0},
        }
        assert machine.execution(execution_id).status is E.SUCCEEDED

    def test_a_step_that_fails(self):
        machine = Machine(pipeline("Sks", on_item_failure=OnItemFailure.REJECT_ITEM))
        execution_id = machine.stream(1, ended=True)
        machine.answer(machine.interaction(execution_id, 1, 0))
        fail(machine)
        (reject,) = machine.take(fx.EmitReject)
        assert (reject.value["code"], reject.value["stepId"], reject.value["payload"]) == ("Down", "Step2", {"n": 0})
        assert machine.execution(execution_id).status is E.SUCCEEDED

    def test_not_what_fails_the_execution(self):
        machine = Machine(pipeline("Sks"))
        execution_id = machine.stream(1, ended=True)
        machine.answer(machine.interaction(execution_id, 1, 0))
        fail(machine)
        assert machine.take(fx.EmitReject) == []
        assert len(machine.rejects(execution_id)) == 1


@pytest.mark.parametrize(
    ("retry", "multiplier", "wait"),
    [(1, 2.0, 10_000), (2, 2.0, 20_000), (9, 2.0, DELAY_MAX_MS), (1_000, 100.0, DELAY_MAX_MS), (5, 1.0, 10_000)],
)
def test_the_wait_grows_and_ends_at_half_an_hour(retry, multiplier, wait):
    assert delay_ms(Limits(retry_multiplier=multiplier), retry) == wait


def test_what_is_owed_for_a_retry_is_its_own_kind():
    """Taken up at an opening as a segment, it would run before its time."""
    machine = Machine(pipeline("s"))
    execution_id = machine.submit({"n": 1})
    fail(machine)
    assert machine.owed_kinds(execution_id) == [OwedKind.RETRY]
    assert machine.state.first_retry_ms() == START_MS + 10_000

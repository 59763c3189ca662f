"""A step or a publisher that hangs while its execution is cancelled and redriven: what it says at last is of an attempt
that is over, and changes nothing (I8)."""

from __future__ import annotations

import pytest

from tests.unit.core.machine import Machine, pipeline
from tpf_streams.core import effects as fx
from tpf_streams.core import events as ev
from tpf_streams.core.execution import ExecutionStatus, OwedKind

E = ExecutionStatus


def hung(shape: str) -> tuple[Machine, str, fx.RunSegment]:
    """A machine whose segment behind the last await was started and has not come back, cancelled and redriven."""
    machine = Machine(pipeline(shape))
    if shape[0] == "S":
        execution_id = machine.stream(1, ended=True)
        machine.answer(machine.interaction(execution_id, 1, 0), {"yes": 1})
    else:
        execution_id = machine.submit({"n": 1})
        if "i" in shape:
            machine.run_segments()
            machine.answer(machine.interaction(execution_id, 1), {"yes": 1})
    machine.go_on()
    (old,) = machine.take(fx.RunSegment)
    machine.decide(ev.ExecutionCancelled(execution_id, "it hangs"))
    assert machine.redrive(execution_id) == "redriven"
    if shape[0] == "S":
        machine.recall(execution_id)
        machine.go_on()
    return machine, execution_id, old


@pytest.mark.parametrize("shape", ["s", "sis", "Sks", "Sis"])
@pytest.mark.parametrize("retryable", [False, True])
def test_a_run_of_an_earlier_attempt_fails(shape, retryable):
    machine, execution_id, old = hung(shape)
    assert not machine.decide(ev.SegmentFailed(old.owed, "Timeout", "hung", "", retryable)).changes
    assert machine.run_segments() == 1
    assert machine.execution(execution_id).status is E.SUCCEEDED


@pytest.mark.parametrize("shape", ["s", "sis", "Sks", "Sis"])
def test_a_run_of_an_earlier_attempt_succeeds(shape):
    machine, execution_id, old = hung(shape)
    assert not machine.decide(ev.SegmentCompleted(old.owed, [{"old": 1}])).changes
    machine.run_segments({"new": 1})
    assert list(machine.outputs(execution_id).values()) == [[{"new": 1}]]


def test_a_redrive_of_a_redrive():
    machine, execution_id, _ = hung("s")
    (second,) = machine.take(fx.RunSegment)
    machine.decide(ev.ExecutionCancelled(execution_id, "it hangs again"))
    assert machine.redrive(execution_id) == "redriven"
    assert not machine.decide(ev.SegmentFailed(second.owed, "Timeout", "hung", "")).changes
    assert machine.run_segments() == 1


def test_it_is_known_after_an_opening_too():
    machine, execution_id, old = hung("s")
    machine.reopen()
    (owed,) = machine.owed(execution_id)
    assert owed != old.owed
    assert owed == machine.take(fx.RunSegment)[0].owed


@pytest.mark.parametrize("failed", [False, True])
def test_a_publisher_of_an_earlier_attempt(failed):
    machine = Machine(pipeline("Sk", publishes=True))
    execution_id = machine.stream(1, ended=True)
    machine.answer(machine.interaction(execution_id, 1, 0), {"yes": 1})
    machine.decide(ev.ExecutionCancelled(execution_id, "the folder hangs"))
    assert machine.redrive(execution_id) == "redriven"
    assert machine.owed_kinds(execution_id) == [OwedKind.PUBLISH]
    old: ev.Event = ev.ObjectPublished(execution_id, "old.out")
    if failed:
        old = ev.PublishFailed(execution_id, "PUBLISH_FAILED", "stale handle", "")
    assert not machine.decide(old).changes
    attempt = machine.execution(execution_id).attempt
    machine.decide(ev.ObjectPublished(execution_id, "new.out", attempt))
    execution = machine.execution(execution_id)
    assert (execution.status, execution.published) == (E.SUCCEEDED, "new.out")

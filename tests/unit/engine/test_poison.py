"""One event that cannot be decided is set aside, its execution fails, and its neighbours go on (contract 0.5)."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
import pytest

from tests.unit.core.machine import TIMEOUT_MS
from tests.unit.engine.shell import Shell
from tpf_streams.core import decide as machine
from tpf_streams.core import events as ev
from tpf_streams.core.execution import ExecutionStatus
from tpf_streams.engine.wire import REASON_HEADER, events_topic
from tpf_streams.errors import PayloadError
from tpf_streams.ports import Record


def finish(value):
    return {"done": value}


def poisoned(monkeypatch, kind: type, when=lambda event: True) -> None:
    """Deciding an event of `kind` raises, as an error of ours would make it."""
    decided = machine._TABLE[kind]

    def raising(draft, event):
        if when(event):
            raise ZeroDivisionError("an error of ours")
        decided(draft, event)

    monkeypatch.setitem(machine._TABLE, kind, raising)


@pytest.mark.parametrize("kind", [ev.CompletionReceived, ev.SegmentCompleted, ev.SlotGranted])
async def test_an_event_whose_decision_raises_fails_its_execution_and_the_neighbours_go_on(monkeypatch, kind):
    shell = await Shell("sks", finish, finish).open()
    bad, good = await shell.submit({"n": 1}, "bad"), await shell.submit({"n": 2}, "good")

    def is_bad(event):
        owed = getattr(event, "owed", None)
        if owed is not None:
            return owed.execution_id == bad and (kind is ev.SlotGranted or owed.step_index == 2)
        return event.envelope.interaction_id == row_of_bad.interaction_id

    if kind is ev.SlotGranted:
        poisoned(monkeypatch, kind, is_bad)
        shell = await Shell("sks", finish, finish).open()
        bad, good = await shell.submit({"n": 1}, "bad"), await shell.submit({"n": 2}, "good")
    else:
        (row_of_bad,) = [it for it in shell.open_interactions() if it.execution_id == bad]
        poisoned(monkeypatch, kind, is_bad)
    for row in shell.open_interactions():
        await shell.answer(row)
    await shell.settle()

    failed = shell.execution(bad)
    assert (failed.status, failed.error_code) == (ExecutionStatus.FAILED, "INTERNAL_ERROR")
    assert failed.error_message == f"{kind.__name__}: ZeroDivisionError: an error of ours"
    assert "Traceback" in (failed.error_detail or "")
    assert shell.execution(good).status is ExecutionStatus.SUCCEEDED
    letters = [dict(it.headers)[REASON_HEADER] for it in shell.dead_letters()]
    assert letters == [*([b"decision_raised"] if kind is ev.CompletionReceived else []), b"non_retryable"]
    assert (shell.env.budgets.held(1), shell.owed(), shell.open_interactions()) == (0, [], [])
    await shell.task.close()


async def test_a_poisoned_answer_that_names_only_its_correlation_fails_its_execution_too(monkeypatch):
    shell = await Shell("k").open()
    execution_id = await shell.submit({"n": 1})
    (row,) = shell.open_interactions()
    poisoned(monkeypatch, ev.CompletionReceived)
    await shell.answer(row, interactionId=None)
    await shell.settle()
    assert shell.execution(execution_id).error_code == "INTERNAL_ERROR"
    assert len(shell.dead_letters()) == 2
    await shell.task.close()


async def test_one_deadline_that_raises_does_not_hold_up_the_others(monkeypatch):
    shell = await Shell("k", max_concurrency=9).open()
    ids = [await shell.submit({"n": n}, f"key-{n}") for n in range(5)]
    bad = shell.open_interactions()[2]
    ended = machine._TABLE[ev.DeadlinesReached]

    def raising(draft, event):
        ended(draft, event)
        row = draft.interaction(bad.interaction_id)
        if row is not None and row.status.terminal and draft.execution(row.execution_id).error_code == "AWAIT_TIMEOUT":
            raise ZeroDivisionError("an error of ours")

    monkeypatch.setitem(machine._TABLE, ev.DeadlinesReached, raising)
    await shell.pass_time(TIMEOUT_MS + 1)
    codes = {execution_id: shell.execution(execution_id).error_code for execution_id in ids}
    assert codes.pop(bad.execution_id) == "INTERNAL_ERROR"
    assert set(codes.values()) == {"AWAIT_TIMEOUT"}
    assert shell.env.budgets.held(0) == 0
    await shell.task.close()


async def test_an_execution_whose_failing_raises_too_is_failed_by_its_row_alone(monkeypatch):
    """What it has open is closed, and what it owes forgotten: nobody waits for it until the next opening."""
    shell = await Shell("sk", finish).open()
    execution_id = await shell.submit({"n": 1})
    other = await shell.submit({"n": 2}, "other")
    poisoned(monkeypatch, ev.ExecutionCancelled)
    poisoned(monkeypatch, ev.DecisionRaised, lambda event: not event.bare)
    await shell.append((None, orjson.dumps({"executionId": execution_id, "reason": "x"}), CANCEL))
    await shell.settle()
    assert shell.execution(execution_id).error_code == "INTERNAL_ERROR"
    assert shell.execution(other).status is ExecutionStatus.WAITING_EXTERNAL
    reasons = [dict(it.headers)[REASON_HEADER] for it in shell.dead_letters()]
    assert reasons == [b"decision_raised", b"non_retryable"]
    assert [it.execution_id for it in shell.open_interactions()] == [other]
    assert (shell.owed(), shell.env.budgets.held(1)) == ([], 1)
    await shell.task.close()


async def test_a_failing_that_raises_whatever_is_tried_comes_again_later(monkeypatch):
    """Its local event is taken already: forgotten, the execution would wait until somebody opens its partition anew."""
    shell = await Shell("sk", finish).open()
    broken = [True]
    poisoned(monkeypatch, ev.SegmentCompleted, lambda event: broken[0])
    poisoned(monkeypatch, ev.DecisionRaised, lambda event: broken[0])
    execution_id = await shell.submit({"n": 1})
    await shell.pass_time(70_000)
    assert shell.execution(execution_id).status is ExecutionStatus.RUNNING
    broken[0] = False
    await shell.pass_time(31_000)
    assert shell.execution(execution_id).error_code == "INTERNAL_ERROR"
    assert shell.owed() == []
    await shell.task.close()


CANCEL = (("tpf-event", b"cancel-execution"), ("tpf-version", b"1"))


async def test_what_cannot_become_a_record_is_like_a_decision_that_raises():
    class Broken:
        type = "kafka"

        def request_record(self, step, interaction) -> Record | None:
            if interaction.request_payload == {"n": 1}:
                raise PayloadError("no envelope for this")
            return None

        async def send(self, step, interaction) -> Mapping[str, object]:
            return {}

    shell = await Shell("k", transports={"kafka": Broken()}).open()
    bad, good = await shell.submit({"n": 1}, "bad"), await shell.submit({"n": 2}, "good")
    assert shell.execution(bad).error_code == "INTERNAL_ERROR"
    assert shell.execution(good).status is ExecutionStatus.WAITING_EXTERNAL
    assert shell.env.budgets.held(0) == 1
    await shell.task.close()


@pytest.mark.parametrize("value", [None, b"", b"{", b"[]", b"{}"])
async def test_a_record_that_is_no_event_goes_to_the_dead_letters(value):
    shell = await Shell("k").open()
    await shell.log.append([Record(events_topic("pay"), b"k", value, CANCEL, 0)])
    await shell.settle()
    (letter,) = shell.dead_letters()
    assert (letter.key, letter.value) == (b"k", value)
    execution_id = await shell.submit({"n": 1})
    assert shell.execution(execution_id).status is ExecutionStatus.WAITING_EXTERNAL
    await shell.task.close()

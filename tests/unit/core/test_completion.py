"""Answers of a provider that speaks another type: read first, projected once, and only with what was pinned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.core.machine import TIMEOUT_MS, Machine, pipeline, token
from tpf_streams.core import effects as fx
from tpf_streams.core import events as ev
from tpf_streams.core.completion import DIGEST, digest
from tpf_streams.core.interaction import InteractionStatus
from tpf_streams.core.step import COMPLETION_PROJECTOR, COMPLETION_TYPE, Completion, Json
from tpf_streams.errors import PayloadError

REQUEST = {"n": 1}


class Projecting:
    """A completion that counts its calls. `ok` is what the transport type wants, `fail` what the projector cannot."""

    def __init__(self, name: str | None = "steps:decided", transport_type: str = "Verdict") -> None:
        self.projected: list[tuple[Json, Any]] = []
        self.completion = Completion(transport_type, name, self.read, self.project)

    def read(self, payload: Json) -> object:
        if "ok" not in payload:
            raise PayloadError("Failed converting await payload to Verdict: ok: missing")
        return payload["ok"]

    def project(self, request: Json, value: Any) -> tuple[object, Json]:
        self.projected.append((request, value))
        if value == "fail":
            raise ValueError("secret")
        if value == "refuse":
            raise PayloadError("no such output")
        return ("object", value), {"arm": {"request": request, "value": value}}


def waiting(projecting: Projecting, shape: str = "is", **options: Any) -> tuple[Machine, str]:
    machine = Machine(pipeline(shape, completion=projecting.completion, arms=("arm",), **options))
    return machine, machine.submit(REQUEST)


def later_release(machine: Machine, completion: Completion | None, **options: Any) -> Machine:
    return Machine(pipeline("is", completion=completion, arms=("arm",), **options), machine.store)


def test_the_row_keeps_what_was_projected_and_a_digest_of_what_came():
    projecting = Projecting()
    machine, execution_id = waiting(projecting)
    row = machine.interaction(execution_id, 0)
    pinned = {COMPLETION_TYPE: "Verdict", COMPLETION_PROJECTOR: "steps:decided"}
    assert row.transport_metadata == pinned
    assert machine.answer(row, {"ok": "yes"}) == "admitted"
    row, kept = machine.interaction(execution_id, 0), {"arm": {"request": REQUEST, "value": "yes"}}
    assert (row.status, row.response_payload) == (InteractionStatus.COMPLETED, kept)
    assert row.transport_metadata == {**pinned, DIGEST: digest({"ok": "yes"})}
    (segment,) = machine.take(fx.RunSegment)
    assert (segment.value, segment.converted, segment.owed.arm) == (("object", "yes"), True, "arm")
    assert projecting.projected == [(REQUEST, "yes")]


def test_a_repeat_is_a_duplicate_though_another_answer_would_project_to_the_same():
    projecting = Projecting()
    machine, execution_id = waiting(projecting)
    row = machine.interaction(execution_id, 0)
    told = [machine.answer(row, it) for it in ({"ok": 1, "note": "a"}, {"note": "a", "ok": 1}, {"ok": 1, "note": "b"})]
    assert told == ["admitted", "duplicate", "conflict"]
    assert machine.answer(row, {"note": "a"}) == "invalid_payload"
    assert len(projecting.projected) == 1, "what is decided is not projected again"


@pytest.mark.parametrize("status", [it for it in InteractionStatus if it is not InteractionStatus.COMPLETED])
@pytest.mark.parametrize("value", ["fail", "refuse"])
def test_a_projection_that_fails_changes_nothing_and_comes_after_what_the_row_says(status, value):
    projecting = Projecting()
    machine, execution_id = waiting(projecting)
    row = replace(machine.interaction(execution_id, 0), status=status)
    machine.put(row, machine.state.keys.interaction(row.interaction_id))
    machine.effects.clear()
    before = dict(machine.store.scan(b"", b"\xff" * 32))
    outcome = machine.answer(row, {"ok": value})
    if status.terminal:
        assert outcome == "terminal"
        return
    assert outcome == "invalid_payload"
    assert dict(machine.store.scan(b"", b"\xff" * 32)) == before
    (letter,) = machine.take(fx.DeadLetter)
    assert letter.message == ("steps:decided raised ValueError" if value == "fail" else "no such output")
    assert machine.answer(row, {"ok": "yes"}) == "admitted"


def test_a_late_answer_is_late_and_not_projected():
    projecting = Projecting()
    machine, execution_id = waiting(projecting)
    row = machine.interaction(execution_id, 0)
    assert machine.answer(row, {"ok": "fail"}, at_ms=machine.now_ms + TIMEOUT_MS + 1) == "late"
    assert machine.interaction(execution_id, 0).status is InteractionStatus.TIMED_OUT
    assert projecting.projected == []


def test_what_was_projected_is_held_against_the_limit_of_a_payload():
    projecting = Projecting()
    machine, execution_id = waiting(projecting, max_payload_bytes=100)
    row = machine.interaction(execution_id, 0)
    assert machine.answer(row, {"ok": "x" * 80}) == "invalid_payload"
    assert "pipeline.max-payload-bytes is 100" in machine.take(fx.DeadLetter)[0].message
    assert machine.answer(row, {"ok": "x" * 50}) == "admitted"


@pytest.mark.parametrize(
    ("completion", "options", "told"),
    [
        (Projecting("steps:other").completion, {}, "now has T1 from Verdict by steps:other"),
        (Projecting(None).completion, {}, "now has T1 from Verdict: run"),
        (Projecting(transport_type="Other").completion, {}, "now has T1 from Other by steps:decided"),
        (None, {"convert": lambda payload: payload}, "now has T1: run"),
    ],
)
def test_what_was_pinned_must_match_at_admission(completion, options, told):
    machine, execution_id = waiting(Projecting())
    row = machine.interaction(execution_id, 0)
    other = later_release(machine, completion, **options)
    assert other.answer(row, {"ok": "yes"}) == "invalid_payload"
    message = other.take(fx.DeadLetter)[0].message
    assert "Step0 was asked with output type T1 from Verdict by steps:decided" in message and told in message
    assert other.interaction(execution_id, 0) == row
    assert later_release(machine, Projecting().completion).answer(row, {"ok": "yes"}) == "admitted"


def test_a_projector_that_is_new_takes_no_answers_to_older_requests():
    plain = Machine(pipeline("is"))
    execution_id = plain.submit(REQUEST)
    row = plain.interaction(execution_id, 0)
    assert row.transport_metadata == {}
    assert later_release(plain, Projecting().completion).answer(row, {"ok": "yes"}) == "invalid_payload"
    assert Machine(pipeline("is"), plain.store).answer(row, {"ok": "yes"}) == "admitted"


def test_the_output_type_must_match_too():
    machine = Machine(pipeline("is"))
    row = machine.interaction(machine.submit(REQUEST), 0)
    machine.put(replace(row, output_type="Old"), machine.state.keys.interaction(row.interaction_id))
    assert machine.answer(row) == "invalid_payload"
    assert "Step0 was asked with output type Old and now has T1" in machine.take(fx.DeadLetter)[0].message


def test_a_transport_cannot_take_back_what_is_pinned():
    machine, execution_id = waiting(Projecting(), "ws")
    (send,) = machine.take(fx.SendOwed)
    machine.decide(ev.RequestSent(send.owed, {"adapter": "test", COMPLETION_PROJECTOR: "its:own", "statusCode": 202}))
    row = machine.interaction(execution_id, 0)
    assert row.transport_metadata == {
        "adapter": "test", "statusCode": 202, COMPLETION_TYPE: "Verdict", COMPLETION_PROJECTOR: "steps:decided",
    }  # fmt: skip
    assert machine.answer(row, {"ok": "yes"}) == "admitted"


def test_an_answer_before_its_row_is_projected_when_the_row_is_there():
    projecting = Projecting()
    first, execution_id = waiting(projecting)
    row = first.interaction(execution_id, 0)
    machine = Machine(pipeline("is", completion=projecting.completion, arms=("arm",)))
    machine.now_ms = first.now_ms
    envelope = machine.envelope(row, {"ok": "yes"}, resume_token=token(row))
    assert machine.complete(envelope) == "held"
    assert projecting.projected == []
    assert machine.submit(REQUEST) == execution_id
    assert machine.interaction(execution_id, 0).status is InteractionStatus.COMPLETED
    assert projecting.projected == [(REQUEST, "yes")]


def test_recovery_reads_the_output_and_projects_nothing():
    projecting = Projecting()
    machine, execution_id = waiting(projecting, "iss")
    machine.answer(machine.interaction(execution_id, 0), {"ok": "yes"})
    machine.reopen()
    (owed,) = machine.owed(execution_id)
    assert owed.interaction_id is not None
    row = machine.interaction(execution_id, 0)
    assert row.response_payload == {"arm": {"request": REQUEST, "value": "yes"}}
    assert len(projecting.projected) == 1


def test_a_request_that_the_transport_type_cannot_hold_creates_no_interaction():
    def refuse(request: Json) -> Json:
        raise PayloadError("Failed to normalize await payload from T0: too much")

    machine = Machine(pipeline("is", to_transport=refuse))
    execution = machine.execution(machine.submit(REQUEST))
    assert (execution.status, execution.error_code) == ("FAILED", "INVALID_PAYLOAD")
    assert machine.find(execution.execution_id, 0) is None


def test_a_request_that_is_too_large_only_on_the_wire_fails_too():
    machine = Machine(pipeline("is", to_transport=lambda request: {"x": "y" * 2_000}, max_payload_bytes=1_000))
    assert machine.execution(machine.submit(REQUEST)).error_code == "PAYLOAD_TOO_LARGE"

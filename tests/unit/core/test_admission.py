"""A completion has one outcome, and the first reason that holds is the one it is told (contract 0.4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import orjson
import pytest

from tests.unit.core.machine import Machine, pipeline, token
from tpf_streams.core import effects as fx
from tpf_streams.core.envelope import EnvelopeRefusedError, parse_completion
from tpf_streams.core.interaction import InteractionRecord, InteractionStatus
from tpf_streams.core.step import Json
from tpf_streams.errors import PayloadError

UNKNOWN_ID = "00000000-0000-8000-8000-000000000000"


def convert(payload: Json) -> object:
    if "bad" in payload:
        raise PayloadError("bad is not allowed")
    return payload


class Case:
    """A completion of item 0 of a stream with two open items; conditions change it, or the row."""

    def __init__(self, **options: Any) -> None:
        options = {"idempotency_fields": (), "convert": convert, "max_payload_bytes": 2_000, **options}
        self.machine = Machine(pipeline("Sks", **options))
        self.execution_id = self.machine.stream(2)
        self.row, self.other = (self.machine.interaction(self.execution_id, 1, item) for item in (0, 1))
        self.at_ms = self.machine.now_ms
        self.fields: dict[str, Any] = {
            "tenantId": self.row.tenant_id,
            "interactionId": self.row.interaction_id,
            "correlationId": self.row.correlation_id,
            "resumeToken": token(self.row),
            "responsePayload": {"ok": True},
        }

    def outcome(self) -> str:
        try:
            envelope = parse_completion(orjson.dumps(self.fields), max_bytes=2_000)
        except EnvelopeRefusedError as error:
            return error.outcome
        return self.machine.complete(envelope, at_ms=self.at_ms)

    def status(self, status: InteractionStatus, payload: Json = None) -> None:
        """The row as an earlier event left it."""
        machine, row = self.machine, self.row
        row = replace(row, status=status, response_payload=payload)
        machine.put(row, machine.state.keys.interaction(row.interaction_id))
        machine.put(None, machine.state.keys.deadline(row.deadline_epoch_ms, row.interaction_id))

    @property
    def now(self) -> InteractionRecord:
        return self.machine.interaction(self.execution_id, 1, 0)


def payload_too_large(case: Case) -> None:
    case.fields["responsePayload"] = {**case.fields["responsePayload"], "big": "x" * 2_000}


def invalid_envelope(case: Case) -> None:
    case.fields["tenantId"] = " "


def not_found(case: Case) -> None:
    case.fields["interactionId"] = case.fields["correlationId"] = UNKNOWN_ID


def tenant_mismatch(case: Case) -> None:
    case.fields["tenantId"] = case.fields["tenantId"] and "tenant-2" if case.fields["tenantId"].strip() else " "


def identity_mismatch(case: Case) -> None:
    case.fields["correlationId"] = case.other.correlation_id


def resume_token_rejected(case: Case) -> None:
    case.fields["resumeToken"] = token(case.other)


def invalid_payload(case: Case) -> None:
    case.fields["responsePayload"] = {**case.fields["responsePayload"], "bad": 1}


def completed_with_another(case: Case) -> None:
    case.status(InteractionStatus.COMPLETED, {"ok": False})


def completed_with_the_same(case: Case) -> None:
    case.status(InteractionStatus.COMPLETED, case.fields["responsePayload"])


def cancelled(case: Case) -> None:
    case.status(InteractionStatus.CANCELLED)


def failed(case: Case) -> None:
    case.status(InteractionStatus.FAILED)


def late(case: Case) -> None:
    case.at_ms = case.row.deadline_epoch_ms + 1


def timed_out(case: Case) -> None:
    case.status(InteractionStatus.TIMED_OUT)


Condition = Callable[[Case], None]
IN_ORDER: list[tuple[Condition, str]] = [
    (payload_too_large, "payload_too_large"),
    (invalid_envelope, "invalid_envelope"),
    (not_found, "not_found"),
    (tenant_mismatch, "tenant_mismatch"),
    (identity_mismatch, "identity_mismatch"),
    (resume_token_rejected, "resume_token_rejected"),
    (invalid_payload, "invalid_payload"),
    (completed_with_the_same, "duplicate"),
    (completed_with_another, "conflict"),
    (cancelled, "terminal"),
    (failed, "terminal"),
    (late, "late"),
    (timed_out, "terminal"),
]
STATUSES = {completed_with_the_same, completed_with_another, cancelled, failed, timed_out}
EXCLUSIVE = [STATUSES, {not_found, identity_mismatch}]


def together(first: Condition, second: Condition) -> bool:
    return not any({first, second} <= group for group in EXCLUSIVE)


PAIRS = [(a, b) for a, b in combinations(IN_ORDER, 2) if together(a[0], b[0])]


def test_nothing_against_it():
    case = Case()
    assert case.outcome() == "admitted"
    assert case.now.status is InteractionStatus.COMPLETED
    assert (case.now.response_payload, case.now.actor) == ({"ok": True}, None)


@pytest.mark.parametrize(("condition", "outcome"), IN_ORDER, ids=[it[0].__name__ for it in IN_ORDER])
def test_each_reason_alone(condition, outcome):
    case = Case()
    condition(case)
    assert case.outcome() == outcome


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=[f"{a[0].__name__}-{b[0].__name__}" for a, b in PAIRS])
def test_of_two_reasons_the_earlier_one_wins(first, second):
    case = Case()
    second[0](case)
    first[0](case)
    assert case.outcome() == first[1]


@pytest.mark.parametrize(("condition", "outcome"), IN_ORDER[2:], ids=[it[0].__name__ for it in IN_ORDER[2:]])
def test_a_refusal_leaves_the_row_and_is_counted(condition, outcome):
    case = Case()
    condition(case)
    before = case.now
    assert case.outcome() == outcome
    if condition is late:
        assert case.now.status is InteractionStatus.TIMED_OUT
    else:
        assert case.now == before
    dropped = case.machine.facts["completion.dropped.total"]
    assert dropped == (0 if outcome == "duplicate" else 1)
    assert case.machine.facts["completion.duplicate.total"] == (1 if outcome == "duplicate" else 0)
    assert case.machine.facts["completion.admitted.total"] == 0
    letters = case.machine.take(fx.DeadLetter)
    assert [it.reason for it in letters] == (["invalid_payload"] if outcome == "invalid_payload" else [])


def test_a_payload_too_large_for_a_row_goes_to_the_dead_letters():
    case = Case()
    envelope = case.machine.envelope(case.row, {"big": "x" * 2_000})
    assert case.machine.complete(envelope, raw=b"as it came") == "payload_too_large"
    (letter,) = case.machine.take(fx.DeadLetter)
    assert (letter.reason, letter.origin, letter.value) == ("payload_too_large", "t/0/1", b"as it came")


@pytest.mark.parametrize(("after_ms", "outcome"), [(0, "admitted"), (1, "late")])
def test_arriving_at_the_deadline_itself_is_in_time(after_ms, outcome):
    case = Case()
    case.machine.now_ms = case.row.deadline_epoch_ms + 10_000
    case.at_ms = case.row.deadline_epoch_ms + after_ms
    assert case.outcome() == outcome


def test_a_late_answer_tells_row_unit_and_parent_at_once():
    case = Case()
    late(case)
    assert case.outcome() == "late"
    machine = case.machine
    execution, unit = machine.execution(case.execution_id), machine.unit(case.execution_id, 1)
    assert unit is not None
    assert (case.now.status, unit.status, execution.status) == ("TIMED_OUT", "TIMED_OUT", "FAILED")
    assert (execution.error_code, execution.error_message) == (
        "AWAIT_TIMEOUT",
        f"Await interaction timed out: {case.row.interaction_id}",
    )
    assert machine.interaction(case.execution_id, 1, 1).status is InteractionStatus.CANCELLED
    assert machine.take(fx.StopSource) != []
    assert (machine.slots_held, machine.deadlines()) == (0, 0)
    assert case.outcome() == "late"


@pytest.mark.parametrize("payload", [{"a": 1, "b": {"c": [1, 2]}}, {"b": {"c": [1, 2]}, "a": 1}])
def test_the_order_of_keys_and_who_sent_it_make_no_other_payload(payload):
    case = Case()
    case.fields["responsePayload"] = {"b": {"c": [1, 2]}, "a": 1}
    assert case.outcome() == "admitted"
    case.fields.update(responsePayload=payload, actor="another", idempotencyKey="another")
    assert case.outcome() == "duplicate"
    assert case.machine.facts["completion.admitted.total"] == 1


@pytest.mark.parametrize("payload", [{"n": 12.5}, {"n": "12.50"}, {"n": [1, 2]}, {"n": None}, {}])
def test_another_payload_is_a_conflict_and_the_first_is_kept(payload):
    case = Case()
    case.fields["responsePayload"] = {"n": "12.5" if payload != {"n": 12.5} else 12.6}
    assert case.outcome() == "admitted"
    first = case.now
    case.fields["responsePayload"] = payload
    assert case.outcome() == "conflict"
    assert case.now == first


def test_ids_are_found_in_either_case_and_one_is_enough():
    for names in (("interactionId",), ("correlationId",), ("interactionId", "correlationId")):
        case = Case()
        for name in {"interactionId", "correlationId"} - set(names):
            del case.fields[name]
        for name in names:
            case.fields[name] = case.fields[name].upper()
        assert case.outcome() == "admitted"


@pytest.mark.parametrize("known", ["interactionId", "correlationId"])
@pytest.mark.parametrize("other", [UNKNOWN_ID, "no id of ours"])
def test_every_id_present_must_agree_with_the_one_row(known, other):
    """Contract 0.3: an id beside a known one that names nothing names a different row, too."""
    case = Case()
    unknown = ({"interactionId", "correlationId"} - {known}).pop()
    case.fields[unknown] = other
    assert case.outcome() == "identity_mismatch"
    assert case.now.status is InteractionStatus.DISPATCHED


def test_a_conversion_of_the_users_that_raises_anything_is_the_providers_bad_payload():
    def raising(payload: Json) -> object:
        raise KeyError("a validator with a bug")

    case = Case(convert=raising)
    assert case.outcome() == "invalid_payload"
    assert case.machine.execution(case.execution_id).status == "RUNNING"

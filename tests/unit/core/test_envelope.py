"""Envelopes (contract 1.1, 1.2, 0.4 to 0.7): T01 to T03, what is refused and why, and the idempotency key."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tpf_streams.core.envelope import (
    ENVELOPE_OVERHEAD_BYTES,
    IDEMPOTENCY_KEY_CHARS_MAX,
    CompletionEnvelope,
    EnvelopeReason,
    EnvelopeRefusedError,
    dispatch_envelope,
    idempotency_key,
    parse_completion,
)
from tpf_streams.core.json_policy import JsonReason
from tpf_streams.core.token import TokenSigner
from tpf_streams.errors import EnvelopeError, PayloadError, TokenError

MAX = 256 * 1024
STEP = "ProcessFraudCheckService"


def completion(**changes: object) -> bytes:
    fields: dict[str, object] = {
        "tenantId": "t",
        "interactionId": "i",
        "correlationId": "c",
        "resumeToken": "a.b",
        "idempotencyKey": "k",
        "responsePayload": {"ok": True},
        "actor": "p",
    }
    fields.update(changes)
    return json.dumps({name: value for name, value in fields.items() if value is not ...}).encode()


def refused(data: bytes | None, *, max_bytes: int = MAX, strict: bool = False) -> EnvelopeRefusedError:
    with pytest.raises(EnvelopeError) as caught:
        parse_completion(data, max_bytes=max_bytes, strict=strict)
    assert isinstance(caught.value, EnvelopeRefusedError)
    return caught.value


def test_t01_texts_are_trimmed_and_blank_is_none() -> None:
    data = completion(
        tenantId=" t ", interactionId="\ti\n", correlationId=" ", resumeToken=" ", idempotencyKey="", actor=" p"
    )
    assert parse_completion(data, max_bytes=MAX) == CompletionEnvelope(
        "t", "i", None, None, None, "p", {"ok": True}, ()
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (completion(tenantId=" "), "tenantId must not be blank"),
        (completion(tenantId=...), "tenantId must not be blank"),
        (completion(tenantId=True), "tenantId must be a string"),
        (completion(tenantId=["t"]), "tenantId must be a string"),
        (completion(interactionId={}), "interactionId must be a string"),
        (completion(actor=[]), "actor must be a string"),
        (completion(interactionId=" ", correlationId=None), "interactionId or correlationId must be supplied"),
        (completion(interactionId=..., correlationId=...), "interactionId or correlationId must be supplied"),
        (completion(responsePayload=None), "responsePayload must not be null"),
        (completion(responsePayload=...), "responsePayload must not be null"),
        (b"{}", "tenantId must not be blank"),
    ],
)
def test_t02_wrong_shape(data: bytes, message: str) -> None:
    error = refused(data)
    assert (error.reason, error.outcome, str(error)) == (EnvelopeReason.WRONG_SHAPE, "invalid_envelope", message)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (None, JsonReason.NULL_VALUE),
        (b"", JsonReason.ZERO_LENGTH),
        (b" ", JsonReason.BLANK),
        (b"garbage", JsonReason.NOT_JSON),
        (completion()[:40], JsonReason.NOT_JSON),
        (b"null", EnvelopeReason.NOT_AN_OBJECT),
        (b"42", EnvelopeReason.NOT_AN_OBJECT),
        (b'"text"', EnvelopeReason.NOT_AN_OBJECT),
        (b"[" + completion() + b"]", EnvelopeReason.NOT_AN_OBJECT),
        (completion()[:-1] + b',"tenantId":"other"}', JsonReason.REPEATED_KEY),
        (b"\xef\xbb\xbf" + completion(), JsonReason.BOM),
    ],
)
def test_poison_is_told_apart(data: bytes | None, reason: object) -> None:
    error = refused(data)
    assert (error.reason, error.outcome) == (reason, "invalid_envelope")
    assert str(error)


@pytest.mark.parametrize("payload", [False, 0, "", [], {}, "12.50"])
def test_any_payload_but_null_is_fine(payload: object) -> None:
    assert parse_completion(completion(responsePayload=payload), max_bytes=MAX).response_payload == payload


def test_numeric_ids_become_text() -> None:
    found = parse_completion(completion(tenantId=7, interactionId=12, correlationId=2**70, actor=1), max_bytes=MAX)
    assert (found.tenant_id, found.interaction_id, found.actor) == ("7", "12", "1")
    assert found.correlation_id == str(2**70)


@pytest.mark.parametrize("token", [12345, 1.5, True, {"a": "b.c"}, ["a.b"]])
def test_a_token_of_a_wrong_type_is_refused_as_a_token(token: object) -> None:
    found = parse_completion(completion(resumeToken=token), max_bytes=MAX)
    assert found.resume_token is not None
    with pytest.raises(TokenError):
        TokenSigner(("s",)).verify(found.resume_token)


def test_decimals_stay_as_written() -> None:
    data = b'{"tenantId":"t","interactionId":"i","responsePayload":{"amount":12.50,"big":123456789012345678901.10}}'
    payload = parse_completion(data, max_bytes=MAX).response_payload
    assert payload == {"amount": "12.50", "big": "123456789012345678901.10"}


def test_unknown_fields_are_named_or_refused() -> None:
    data = completion(futureField={"x": 1}, other=2)
    assert parse_completion(data, max_bytes=MAX).unknown_fields == ("futureField", "other")
    assert parse_completion(completion(), max_bytes=MAX, strict=True).unknown_fields == ()
    error = refused(data, strict=True)
    assert (error.reason, str(error)) == (EnvelopeReason.UNKNOWN_FIELD, "unknown field 'futureField'")
    assert len(str(refused(completion(**{"x" * 5000: 1}), strict=True))) < 100


def test_the_payload_has_its_limit_and_the_envelope_its_own() -> None:
    exact = completion(responsePayload="a" * (1000 - 2))
    assert parse_completion(exact, max_bytes=1000).response_payload == "a" * 998
    error = refused(completion(responsePayload="a" * 999), max_bytes=1000)
    assert (error.reason, error.outcome) == (EnvelopeReason.PAYLOAD_TOO_LARGE, "payload_too_large")
    roomy = completion(actor="p" * 60_000)
    assert parse_completion(roomy, max_bytes=1000).actor == "p" * 60_000
    error = refused(completion(actor="p" * (ENVELOPE_OVERHEAD_BYTES + 1000)), max_bytes=1000)
    assert (error.reason, error.outcome) == (JsonReason.TOO_LARGE, "payload_too_large")


def test_the_limit_holds_for_the_normalised_payload() -> None:
    grown = b'{"tenantId":"t","interactionId":"i","responsePayload":[' + b",".join([b"1e63"] * 16) + b"]}"
    assert len(grown) < 1000
    assert refused(grown, max_bytes=1000).outcome == "payload_too_large"


def dispatch(**changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "tenant_id": "t",
        "execution_id": "e",
        "interaction_id": "i",
        "correlation_id": "c",
        "step_id": STEP,
        "deadline_epoch_ms": 20000,
        "input_type": "In",
        "output_type": "Out",
        "resume_token": "a.b",
        "request_payload": {"amount": "12.50"},
        "transport_metadata": {"adapter": "kafka"},
    }
    fields.update(changes)
    return dispatch_envelope(**fields)


def test_dispatch_has_eleven_keys_in_order() -> None:
    assert dispatch() == (
        b'{"tenantId":"t","executionId":"e","interactionId":"i","correlationId":"c","stepId":"ProcessFraudCheckService"'
        b',"deadlineEpochMs":20000,"inputType":"In","outputType":"Out","resumeToken":"a.b"'
        b',"requestPayload":{"amount":"12.50"},"transportMetadata":{"adapter":"kafka"}}'
    )


def test_t03_no_metadata_is_an_empty_object() -> None:
    assert dispatch(transport_metadata=None).endswith(b'"transportMetadata":{}}')
    with pytest.raises(PayloadError):
        dispatch(request_payload={1})
    assert dispatch(request_payload=None).endswith(b'"requestPayload":null,"transportMetadata":{"adapter":"kafka"}}')


def key(fields: tuple[str, ...], payload: object, item: int | None = None, decimals: tuple[str, ...] = ()) -> str:
    return idempotency_key(STEP, fields, payload, item, "exec-1", frozenset(decimals))


def test_the_key_without_fields_names_the_execution() -> None:
    assert key((), {"a": 1}) == f"exec-1:{STEP}"
    assert key((), None, 3) == f"exec-1:{STEP}:item=3"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("o-1", "o-1"),
        ("", ""),
        (None, "<null>"),
        ("<null>", "\\<null>"),
        ("\\<null>", "\\\\<null>"),
        (True, "true"),
        (1000, "1000"),
        (0.1, "0.1"),
        ("12.50", "12.50"),
        ("a:b=c\\d", "a\\:b\\=c\\\\d"),
        ("a\r\nX-Evil: 1\x7f", "a\\x0d\\x0aX-Evil\\: 1\\x7f"),
        ("über", "über"),
        ([], "[]"),
        ({"b": 1, "a": 2}, '{"a"\\:2,"b"\\:1}'),
    ],
)
def test_the_text_of_values(value: object, text: str) -> None:
    assert key(("f",), {"f": value, "g": 1}) == f"{STEP}:f={text}"


DECIMALS = {"12.50": "12.5", "12.5": "12.5", "100.00": "100", "1000": "1000", "0.10": "0.1", "1E+2": "100"}
DECIMALS |= {"1e-2": "0.01", "-0.00": "0", "007.50": "7.5", "-5.10": "-5.1", "1." + "23" * 40 + "0": "1." + "23" * 40}


@pytest.mark.parametrize("value", [*DECIMALS, 1000, None])
def test_declared_decimals_are_plain(value: str | int | None) -> None:
    expected = "<null>" if value is None else DECIMALS[str(value)]
    assert key(("f",), {"f": value}, None, ("f",)) == f"{STEP}:f={expected}"


@pytest.mark.parametrize("value", ["", "abc", "NaN", "Infinity", "+5", "1_000", "\u0661", True, [], {}, "1e99", " 1"])
def test_what_is_no_decimal_is_named(value: object) -> None:
    with pytest.raises(PayloadError):
        key(("amount",), {"amount": value}, None, ("amount",))


@pytest.mark.parametrize("payload", [{}, {"Amount": 1}, [], "amount", None, 5])
def test_a_missing_field_is_named(payload: object) -> None:
    with pytest.raises(PayloadError, match="idempotency field amount is missing"):
        key(("amount",), payload)


def test_keys_of_different_values_never_collide() -> None:
    pairs = [("a:g=b", "c"), ("a", "b:g=c"), ("a", "b"), ("a\\", "b"), ("a\\:g=b", "c"), ("a:item=0", "b")]
    keys = {key(("f", "g"), {"f": f, "g": g}) for f, g in pairs} | {key(("f", "g"), {"f": "a", "g": "b"}, 0)}
    assert len(keys) == len(pairs) + 1


def test_a_key_has_a_limit() -> None:
    room = IDEMPOTENCY_KEY_CHARS_MAX - len(f"{STEP}:f=")
    assert len(key(("f",), {"f": "x" * room})) == IDEMPOTENCY_KEY_CHARS_MAX
    with pytest.raises(PayloadError, match="longer than"):
        key(("f",), {"f": "x" * (room + 1)})

"""Records of the application's own topics: what is written is read again, and nothing else is taken for it."""

from __future__ import annotations

import json

import pytest

from tpf_streams.core.effects import DeadLetterExecution, EmitOutput, EmitReject
from tpf_streams.core.events import (
    ArrivalMarked,
    CompletionReceived,
    ExecutionCancelled,
    ExecutionSubmitted,
    InteractionCancelled,
    LifeEnded,
    RedriveRequested,
    SessionCancelled,
)
from tpf_streams.core.step import Limits, SourceObject
from tpf_streams.engine import wire
from tpf_streams.engine.wire import Origin, WireError, decode_event
from tpf_streams.ports import InputRecord

ENVELOPE = b'{"tenantId": "t", "interactionId": "i-1", "responsePayload": {"ok": true}}'
SOURCE = SourceObject("files", "file", "/in", "a/b.csv", "ab12", "/in/a/b.csv")


def as_input(key, value, headers):
    return InputRecord("app-events", 3, 17, 1_700_000_000_000, key, value, headers)


def read(parts, **options):
    return decode_event(as_input(*parts), Limits(), **options)


@pytest.mark.parametrize(
    "event",
    [
        ExecutionSubmitted("t", "order:1", {"amount": "12.50", "lines": [1, None]}),
        ExecutionSubmitted("t", "object:files:ä", None, SOURCE),
        ExecutionSubmitted("t", "order:1", {"n": 1}, life=2),
        ExecutionSubmitted("t", "order:1", {"n": 1}, gone=2),
        ExecutionSubmitted("t", "order:1", {"n": 1}, life=2, origin="request/1"),
    ],
)
def test_a_submission_is_read_as_it_was_written(event):
    key, value, headers = wire.encode_submission(event)
    assert key == event.execution_key.encode()
    assert headers == (("tpf-event", b"submit"), ("tpf-version", b"1"))
    assert read((key, value, headers)) == event


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (SessionCancelled("e-1"), b"cancel-session"),
        (ExecutionCancelled("e-1", "wrong file", "request/1"), b"cancel-execution"),
        (InteractionCancelled("i-1", "asked twice", "request/2"), b"cancel-interaction"),
    ],
)
def test_a_cancellation_is_read_as_it_was_written(event, kind):
    key, value, headers = wire.encode_cancel(event)
    assert dict(headers)["tpf-event"] == kind
    assert key in (b"e-1", b"i-1")
    assert read((key, value, headers)) == event


def test_a_cancellation_of_an_earlier_version_names_nobody_to_tell():
    value = b'{"executionId":"e-1","reason":"wrong file"}'
    headers = (("tpf-event", b"cancel-execution"), ("tpf-version", b"1"))
    assert read((b"e-1", value, headers)) == ExecutionCancelled("e-1", "wrong file", "")


@pytest.mark.parametrize("version", [None, 7])
def test_a_redrive_is_read_as_it_was_written(version):
    event = RedriveRequested("e-1", version, allow_failed=True, reason="the desk is open", origin="request/3")
    key, value, headers = wire.encode_redrive(event)
    assert (key, dict(headers)["tpf-event"]) == (b"e-1", b"redrive")
    assert read((key, value, headers)) == event


@pytest.mark.parametrize("change", [{"expectedVersion": "7"}, {"allowFailed": 1}, {"expectedVersion": True}])
def test_a_redrive_of_wrong_types_is_refused(change):
    _, value, headers = wire.encode_redrive(RedriveRequested("e-1"))
    with pytest.raises(wire.WireError):
        read((b"e-1", json.dumps({**json.loads(value), **change}).encode(), headers))


def test_letters_and_rejects_say_what_they_are():
    letter = wire.dead_execution_record(DeadLetterExecution("e-1", "retry_exhausted", {"errorCode": "X"}), "letters")
    assert (letter.topic, letter.key, json.loads(letter.value or b"")) == ("letters", b"e-1", {"errorCode": "X"})
    assert dict(letter.headers)["tpf-event"] == b"dead-letter-execution"
    assert dict(letter.headers)["tpf-reason"] == b"retry_exhausted"
    reject = wire.item_reject_record(EmitReject("e-1", "i-1", {"code": "X"}), "rejects")
    assert (reject.topic, reject.key, json.loads(reject.value or b"")) == ("rejects", b"i-1", {"code": "X"})
    assert dict(reject.headers)["tpf-event"] == b"item-reject"


def test_the_end_of_a_life_is_read_as_it_was_written():
    event = LifeEnded("t", "order:1", 3)
    key, value, headers = wire.encode_life_ended(event)
    assert (key, dict(headers)["tpf-event"]) == (b"order:1", b"life-ended")
    assert read((key, value, headers)) == event


@pytest.mark.parametrize("life", [-1, True, "1", 1.0, None])
def test_a_life_is_a_whole_number(life):
    key, value, headers = wire.encode_life_ended(LifeEnded("t", "order:1", 3))
    with pytest.raises(WireError) as error:
        read((key, json.dumps({**json.loads(value), "life": life}).encode(), headers))
    assert error.value.reason == "invalid_event"


def test_a_marker_is_read_as_it_was_written():
    event = ArrivalMarked({"answers/0": 12, "answers/1": 0})
    key, value, headers = wire.encode_marker(event)
    assert key is None
    assert json.loads(value) == {"answers/0": 12, "answers/1": 0}
    assert read((key, value, headers)) == event


def completion(value=ENVELOPE):
    record = wire.completion_record("app-events", 3, "i-1", value, 1_700_000_000_123, "answers/1/42")
    assert (record.topic, record.partition, record.key) == ("app-events", 3, b"i-1")
    return record.key, record.value, record.headers


def test_a_completion_carries_the_original_bytes_its_arrival_and_its_source():
    parts = completion()
    assert parts[1] == ENVELOPE
    assert parts[2][2:] == (("tpf-arrived-at", b"1700000000123"), ("tpf-source", b"answers/1/42"))
    event = read(parts)
    assert isinstance(event, CompletionReceived)
    assert (event.arrived_at_ms, event.origin, event.raw) == (1_700_000_000_123, "answers/1/42", ENVELOPE)
    assert (event.envelope.interaction_id, event.envelope.response_payload) == ("i-1", {"ok": True})


def test_a_completion_that_is_none_says_why():
    with pytest.raises(WireError, match="responsePayload must not be null") as error:
        read(completion(b'{"tenantId": "t", "interactionId": "i-1"}'))
    assert error.value.reason == "wrong shape"


def test_strict_envelopes_refuse_unknown_fields():
    value = ENVELOPE.replace(b"{", b'{"extra": 1, ', 1)
    event = read(completion(value))
    assert isinstance(event, CompletionReceived)
    assert event.envelope.unknown_fields == ("extra",)
    with pytest.raises(WireError, match="unknown field"):
        read(completion(value), strict=True)


def test_the_largest_aggregate_is_taken():
    limits = Limits(max_payload_bytes=100, max_aggregate_bytes=1_000)
    value = json.dumps({"tenantId": "t", "interactionId": "i", "responsePayload": "x" * 900}).encode()
    assert isinstance(decode_event(as_input(*completion(value)), limits), CompletionReceived)
    with pytest.raises(WireError) as error:
        decode_event(as_input(*completion(value)), Limits(max_payload_bytes=800, max_aggregate_bytes=800))
    assert error.value.reason == "payload too large"


SUBMIT = (("tpf-event", b"submit"), ("tpf-version", b"1"))
COMPLETION = (("tpf-event", b"completion"), ("tpf-version", b"1"))


@pytest.mark.parametrize(
    ("value", "headers", "reason"),
    [
        (b"{}", (), "unknown_version"),
        (b"{}", (("tpf-event", b"submit"), ("tpf-version", b"2")), "unknown_version"),
        (b"{}", (("tpf-event", b"party\xff"), ("tpf-version", b"1")), "unknown_event"),
        (None, SUBMIT, "null_value"),
        (b"", SUBMIT, "invalid_event"),
        (b"nope", SUBMIT, "invalid_event"),
        (b"[1]", SUBMIT, "invalid_event"),
        (b"null", SUBMIT, "invalid_event"),
        (b"{}", SUBMIT, "invalid_event"),
        (b'{"tenantId":1,"executionKey":"k","inputPayload":1,"source":null}', SUBMIT, "invalid_event"),
        (b'{"tenantId":"t","executionKey":"k","inputPayload":1,"source":{"a":"b"}}', SUBMIT, "invalid_event"),
        (b'{"tenantId":"t","executionKey":"k","inputPayload":1,"source":[]}', SUBMIT, "invalid_event"),
        (b'{"answers/0":"1"}', (("tpf-event", b"marker"), ("tpf-version", b"1")), "invalid_event"),
        (b'{"answers/0":true}', (("tpf-event", b"marker"), ("tpf-version", b"1")), "invalid_event"),
        (b'{"executionId":1}', (("tpf-event", b"cancel-session"), ("tpf-version", b"1")), "invalid_event"),
        (ENVELOPE, COMPLETION, "invalid_event"),
        (ENVELOPE, (*COMPLETION, ("tpf-arrived-at", b"soon")), "invalid_event"),
        (ENVELOPE, (*COMPLETION, ("tpf-arrived-at", b"1"), ("tpf-source", b"\xff")), "invalid_event"),
        (b"", (*COMPLETION, ("tpf-arrived-at", b"1")), "zero-length value"),
    ],
)
def test_what_is_no_event_raises_one_error(value, headers, reason):
    with pytest.raises(WireError) as error:
        decode_event(as_input(None, value, headers), Limits())
    assert error.value.reason == reason


def test_an_output_record():
    record = wire.output_record(EmitOutput("t", "e-1", 4, "i-1", "PaymentOutput", "approved", {"fee": "1.01"}), "outs")
    assert (record.topic, record.key, record.partition) == ("outs", b"i-1", None)
    assert record.headers == (("tpf-event", b"output"), ("tpf-version", b"1"))
    assert list(json.loads(record.value or b"").items()) == [
        ("tenantId", "t"),
        ("executionId", "e-1"),
        ("itemIndex", 4),
        ("type", "PaymentOutput"),
        ("arm", "approved"),
        ("payload", {"fee": "1.01"}),
    ]


@pytest.mark.parametrize("origin", [Origin("my.answers", 2, 40), "my.answers/2/40"])
def test_a_dead_letter_keeps_the_bytes_and_says_whence_and_why(origin):
    record = wire.dead_letter_record("app-dead-letters", origin, b"k", b"\x00garbage", "not JSON", "line 1")
    assert (record.topic, record.key, record.value) == ("app-dead-letters", b"k", b"\x00garbage")
    assert dict(record.headers) == {
        "tpf-event": b"dead-letter",
        "tpf-version": b"1",
        "tpf-source": b"my.answers/2/40",
        "tpf-source-topic": b"my.answers",
        "tpf-source-partition": b"2",
        "tpf-source-offset": b"40",
        "tpf-reason": b"not JSON",
        "tpf-message": b"line 1",
    }


def test_a_dead_letter_from_elsewhere_has_no_place_in_a_topic():
    headers = dict(wire.dead_letter_record("d", "http", None, b"x", "invalid_payload", "").headers)
    assert headers["tpf-source"] == b"http"
    assert not {"tpf-source-topic", "tpf-message"} & headers.keys()


def test_null_and_zero_length_stay_different():
    assert wire.dead_letter_record("d", "a/0/1", None, None, "null value", "").value is None
    assert wire.dead_letter_record("d", "a/0/1", None, b"", "zero-length value", "").value == b""


def test_a_dead_letter_fits_where_it_goes():
    value = bytes(wire.DEAD_LETTER_BYTES + 1)
    record = wire.dead_letter_record("d", "a/0/1", bytes(100_000), value, "too large", "é" * 5_000)
    size = (
        len(record.key or b"") + len(record.value or b"") + sum(len(name) + len(text) for name, text in record.headers)
    )
    assert size < 4 * 1024 * 1024
    headers = dict(record.headers)
    assert headers["tpf-original-bytes"] == b"%d" % len(value)
    assert headers["tpf-message"].decode() == "é" * 1_024


@pytest.mark.parametrize("text", ["http", "a/b", "a/0/x", "a/-1/0", "a/0/1/2", "a/²/1"])
def test_an_origin_that_is_no_place(text):
    assert Origin.parse(text) is None


def test_names_of_topics():
    names = [wire.events_topic, wire.dead_letters_topic]
    assert [name("pay") for name in names] == ["pay-events", "pay-dead-letters"]

"""The one JSON policy (contract 0.6): what is refused and why, and what becomes of numbers."""

from __future__ import annotations

import enum
import json
import time
from decimal import Decimal

import pytest

from tpf_streams.core.json_policy import (
    DEPTH_MAX,
    DIGITS_MAX,
    JsonReason,
    JsonRefusedError,
    canonical,
    dumps,
    normalise,
    parse_json,
    plain_decimal,
)
from tpf_streams.errors import JsonPolicyError, PayloadError

MAX = 256 * 1024


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (None, JsonReason.NULL_VALUE),
        (b"", JsonReason.ZERO_LENGTH),
        (b" \t\r\n", JsonReason.BLANK),
        (b"\xef\xbb\xbf{}", JsonReason.BOM),
        (b'"\xff"', JsonReason.NOT_UTF8),
        (b'"\xc0\x80"', JsonReason.NOT_UTF8),
        (b'"\xed\xa0\x80"', JsonReason.NOT_UTF8),
        ("{}".encode("utf-16-le"), JsonReason.NOT_JSON),
        (b"\x00{}", JsonReason.NOT_JSON),
        (b"this line is not JSON", JsonReason.NOT_JSON),
        (b'{"a":1', JsonReason.NOT_JSON),
        (b"{} {}", JsonReason.NOT_JSON),
        (b"{'a':1}", JsonReason.NOT_JSON),
        (b"[1,]", JsonReason.NOT_JSON),
        (b"01", JsonReason.NOT_JSON),
        (b".5", JsonReason.NOT_JSON),
        (b"1.", JsonReason.NOT_JSON),
        (b"0x10", JsonReason.NOT_JSON),
        ("\u0661".encode(), JsonReason.NOT_JSON),
        (b'"a\nb"', JsonReason.NOT_JSON),
        (b'{"a":1,"a":1}', JsonReason.REPEATED_KEY),
        (b'[{"x":{"a":1,"b":2,"\\u0061":3}}]', JsonReason.REPEATED_KEY),
        (b"NaN", JsonReason.NOT_A_NUMBER),
        (b'{"a":[Infinity]}', JsonReason.NOT_A_NUMBER),
        (b"-Infinity", JsonReason.NOT_A_NUMBER),
        (b"1e999", JsonReason.NUMBER_RANGE),
        (b"-1E+64", JsonReason.NUMBER_RANGE),
        (b"1e-65", JsonReason.NUMBER_RANGE),
        (b"0e999", JsonReason.NUMBER_RANGE),
        (b"1e99999999999999999999", JsonReason.NUMBER_RANGE),
        (b'"\\ud800"', JsonReason.LONE_SURROGATE),
        (b'{"\\uDC00":1}', JsonReason.LONE_SURROGATE),
        (b'"\\ude00\\ud83d"', JsonReason.LONE_SURROGATE),
        (b"[" * 65 + b"]" * 65, JsonReason.TOO_DEEP),
        (b'{"a":' * 65 + b"1" + b"}" * 65, JsonReason.TOO_DEEP),
        (b"[" * 200, JsonReason.TOO_DEEP),
    ],
)
def test_refuses_and_says_why(data: bytes | None, reason: JsonReason) -> None:
    with pytest.raises(JsonPolicyError) as caught:
        parse_json(data, MAX)
    assert isinstance(caught.value, JsonRefusedError)
    assert caught.value.reason is reason
    assert str(caught.value) == reason.value


SOUND: dict[bytes, object] = {
    b"null": None,
    b" true ": True,
    b'"\\ud83d\\ude00"': "\U0001f600",
    b'"\\\\ud800"': "\\ud800",
    b'{"a":{"a":{"a":1}}}': {"a": {"a": {"a": 1}}},
    b'{"":0,"A":1,"a":2}': {"": 0, "A": 1, "a": 2},
    b'"NaN Infinity 1e999"': "NaN Infinity 1e999",
    b'"\\u0000"': "\x00",
}


@pytest.mark.parametrize("data", SOUND)
def test_takes_what_is_sound(data: bytes) -> None:
    assert parse_json(data, MAX) == SOUND[data]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("0", 0),
        ("-0", 0),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", "9223372036854775808"),
        ("-9223372036854775809", "-9223372036854775809"),
        ("9" * 80, "9" * 80),
        ("12.50", "12.50"),
        ("-0.0", "-0.0"),
        ("0.1000000000000000055511151231257827", "0.1000000000000000055511151231257827"),
        ("0." + "1" * 200, "0." + "1" * 200),
        ("1e3", "1000"),
        ("1E+2", "100"),
        ("1.50e1", "15.0"),
        ("15e-1", "1.5"),
        ("5e-1", "0.5"),
        ("2E-3", "0.002"),
        ("0.0015e3", "1.5"),
        ("0.0e-2", "0.000"),
        ("1e63", "1" + "0" * 63),
        ("0.01e64", "1" + "0" * 62),
        ("0.01e65", "1" + "0" * 63),
        ("-1e-64", "-0." + "0" * 63 + "1"),
    ],
)
def test_numbers_are_exact(written: str, value: object) -> None:
    found = parse_json(written.encode(), MAX)
    assert found == value
    assert type(found) is type(value)


def test_the_last_byte_and_the_last_level_are_allowed() -> None:
    data = b'"' + b"a" * (MAX - 2) + b'"'
    assert parse_json(data, MAX) == "a" * (MAX - 2)
    with pytest.raises(JsonPolicyError, match="too large"):
        parse_json(data + b" ", MAX)
    found = parse_json(b"[" * DEPTH_MAX + b"]" * DEPTH_MAX, MAX)
    for _ in range(DEPTH_MAX - 1):
        [found] = found
    assert found == []


def test_brackets_in_texts_do_not_count_as_depth() -> None:
    text = '[{"' * 200 + '\\"[[[' + "\\"
    assert parse_json(json.dumps([text, {text: "x"}]).encode(), MAX) == [text, {text: "x"}]


def test_many_shallow_brackets_are_not_deep() -> None:
    assert parse_json(b"[" + b",".join([b"[{}]"] * 1000) + b"]", MAX) == [[{}]] * 1000


HOSTILE = {
    "quotes": b'"' * 2_000_001,
    "escapes outside": b'\\"' * 1_000_000,
    "unclosed text": b"[[" + b'\\"' * 1_000_000 + b"[" * 80,
    "brackets in a text": b'["\\' + b"[" * 1_000_000,
    "long integer": b"9" * 3_000_000,
    "long fraction": b"1." + b"9" * 3_000_000,
    "long exponent": b"1e" + b"9" * 3_000_000,
    "many brackets": b"[" + b"[]," * 700_000 + b"[]]",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_bytes_take_linear_time(data: bytes) -> None:
    begin = time.process_time()
    try:
        parse_json(data, 3 * 1024 * 1024 + 100)
    except JsonPolicyError:
        pass
    assert time.process_time() - begin < 3


def test_the_reason_never_holds_content() -> None:
    for data in (b'{"secret":1,"secret":2}', b"secret", b"[secret", b'"secret\xff"'):
        with pytest.raises(JsonPolicyError) as caught:
            parse_json(data, MAX)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_canonical_sorts_keys_and_dumps_keeps_their_order() -> None:
    value = {"b": 1, "a": {"d": [1, "é"], "c": None}}
    assert dumps(value) == '{"b":1,"a":{"d":[1,"é"],"c":null}}'.encode()
    assert canonical(value) == '{"a":{"c":null,"d":[1,"é"]},"b":1}'.encode()


@pytest.mark.parametrize("write", [dumps, canonical])
@pytest.mark.parametrize("value", [Decimal("1.5"), {1: 2}, "\ud800", object(), 2**64])
def test_writers_refuse_what_is_not_plain(write: object, value: object) -> None:
    assert callable(write)
    with pytest.raises(PayloadError):
        write(value)


class Colour(enum.StrEnum):
    RED = "red"


class Old(str, enum.Enum):  # noqa: UP042 - str() of these gives another text, which is the point
    BLUE = "blue"


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        (7, 7),
        (2**63, "9223372036854775808"),
        (10**40, "1" + "0" * 40),
        (Decimal("12.50"), "12.50"),
        (Decimal("1E+2"), "100"),
        (Decimal("1E-9"), "0.000000001"),
        (Decimal("-0"), "-0"),
        (12.5, "12.5"),
        (1e22, "10000000000000000000000"),
        (Colour.RED, "red"),
        (Old.BLUE, "blue"),
        ({"a": (1, [Decimal("2.0")])}, {"a": [1, ["2.0"]]}),
    ],
)
def test_normalise(value: object, plain: object) -> None:
    found = normalise(value)
    assert found == plain
    assert type(found) is type(plain)


def deep(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        *(Decimal("NaN"), Decimal("Infinity"), Decimal("1E+64"), float("nan"), float("inf"), 1e300),
        *({1: 2}, {None: 1}, object(), b"bytes", {1, 2}, deep(DEPTH_MAX + 1)),
    ],
)
def test_normalise_refuses(value: object) -> None:
    with pytest.raises(PayloadError):
        normalise(value)


def test_normalise_takes_the_depth_that_parse_takes() -> None:
    assert parse_json(dumps(normalise(deep(DEPTH_MAX))), MAX) == deep(DEPTH_MAX)


def test_plain_decimal_keeps_long_coefficients() -> None:
    text = "0." + "123456789" * 12
    assert len(text) > DIGITS_MAX
    assert plain_decimal(Decimal(text)) == text

"""The one JSON policy on every way in, and the writers of our own JSON (contract 0.6).

Numbers: an integer of at most 64 bits stays an `int`. Every other number, one with a fraction or an exponent or a
longer integer, becomes its plain decimal `str`, digit for digit as written (12.50 -> "12.50"); an exponent is written
out (1.5e3 -> "1500", 2E-3 -> "0.002") and refused where that takes more than 64 digits. No number ever passes through
a binary float. So two payloads are equal when their `canonical` bytes are, and 12.5 equals "12.5" but not 12.50.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import StrEnum
from typing import NoReturn

import orjson

from tpf_streams.core.step import Json
from tpf_streams.errors import JsonPolicyError, PayloadError

DEPTH_MAX = 64
DIGITS_MAX = 64
"""Digits that an exponent may expand to; bounds how much longer the normalised form is than the bytes that came."""

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_BOM = b"\xef\xbb\xbf"
_OPEN, _CLOSE = b"[{", b"]}"
_NOT_BRACKETS = bytes(set(range(256)) - set(_OPEN + _CLOSE))
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_EXPONENT = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?[eE]([+-]?[0-9]{1,6})")


class JsonReason(StrEnum):
    """Why bytes were refused, in the words that dead letters and counters show."""

    NULL_VALUE = "null value"
    ZERO_LENGTH = "zero-length value"
    BLANK = "blank value"
    TOO_LARGE = "too large"
    BOM = "byte order mark"
    NOT_UTF8 = "not UTF-8"
    NOT_JSON = "not JSON"
    REPEATED_KEY = "repeated key"
    NOT_A_NUMBER = "NaN or Infinity"
    NUMBER_RANGE = "number out of range"
    LONE_SURROGATE = "lone surrogate"
    TOO_DEEP = "too deep"


class JsonRefusedError(JsonPolicyError):
    """`JsonPolicyError` with its reason as a value."""

    def __init__(self, reason: JsonReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


def parse_json(data: bytes | None, max_bytes: int, depth_max: int = DEPTH_MAX) -> Json:
    """The JSON value in `data` (at most `max_bytes` bytes), normalised as the module says.

    Raises `JsonRefusedError` (a `JsonPolicyError`) and nothing else; the reason never holds content.
    """
    _check_bytes(data, max_bytes)
    assert data is not None
    _check_depth(data, depth_max)
    try:
        value = orjson.loads(data)
        if _is_exact(value) and orjson.dumps(value) == data:
            return value
    except (ValueError, TypeError):
        pass  # the slow way says why
    return _parse_slowly(data)


def _is_exact(value: Json) -> bool:
    """Whether every number in what orjson read is one that stays an `int`; it makes floats of fractions.

    Where that is so, and writing the value gives the same bytes again, reading has lost nothing, not even a repeated
    key: then the value is the normalised one. Compact JSON, as most programs send it, passes.
    """
    found = [value]
    for one in found:
        kind = type(one)
        if kind is dict:
            found.extend(one.values())
        elif kind is list:
            found.extend(one)
        elif kind is float or (kind is int and not _INT64_MIN <= one <= _INT64_MAX):
            return False
    return True


def _parse_slowly(data: bytes) -> Json:
    try:
        value = _DECODE(data.decode())
    except UnicodeDecodeError:
        raise JsonRefusedError(JsonReason.NOT_UTF8) from None
    except ValueError:
        raise JsonRefusedError(JsonReason.NOT_JSON) from None
    if _SURROGATE_ESCAPE.search(data):
        _check_surrogates(value)
    return value


def dumps(value: Json) -> bytes:
    """Compact UTF-8 JSON of a plain value, keys in their order. Raises `PayloadError` for what is not plain JSON."""
    try:
        return orjson.dumps(value)
    except TypeError as error:
        raise PayloadError(f"not plain JSON: {error}") from None


def canonical(value: Json) -> bytes:
    """Like `dumps`, with sorted keys: the form in which payloads are compared (contract 0.4)."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise PayloadError(f"not plain JSON: {error}") from None


def row_bytes(value: Json) -> int:
    """How long a value is in a row or a record of ours. Raises `PayloadError` for what none of them could hold.

    The lists around it are the nesting that a row adds: a value that only just fits would break its commit, for ever.
    """
    return len(dumps([[[[value]]]])) - 8


def row_text(text: str, chars: int) -> str:
    """At most `chars` characters of a foreign text, as a row can hold it: a lone surrogate would break its commit."""
    return text[:chars].encode(errors="backslashreplace").decode()[:chars]


def normalise(value: object) -> Json:
    """A Python value as plain JSON (contract 1.5): Decimal and float become plain decimal strings, tuples lists.

    Raises `PayloadError` for NaN, infinities, exponents past 64 digits, keys that are no strings, nesting past 64, and
    any other type.
    """
    return _normalise(value, DEPTH_MAX)


def plain_decimal(value: Decimal) -> str:
    """`value` without exponent, its trailing zeros kept. Raises `PayloadError` when not finite or past 64 digits."""
    if not value.is_finite():
        raise PayloadError("a decimal is not finite")
    text = str(value)
    if "E" not in text:
        return text
    try:
        return _plain(text)
    except JsonRefusedError:
        raise PayloadError(f"a decimal needs more than {DIGITS_MAX} digits") from None


def _check_bytes(data: bytes | None, max_bytes: int) -> None:
    if data is None:
        raise JsonRefusedError(JsonReason.NULL_VALUE)
    if not data:
        raise JsonRefusedError(JsonReason.ZERO_LENGTH)
    if len(data) > max_bytes:
        raise JsonRefusedError(JsonReason.TOO_LARGE)
    if data.isspace():
        raise JsonRefusedError(JsonReason.BLANK)
    if data.startswith(_BOM):
        raise JsonRefusedError(JsonReason.BOM)


def _check_depth(data: bytes, depth_max: int) -> None:
    """Refuse nesting past the bound before the parser recurses. Few brackets, the common case, need no scan."""
    if data.count(b"{") + data.count(b"[") <= depth_max:
        return
    depth = 0
    for byte in _STRING.sub(b"", data).translate(None, _NOT_BRACKETS):
        depth += 1 if byte in _OPEN else -1
        if depth > depth_max:
            raise JsonRefusedError(JsonReason.TOO_DEEP)


def _check_surrogates(value: Json) -> None:
    try:
        orjson.dumps(value)
    except TypeError:
        raise JsonRefusedError(JsonReason.LONE_SURROGATE) from None


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise JsonRefusedError(JsonReason.REPEATED_KEY)
    return found


def _integer(text: str) -> int | str:
    """An integer that may not fit 64 bits; never converted before its length is known (int() is quadratic)."""
    if len(text) < 19:
        return int(text)
    if len(text) > 20:
        return text
    number = int(text)
    return number if _INT64_MIN <= number <= _INT64_MAX else text


def _plain(text: str) -> str:
    """A JSON number with a fraction or an exponent, as a plain decimal."""
    if "e" not in text and "E" not in text:
        return text
    match = _EXPONENT.fullmatch(text)
    if match is None:
        raise JsonRefusedError(JsonReason.NUMBER_RANGE)
    sign, whole, fraction, exponent = match.group(1), match.group(2), match.group(3) or "", int(match.group(4))
    digits, point = whole + fraction, len(whole) + exponent
    if significant := digits.lstrip("0"):
        # Leading zeros are not written: counted, they refused `0.01e64`, which has 63 digits.
        digits, point = significant, point - (len(digits) - len(significant))
    if max(point, len(digits)) + max(-point, 0) > DIGITS_MAX:
        raise JsonRefusedError(JsonReason.NUMBER_RANGE)
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    head = digits[:point].ljust(point, "0").lstrip("0") or "0"
    return f"{sign}{head}.{digits[point:]}" if digits[point:] else sign + head


def _constant(text: str) -> NoReturn:
    raise JsonRefusedError(JsonReason.NOT_A_NUMBER)


_DECODE: Callable[[str], Json] = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_plain, parse_int=_integer, parse_constant=_constant
).decode


def _normalise(value: object, depth: int) -> Json:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value) if _INT64_MIN <= value <= _INT64_MAX else format(Decimal(value), "f")
    if isinstance(value, Decimal):
        return plain_decimal(value)
    if isinstance(value, float):
        return plain_decimal(Decimal(repr(float(value))))
    if isinstance(value, (Mapping, list, tuple)) and depth > 0:
        return _normalise_container(value, depth - 1)
    raise PayloadError(f"Failed to normalize await payload from {type(value).__name__}")


def _normalise_container(value: Mapping[object, object] | list[object] | tuple[object, ...], depth: int) -> Json:
    if not isinstance(value, Mapping):
        return [_normalise(item, depth) for item in value]
    found: dict[str, Json] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise PayloadError(f"Failed to normalize await payload: a key is {type(key).__name__}")
        found[str.__str__(key)] = _normalise(item, depth)
    return found

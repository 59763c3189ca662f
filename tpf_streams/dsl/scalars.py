"""The scalar types of a pipeline file: how each reads from plain JSON, and how a Python value of it is written.

On the wire every scalar but boolean, int32, float and double is a string (contract 1.5). Reading keeps texts as they
were written; writing takes the Python values a step may hold. Both raise `Mismatch`, whose text never holds the value.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any, TypeAlias
from uuid import UUID

from tpf_streams.core.json_policy import plain_decimal
from tpf_streams.core.step import Json
from tpf_streams.errors import PayloadError

DECIMAL_CHARS_MAX = 100
"""Longer is no amount, measure or rate, and would only cost time."""

INT32 = (-(2**31), 2**31 - 1)
INT64 = (-(2**63), 2**63 - 1)


class Mismatch(Exception):
    """A value is not of the declared type. `path` grows from the inside out."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path

    def inside(self, name: str) -> Mismatch:
        return Mismatch(self.reason, f"{name}.{self.path}" if self.path else name)


Codec: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Scalar:
    """`python` is the type that a generated model shows; `read` gives it, `write` takes it and its relatives."""

    name: str
    python: type
    read: Codec
    write: Codec


_DECIMAL = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CURRENCY = re.compile(r"[A-Za-z]{3}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?"
_TIMESTAMP = re.compile(_TIME + r"(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_DATETIME = re.compile(_TIME + r"(?:[Zz]|[+-]\d\d:\d\d)?", re.ASCII)
_DURATION = re.compile(
    r"[+-]?P(?=.)(?:[+-]?\d+W)?(?:[+-]?\d+D)?(?:T(?=.)(?:[+-]?\d+H)?(?:[+-]?\d+M)?"
    r"(?:[+-]?\d+(?:\.\d{1,9})?S)?)?",
    re.ASCII,
)
_URI = re.compile(r"[^\s\x00-\x1f]+")
_FRACTION = re.compile(r"\.(\d{6})\d+")
_FLOAT = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_FLOAT32_MAX = 3.4028234663852886e38


def read_string(value: Json) -> str:
    if type(value) is not str:
        raise Mismatch("a string is wanted")
    if not value.isascii():
        _check_surrogates(value)
    return value


def _check_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Mismatch("a lone surrogate") from None


def read_decimal(value: Json) -> Decimal:
    """From a plain decimal string, an integer, or a Decimal. A float has lost its digits already: refused.

    Scale is kept, 1.50 stays 1.50; of all that was written only leading zeros are lost.
    """
    if type(value) is str:
        if len(value) > DECIMAL_CHARS_MAX or _DECIMAL.fullmatch(value) is None:
            raise Mismatch("a plain decimal is wanted, as 12.50")
        return Decimal(value)
    if type(value) is int:
        return Decimal(value)
    if isinstance(value, Decimal):
        return Decimal(write_decimal(value))
    raise Mismatch("a plain decimal is wanted, as a string")


def write_decimal(value: object) -> str:
    if isinstance(value, Decimal):
        try:
            return plain_decimal(value)
        except PayloadError as error:
            raise Mismatch(str(error)) from None
    if type(value) is str:
        read_decimal(value)
        return value
    if type(value) is int:
        return str(value)
    raise Mismatch("a plain decimal is wanted, as Decimal or string")


def read_boolean(value: Json) -> bool:
    if type(value) is not bool:
        raise Mismatch("true or false is wanted")
    return value


def _integer(value: object, bounds: tuple[int, int], name: str) -> int:
    if type(value) is str and _INTEGER.fullmatch(value):
        value = int(value)
    if type(value) is not int or not bounds[0] <= value <= bounds[1]:
        raise Mismatch(f"an {name} is wanted")
    return value


def read_int32(value: Json) -> int:
    return _integer(value, INT32, "int32")


def read_int64(value: Json) -> int:
    """ProtoJSON writes int64 as a string (contract 1.5); a number is taken too."""
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    return _integer(value, INT64, "int64")


def write_int64_text(value: object) -> str:
    return str(read_int64(value))


def _real(value: object, largest: float) -> float:
    """The JSON policy hands fractions over as strings, so those are taken (contract 0.6)."""
    if type(value) is str and len(value) <= DECIMAL_CHARS_MAX and _FLOAT.fullmatch(value):
        value = float(value)
    if type(value) is int and abs(value) < 2**63:
        value = float(value)
    if type(value) is not float or not math.isfinite(value) or abs(value) > largest:
        raise Mismatch("a finite number is wanted")
    return value


def read_double(value: Json) -> float:
    return _real(value, math.inf)


def read_float(value: Json) -> float:
    return _real(value, _FLOAT32_MAX)


def _text_reader(pattern: re.Pattern[str], wanted: str) -> Callable[[Json], str]:
    fullmatch = pattern.fullmatch

    def read(value: Json) -> str:
        if type(value) is not str or fullmatch(value) is None:
            raise Mismatch(wanted)
        return value if value.isascii() else read_string(value)

    return read


def _moment_reader(pattern: re.Pattern[str], wanted: str) -> Callable[[Json], str]:
    """Checks the calendar too. Kept as text: nanoseconds and the zone's spelling would not survive a datetime."""
    text = _text_reader(pattern, wanted)

    def read(value: Json) -> str:
        found = text(value)
        try:
            datetime.fromisoformat(_FRACTION.sub(r".\1", found.upper()))
        except ValueError:
            raise Mismatch(wanted) from None
        return found

    return read


def _date(value: Json) -> str:
    found = _text_reader(_DATE, "a date is wanted, as 2026-01-31")(value)
    try:
        date.fromisoformat(found)
    except ValueError:
        raise Mismatch("a date is wanted, as 2026-01-31") from None
    return found


def _bytes(value: Json) -> str:
    try:
        base64.b64decode(read_string(value), validate=True)
    except ValueError:
        raise Mismatch("base64 is wanted") from None
    return str(value)


def _writer(read: Callable[[Json], str], kind: type, render: Callable[[Any], str]) -> Codec:
    """Texts are checked as on the way in; values of `kind` are rendered and then checked."""

    def write(value: object) -> str:
        return read(render(value) if isinstance(value, kind) else value)

    return write


def _write_uuid(value: object) -> str:
    return str(value) if isinstance(value, UUID) else _uuid(value)


def _moment(value: datetime) -> str:
    text = value.isoformat()
    return text[:-6] + "Z" if text.endswith("+00:00") else text


def _span(value: timedelta) -> str:
    sign, value = ("-", -value) if value < timedelta(0) else ("", value)
    seconds, rest = divmod(value, timedelta(seconds=1))
    fraction = f".{rest.microseconds:06d}".rstrip("0") if rest else ""
    return f"{sign}PT{seconds}{fraction}S"


_uuid = _text_reader(_UUID, "a uuid is wanted, as 8-4-4-4-12 hexadecimal digits")
_timestamp = _moment_reader(_TIMESTAMP, "a timestamp with its zone is wanted, as 2026-01-31T10:00:00Z")
_datetime = _moment_reader(_DATETIME, "a date and time is wanted, as 2026-01-31T10:00:00")
_duration = _text_reader(_DURATION, "an ISO-8601 duration is wanted, as PT5M")
_currency = _text_reader(_CURRENCY, "a currency is wanted, as three letters")
_uri = _text_reader(_URI, "a uri without blanks is wanted")


def _path(value: Json) -> str:
    if "\0" in (found := read_string(value)):
        raise Mismatch("a path without NUL is wanted")
    return found


SCALARS = {
    scalar.name: scalar
    for scalar in (
        Scalar("string", str, read_string, read_string),
        Scalar("decimal", Decimal, read_decimal, write_decimal),
        Scalar("uuid", str, _uuid, _write_uuid),
        Scalar("timestamp", str, _timestamp, _writer(_timestamp, datetime, _moment)),
        Scalar("datetime", str, _datetime, _writer(_datetime, datetime, _moment)),
        Scalar("date", str, _date, _writer(_date, date, str)),
        Scalar("duration", str, _duration, _writer(_duration, timedelta, _span)),
        Scalar("currency", str, _currency, _currency),
        Scalar("uri", str, _uri, _writer(_uri, object, str)),
        Scalar("path", str, _path, _writer(_path, PurePath, PurePath.as_posix)),
        Scalar("boolean", bool, read_boolean, read_boolean),
        Scalar("int32", int, read_int32, read_int32),
        Scalar("int64", int, read_int64, read_int64),
        Scalar("float", float, read_float, read_float),
        Scalar("double", float, read_double, read_double),
        Scalar("bytes", str, _bytes, _writer(_bytes, bytes, lambda raw: base64.b64encode(raw).decode())),
    )
}
"""By name. int64 is written as a string in version 3 files (`write_int64_text`), as a number in version 2."""

"""Each scalar: what it keeps, what it refuses, and the Python values it is written from (contract 1.5, 0.6)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tpf_streams.core.json_policy import parse_json
from tpf_streams.dsl.shapes import FieldSpec, RecordType
from tpf_streams.dsl.types import TypeRegistry
from tpf_streams.errors import PayloadError

ID = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"


def record(name: str, **fields: str) -> RecordType:
    return RecordType(
        name, tuple(FieldSpec(field, kind.rstrip("?"), kind.endswith("?")) for field, kind in fields.items())
    )


def one(kind: str) -> Any:
    """A function that reads a value of one scalar type and writes it again."""
    types = TypeRegistry([record("One", value=kind)])
    read, write = types.converter("One"), types.encoder("One")
    return lambda value: write(read({"value": value}))["value"]


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        ("decimal", "27.50", "27.50"),
        ("decimal", "-0.10", "-0.10"),
        ("decimal", "100000000000000001.01", "100000000000000001.01"),
        ("decimal", 5, "5"),
        ("decimal", Decimal("1E+2"), "100"),
        ("decimal", Decimal("1.50"), "1.50"),
        ("int64", "9223372036854775807", "9223372036854775807"),
        ("int64", -(2**63), "-9223372036854775808"),
        ("int32", "7", 7),
        ("boolean", False, False),
        ("double", "1.5", 1.5),
        ("double", 2, 2.0),
        ("float", "1e3", 1000.0),
        ("uuid", ID.upper(), ID.upper()),
        ("currency", "EUR", "EUR"),
        ("timestamp", "2026-02-28T10:00:00.123456789Z", "2026-02-28T10:00:00.123456789Z"),
        ("timestamp", "2026-02-28t10:00:00+02:00", "2026-02-28t10:00:00+02:00"),
        ("datetime", "2026-02-28T10:00:00", "2026-02-28T10:00:00"),
        ("date", "2026-02-28", "2026-02-28"),
        ("duration", "PT5M", "PT5M"),
        ("duration", "P1DT-2.5S", "P1DT-2.5S"),
        ("uri", "urn:a:b", "urn:a:b"),
        ("path", "a dir/ä.csv", "a dir/ä.csv"),
        ("bytes", "aGk=", "aGk="),
        ("string", "", ""),
        ("string", "☃", "☃"),
    ],
)
def test_scalars_keep_their_text(kind, value, written):
    assert one(kind)(value) == written


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("decimal", ["", "1e3", "1E+2", "NaN", "Infinity", "+5", ".5", "5.", "1,5", "1.000,00", "0x10", "١٢.50", " 1",
                     "1 ", "1\n", 1.5, True, None, [], {}, "9" * 101, Decimal("NaN"), Decimal("-Infinity"),
                     Decimal("1E+900")]),
        ("int64", [2**63, -(2**63) - 1, "9223372036854775808", "1.0", "01", "+1", "", "1e3", 1.0, True, None, "٣"]),
        ("int32", [2**31, -(2**31) - 1, "2147483648", 1.0, False]),
        ("boolean", ["true", 1, 0, None]),
        ("double", ["NaN", "Infinity", "", "abc", True, None, float("inf"), float("nan"), "1e999", "1" * 101]),
        ("float", ["1e39", float("inf")]),
        ("uuid", ["", "123", ID + "0", "{" + ID + "}", ID.replace("-", ""), ID + "\n", 5]),
        ("currency", ["EURO", "EU", "E1R", "ÄÖÜ", "", 978]),
        ("timestamp", ["2026-02-28T10:00:00", "2026-02-30T10:00:00Z", "2026-02-28 10:00:00Z", "yesterday", 1700000000]),
        ("datetime", ["2026-13-01T10:00:00", "2026-02-28", ""]),
        ("date", ["2026-02-30", "28.02.2026", "2026-2-8", "2026-02-28T10:00:00Z"]),
        ("duration", ["", "P", "PT", "5M", "P1", "PT5"]),
        ("uri", ["", "a b", "a\nb"]),
        ("path", ["a\0b", 5]),
        ("bytes", ["a", "a=b=", "ä", 5]),
        ("string", [5, True, None, [], {}, "\ud800"]),
    ],
)  # fmt: skip
def test_scalars_refuse(kind, values):
    for value in values:
        with pytest.raises(PayloadError):
            one(kind)(value)


def test_numbers_of_the_json_policy_read_exactly():
    types = TypeRegistry([record("One", amount="decimal", rate="double", count="int64")])
    payload = parse_json(b'{"amount": 100000000000000001.010, "rate": 2.5, "count": 12}', 1000)
    assert types.to_json(types.converter("One")(payload)) == {
        "amount": "100000000000000001.010", "rate": 2.5, "count": "12",
    }  # fmt: skip


@dataclass(frozen=True)
class Kinds:
    """What a step may hold for each scalar."""

    uuid: Any
    timestamp: Any
    datetime: Any
    date: Any
    duration: Any
    path: Any
    bytes: Any
    decimal: Any
    uri: Any


def test_python_values_are_written_in_the_wire_form():
    types = TypeRegistry([record("Kinds", **{name: name for name in Kinds.__dataclass_fields__})])
    types.bind("Kinds", Kinds)
    moment = datetime(2026, 2, 28, 10, 0, 0, 1, UTC)
    value = Kinds(UUID(ID), moment, datetime.fromisoformat("2026-02-28T10:00"), date(2026, 2, 28), timedelta(minutes=5),
                  PurePosixPath("a/b"), b"hi", Decimal("1E+2"), PurePosixPath("x"))  # fmt: skip
    assert types.to_json(value) == {
        "uuid": ID, "timestamp": "2026-02-28T10:00:00.000001Z", "datetime": "2026-02-28T10:00:00", "date": "2026-02-28",
        "duration": "PT300S", "path": "a/b", "bytes": "aGk=", "decimal": "100", "uri": "x",
    }  # fmt: skip
    zoned = types.to_json(Kinds(UUID(ID), moment.astimezone(timezone(timedelta(hours=2))), moment, date.min,
                                timedelta(seconds=-0.5), "p", "", 3, "u"))  # fmt: skip
    assert zoned["timestamp"] == "2026-02-28T12:00:00.000001+02:00"
    assert zoned["duration"] == "-PT0.5S"
    with pytest.raises(
        PayloadError, match="Failed to normalize await payload from Kinds: timestamp: a timestamp with its"
    ):
        types.to_json(Kinds(ID, datetime.fromisoformat("2026-01-01"), moment, date.min, "PT1S", "p", "", 1, "u"))


@given(st.timedeltas(min_value=timedelta(days=-400), max_value=timedelta(days=400)))
def test_a_timedelta_survives(span):
    types = TypeRegistry([record("Span", span="duration")])
    types.bind("Span", Span)
    text = types.to_json(Span(span))["span"]
    assert types.converter("Span")({"span": text}) == Span(span)


class Span(BaseModel):
    span: timedelta

    def __init__(self, span: timedelta | None = None, **data: Any) -> None:
        super().__init__(**({"span": span} if span is not None else data))

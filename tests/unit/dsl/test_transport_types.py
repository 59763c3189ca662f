"""What leaves for a provider and what comes back, in types of its own (contract 1.5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, field_serializer

from tests.topology.partner import OrderMessage
from tests.unit.dsl.test_types import record, registry
from tpf_streams.core.json_policy import parse_json
from tpf_streams.core.step import Cardinality
from tpf_streams.dsl.outgoing import outgoing
from tpf_streams.dsl.shapes import UnionType
from tpf_streams.dsl.transport_types import declared, of_class, scalar
from tpf_streams.dsl.types import TypeRegistry
from tpf_streams.errors import PayloadError

ID = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"


class Line(BaseModel):
    model_config = ConfigDict(extra="forbid")

    at: datetime
    amount: Decimal


class Answer(BaseModel):
    """Lists, aliases and constraints: more than a declared type can say."""

    order_id: UUID = Field(alias="orderId")
    lines: list[Line]
    note: str | None = None
    by_name: dict[str, int] = {}


@dataclass
class Small:
    id: str
    amount: Decimal


class Grade(Enum):
    A = Decimal("1E-8")


class Stubborn(BaseModel):
    id: str

    @field_serializer("id")
    def _refuse(self, value: str) -> str:
        raise ValueError(f"secret {value}")


ANSWER = {"orderId": ID, "lines": [{"at": "2026-02-28T10:00:00Z", "amount": "12.50"}]}


# Out


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, None),
        ("text", "text"),
        (5, 5),
        (True, True),
        (1.5, "1.5"),
        (Decimal("1E+2"), "100"),
        (Decimal("27.50"), "27.50"),
        ((1, [Decimal("0.10")]), [1, ["0.10"]]),
        (Small("a", Decimal("1.50")), {"id": "a", "amount": "1.50"}),
        ({"of": Small("a", Decimal(1)), "all": [OrderMessage(order_id="o")]},
         {"of": {"id": "a", "amount": "1"},
          "all": [{"orderId": "o", "amount": "", "currency": "", "priority": "0"}]}),
        (Answer.model_validate(ANSWER), {**ANSWER, "by_name": {}}),
        (UUID(ID), ID),
        (datetime(2026, 2, 28, 10, tzinfo=UTC), "2026-02-28T10:00:00Z"),
        (date(2026, 2, 28), "2026-02-28"),
        (timedelta(minutes=5), "PT5M"),
        (PurePosixPath("a/b"), "a/b"),
        (AnyUrl("https://a/b"), "https://a/b"),
        (Cardinality.ONE_TO_ONE, "ONE_TO_ONE"),
        (Grade.A, "0.00000001"),
        (b"hi", "hi"),
    ],
)  # fmt: skip
def test_what_goes_out_is_plain_json(value, written):
    assert outgoing(value) == written


@pytest.mark.parametrize(
    ("value", "name"),
    [(object(), "object"), ({1, 2}, "set"), (Small, "type"), (Stubborn(id="s3cret"), "Stubborn"), (b"\xff", "bytes")],
)
def test_what_is_no_json_is_told_by_its_class_alone(value, name):
    with pytest.raises(PayloadError, match=rf"^Failed to normalize await payload from {name}$"):
        outgoing(value)


# In


def test_a_class_reads_and_writes_what_it_shows():
    kind = of_class(registry(), Answer)
    value = kind.read(ANSWER)
    assert value == Answer(
        orderId=UUID(ID), lines=[Line(at=datetime(2026, 2, 28, 10, tzinfo=UTC), amount=Decimal("12.50"))]
    )
    assert kind.read(value) is value, "an instance is taken as it is"
    assert kind.write(value) == {**ANSWER, "by_name": {}}
    assert (kind.name, kind.cls) == ("tests.unit.dsl.test_transport_types.Answer", Answer)


def test_json_in_a_string_is_read():
    kind = of_class(registry(), Answer)
    assert kind.read(orjson.dumps(ANSWER).decode()) == kind.read(ANSWER)


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (None, "refused (model_type)"),
        ("text", "refused (model_type)"),
        ("{", "a string that begins like JSON and is not"),
        ('{"a": NaN}', "a string that begins like JSON and is not"),
        ({}, "orderId: refused (missing)"),
        ({**ANSWER, "lines": [{"at": "s3cret", "amount": "1"}]}, "lines: refused (datetime_from_date_parsing)"),
        ({**ANSWER, "lines": [{"at": "2026-02-28T10:00:00Z", "amount": "1", "s3cret": 1}]}, "lines: refused (extra_"),
        ({**ANSWER, "by_name": {"s3cret": "x"}}, "by_name: refused (int_parsing)"),
    ],
)
def test_what_does_not_fit_a_class_is_told_without_what_was_sent(payload, told):
    with pytest.raises(PayloadError) as caught:
        of_class(registry(), Answer).read(payload)
    assert str(caught.value).startswith(f"Failed converting await payload to {Answer.__module__}.Answer: {told}")
    assert "s3cret" not in str(caught.value)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=9, min_value=-(10**40), max_value=10**40))
def test_a_decimal_is_exact_in_every_transport_type(amount):
    """From a JSON number and from a text, into a class, a declared type and back."""
    text = format(amount, "f")
    types = TypeRegistry([record("Small", id="string", amount="decimal")])
    kinds = [of_class(types, Small), declared(types, "Small", "Small")]
    for payload in (b'{"id": "a", "amount": %s}' % text.encode(), b'{"id": "a", "amount": "%s"}' % text.encode()):
        for kind in kinds:
            read = kind.read(parse_json(payload, 1_000))
            assert format(read.amount, "f") == text
            assert kind.write(read)["amount"] == text


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("boolean", True, "true"),
        ("string", "a", 1),
        ("decimal", "12.50", 12.5),
        ("int64", "9223372036854775807", "9223372036854775808"),
        ("uuid", ID, "1"),
        ("timestamp", "2026-02-28T10:00:00Z", "2026-02-28T10:00:00"),
        ("datetime", "2026-02-28T10:00:00", "10:00"),
        ("date", "2026-02-28", "2026-02-30"),
        ("duration", "PT5M", "5M"),
        ("currency", "EUR", "EURO"),
        ("uri", "https://a/b", "a b"),
        ("path", "a/b", "a\0b"),
    ],
)
def test_a_scalar_is_a_type_too(name, good, bad):
    kind = scalar(name)
    assert str(kind.write(kind.read(good))) == str(good)
    with pytest.raises(PayloadError, match=f"^Failed converting await payload to {name}: "):
        kind.read(bad)


# Declared types


@pytest.mark.parametrize(
    ("source", "target", "told"),
    [
        ("Status", "Status", []),
        ("Approved", "Refused", []),
        ("Approved", "Status", ["Approved is no Status"]),
        ("Payment", "Approved", [
            "Approved wants reference (string): Payment has none", "Approved wants fee (decimal): Payment has none",
            "Approved wants statusCode (int64): Payment has none",
            "Approved wants payment (Payment): Payment has none",
        ]),
        ("Approved", "Payment", [
            "Payment wants id (uuid): Approved has none", "Payment wants amount (decimal): Approved has none",
        ]),
    ],
)  # fmt: skip
def test_one_declared_type_stands_for_another_by_its_fields(source, target, told):
    types = registry()
    assert list(declared(types, source, source).misfits(target, False)) == told
    assert list(declared(types, target, target).misfits(source, True)) == told


def test_a_union_stands_for_one_with_more_arms():
    types = registry()
    types.unions["One"] = UnionType("One", {"approved": "Refused"})
    assert list(declared(types, "One", "One").misfits("Status", False)) == []
    assert list(declared(types, "Status", "Status").misfits("One", False)) == [
        "Status has the arm refused, and One has none"
    ]


def test_names_that_meet_by_text_are_read_by_the_step():
    types = TypeRegistry([record("Text", amount="string"), record("Money", amount="decimal", note="string?")])
    kind: Any = declared(types, "Text", "Text")
    assert list(kind.misfits("Money", False)) == []
    assert list(declared(types, "Money", "Money").misfits("Text", False)) == [
        "Text wants amount (string): Money has decimal"
    ]

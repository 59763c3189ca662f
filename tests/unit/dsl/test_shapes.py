"""Classes of the author's own that stand for declared types."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field

from tpf_streams.dsl.shapes import FieldSpec, RecordType, record_of
from tpf_streams.dsl.types import TypeRegistry
from tpf_streams.errors import PayloadError

ID = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"


def record(name: str, **fields: str) -> RecordType:
    return RecordType(
        name, tuple(FieldSpec(field, kind.rstrip("?"), kind.endswith("?")) for field, kind in fields.items())
    )


class Camel(BaseModel):
    model_config = ConfigDict(frozen=True)

    amount_due: Annotated[Decimal, Field(alias="amountDue", gt=0)]
    id: UUID


class CamelBase(BaseModel):
    id: UUID


class CamelChild(CamelBase):
    pass


def test_a_class_checks_what_the_type_cannot_and_is_not_quoted():
    types = TypeRegistry([record("Camel", id="uuid", amountDue="decimal")])
    types.bind("Camel", Camel)
    value = types.converter("Camel")({"id": ID, "amountDue": "1.50"})
    assert value == Camel.model_validate({"id": ID, "amountDue": Decimal("1.50")})
    assert types.to_json(value) == {"id": ID, "amountDue": "1.50"}
    with pytest.raises(PayloadError) as caught:
        types.converter("Camel")({"id": ID, "amountDue": "-77.7"})
    assert str(caught.value).endswith("amountDue: refused by Camel (greater_than)")
    assert "77.7" not in str(caught.value)


def test_a_bound_base_does_not_take_its_child_away_from_its_own_type():
    types = TypeRegistry([record("A", id="uuid"), record("B", id="uuid")])
    types.bind("A", CamelBase)
    assert types.type_of(CamelChild(id=UUID(ID))) == "A"
    types.bind("B", CamelChild)
    assert types.type_of(CamelChild(id=UUID(ID))) == "B"
    with pytest.raises(ValueError, match="CamelBase stands for A already"):
        types.bind("B", CamelBase)


@dataclass
class Inner:
    count: int


@dataclass
class Outer:
    inner: Inner
    when: datetime
    note: str | None = None
    free: Annotated[str, "x"] = "default"


def test_a_class_can_declare_the_type():
    types = TypeRegistry([])
    assert types.declare(Outer) == "Outer"
    assert types.records["Outer"] == record("Outer", inner="Inner", when="datetime", note="string?", free="string?")
    value = types.converter("Outer")({"inner": {"count": "3"}, "when": "2026-01-01T00:00:00Z"})
    assert value == Outer(Inner(3), datetime(2026, 1, 1, tzinfo=UTC))
    assert types.to_json(value)["inner"] == {"count": "3"}
    assert record_of(Outer, types) == "Outer"


class Strange(BaseModel):
    tags: list[str]


def test_a_class_that_no_type_is_like():
    with pytest.raises(ValueError, match=r"Strange.tags: no declared type is like list\[str\]"):
        record_of(Strange, TypeRegistry([]))


def test_field_names_that_python_would_not_allow():
    names = ["class", "json", "copy", "modelName", "schema", "aB", "a_b"]
    types = TypeRegistry([record("Odd", **dict.fromkeys(names, "string"))])
    payload = {name: name for name in names}
    assert types.to_json(types.converter("Odd")(payload)) == payload

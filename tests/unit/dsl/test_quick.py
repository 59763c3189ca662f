"""The quick reader takes nothing that the plan refuses, and makes the same of what it takes."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator
from pydantic_core import SchemaValidator, ValidationError

from tests.unit.dsl.test_types import ID, STATUS, record, registry, values
from tpf_streams.dsl import codecs
from tpf_streams.dsl.quick import SCALARS as QUICK
from tpf_streams.dsl.quick import quick
from tpf_streams.dsl.scalars import SCALARS, Mismatch
from tpf_streams.dsl.types import TypeRegistry
from tpf_streams.errors import PayloadError

_NEAR = st.text("0123456789-+.eE_ \n\0aAfFxXnN٣äÄ", max_size=40)
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats()
    | _NEAR
    | st.text(max_size=20)
    | st.uuids().map(str)
    | st.integers(-(2**65), 2**65).map(str)
    | st.decimals().map(str)
    | st.text("ABCabcÄ", min_size=2, max_size=4)
    | st.text("19", min_size=95, max_size=105)
    | st.sampled_from(["\ud800", "a\0b", "1\n", "EUR\n", f"{ID}\n", "-0", "01", "1.", ".5", "1e3", "NaN"])
)
_VALUES = _SCALARS | st.lists(_SCALARS, max_size=2) | st.dictionaries(st.text(max_size=3), _SCALARS, max_size=2)


@pytest.mark.parametrize("name", sorted(QUICK))
@given(value=_VALUES)
@example(value=2**63)
@example(value=-(2**63))
@example(value="9223372036854775808")
@example(value="9" * 101)
@example(value=Decimal("1.50"))
def test_a_scalar_is_read_as_by_the_plan(name, value):
    try:
        found = SchemaValidator(QUICK[name]).validate_python(value)
    except ValidationError:
        return
    wanted = SCALARS[name].read(value)
    assert (type(found), str(found)) == (type(wanted), str(wanted))


@given(st.data())
def test_the_usual_values_are_taken(data):
    for name in QUICK:
        value = data.draw(values[name])
        SchemaValidator(QUICK[name]).validate_python(value)


@dataclass(frozen=True)
class Note:
    text: str = "none"
    count: int = 7


class Paid(BaseModel):
    """With a rule of its own, and a field that is named otherwise than it is declared."""

    fee: Decimal = Field(lt=100)
    conversation_id: str = Field(alias="conversationId")
    note: Note | None = None

    @field_validator("conversation_id")
    @classmethod
    def _refuse(cls, value: str) -> str:
        assert not value.startswith("0"), "a rule of the class"
        return value


def payments(planned: bool, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A reader of `Paid`; `planned`: by the plan alone."""
    if planned:
        monkeypatch.setattr(codecs, "quick", lambda schema, plan: plan)
    types = TypeRegistry(
        [
            record("Paid", fee="decimal", conversationId="uuid", note="Note?"),
            record("Note", text="string?", count="int64?"),
        ]
    )
    types.bind("Note", Note)
    types.bind("Paid", Paid)
    return types.converter("Paid")


_FIELDS = {
    "fee": values["decimal"] | _VALUES,
    "conversationId": values["uuid"] | _VALUES,
    "note": st.none() | st.just({}) | st.fixed_dictionaries({}, optional={"text": _VALUES, "count": _VALUES}) | _VALUES,
    "more": _VALUES,
}


@given(payload=st.fixed_dictionaries({}, optional=_FIELDS) | _VALUES)
@example(payload={"fee": "1.50", "conversationId": ID, "note": {"text": None}})
@example(payload={"fee": "1.50", "conversationId": ID, "note": None})
@example(payload={"fee": "100", "conversationId": ID})
@example(payload={"fee": "1", "conversationId": "0" + ID[1:]})
@example(payload={"conversationId": ID})
def test_a_record_is_read_as_by_the_plan(payload):
    with pytest.MonkeyPatch.context() as patch:
        readers = payments(False, patch), payments(True, patch)
    told = []
    for read in readers:
        try:
            told.append(repr(read(payload)))
        except PayloadError as error:
            told.append(str(error))
    assert told[0] == told[1]


def test_what_is_null_is_not_there(monkeypatch):
    read = payments(False, monkeypatch)
    found = read({"fee": "1", "conversationId": ID, "note": {"text": None, "count": "3"}})
    assert found.note == Note(count=3)
    assert read({"fee": "1", "conversationId": ID, "note": None}).note is None


def test_the_usual_answer_does_not_need_the_plan(monkeypatch):
    def never(value):
        raise AssertionError("the plan was asked")

    monkeypatch.setattr(codecs, "quick", lambda schema, plan: quick(schema, never))
    types = registry()
    assert types.to_json(types.converter("Status")({"approved": STATUS}), "Status") == {"approved": STATUS}
    assert types.to_json(types.converter("Envelope")({"status": {"approved": STATUS}}))["status"] == {
        "approved": STATUS
    }


def test_a_mismatch_inside_a_field_of_the_plan_is_told_with_its_path():
    types = TypeRegistry([record("At", at="timestamp"), record("Of", inner="At")])
    with pytest.raises(PayloadError, match=r"to Of: inner\.at: a timestamp with its zone is wanted"):
        types.converter("Of")({"inner": {"at": "now"}})
    with pytest.raises(Mismatch):
        SCALARS["timestamp"].read("now")

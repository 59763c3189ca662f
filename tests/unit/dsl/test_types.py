"""Declared types: what reads, what writes, what is refused, and that nothing is lost between (contract 1.5, 0.6)."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC
from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpf_streams.dsl.scalars import SCALARS
from tpf_streams.dsl.shapes import FieldSpec, RecordType, UnionType
from tpf_streams.dsl.types import TypeRegistry
from tpf_streams.errors import PayloadError

ID = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"
STATUS = {"reference": "101", "fee": "1.10", "statusCode": "1000", "payment": {"id": ID, "amount": "27.50"}}


def record(name: str, **fields: str) -> RecordType:
    return RecordType(
        name, tuple(FieldSpec(field, kind.rstrip("?"), kind.endswith("?")) for field, kind in fields.items())
    )


def registry(**options: bool) -> TypeRegistry:
    status = {"reference": "string", "fee": "decimal", "statusCode": "int64", "payment": "Payment"}
    return TypeRegistry(
        [
            record("Payment", id="uuid", amount="decimal"),
            record("Approved", **status),
            record("Refused", **status),
            record("Envelope", status="Status", note="string?"),
        ],
        [UnionType("Status", {"approved": "Approved", "refused": "Refused"})],
        **options,
    )


def test_a_generated_model_is_frozen_and_speaks_both_names():
    types = registry()
    model = types.model("Approved")
    payment = types.converter("Payment")({"id": ID, "amount": "1"})
    value = model(reference="r", fee=Decimal("1"), status_code=7, payment=payment)
    assert value == model.model_validate({"reference": "r", "fee": "1", "statusCode": 7, "payment": payment})  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="frozen"):
        value.status_code = 8


def test_a_union_is_the_arms_instance_and_its_json_has_the_arm_as_key():
    types = registry()
    value = types.converter("Status")({"approved": STATUS})
    assert types.type_of(value) == "Approved"
    assert types.arm_of(value, "Status") == "approved"
    assert types.arm_of(value, "Payment") is None
    assert types.to_json(value, "Status") == {"approved": STATUS}
    assert types.to_json(value) == STATUS
    nested = types.converter("Envelope")({"status": {"refused": STATUS}})
    assert types.to_json(nested) == {"status": {"refused": STATUS}}


def test_int64_is_a_string_in_version_3_and_a_number_in_version_2():
    for as_text, expected in ((True, "1000"), (False, 1000)):
        types = registry(int64_as_text=as_text)
        assert types.to_json(types.converter("Approved")(STATUS))["statusCode"] == expected


def test_an_instance_is_returned_as_it_is_and_json_in_a_string_is_read():
    types = registry()
    value = types.converter("Approved")(STATUS)
    assert types.converter("Approved")(value) is value
    assert types.converter("Status")(value) is value
    assert types.converter("Approved")(json.dumps(STATUS)) == value
    assert types.converter("Status")(json.dumps({"approved": json.dumps(STATUS)})) == value


def test_unknown_fields_are_ignored_and_optional_ones_may_be_absent():
    types = registry()
    read = types.converter("Envelope")
    bare = read({"status": {"approved": STATUS | {"more": [1]}, "later": {}}, "note": None, "extra": {}})
    assert bare == read({"status": {"approved": STATUS}})
    assert types.to_json(bare) == {"status": {"approved": STATUS}}
    assert types.to_json(read({"status": {"approved": STATUS}, "note": "n"}))["note"] == "n"


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (None, "an object is wanted"),
        ([], "an object is wanted"),
        ("text", "an object is wanted"),
        ("[1]", "an object is wanted"),
        ('{"approved": NaN}', "a string that begins like JSON and is not"),
        ('{"approved": {}, "approved": {}}', "a string that begins like JSON and is not"),
        ({}, "one of approved, refused is wanted as the key"),
        ({"secret-arm": {}}, "one of approved, refused is wanted as the key"),
        ({"approved": STATUS, "refused": STATUS}, "more than one arm: approved, refused"),
        ({"approved": None}, "approved: an object is wanted"),
        ({"approved": {}}, "approved.reference: missing"),
        ({"approved": STATUS | {"fee": None}}, "approved.fee: a plain decimal is wanted, as a string"),
        ({"approved": STATUS | {"payment": {"id": ID}}}, "approved.payment.amount: missing"),
        ({"approved": STATUS | {"payment": {"id": "s3cret", "amount": "1"}}}, "approved.payment.id: a uuid is wanted"),
    ],
)
def test_what_does_not_fit_is_told_by_field_and_never_by_value(payload, told):
    with pytest.raises(PayloadError) as caught:
        registry().converter("Status")(payload)
    assert str(caught.value).startswith(f"Failed converting await payload to Status: {told}")
    assert "s3cret" not in str(caught.value)
    assert "secret-arm" not in str(caught.value)
    assert caught.value.code == "INVALID_PAYLOAD"


def test_values_that_stand_for_nothing_declared():
    types = registry()
    assert types.to_json({"a": (Decimal("1.50"), None, True)}) == {"a": ["1.50", None, True]}
    with pytest.raises(PayloadError):
        types.to_json(object())
    with pytest.raises(PayloadError, match="a value of class Decimal does not stand for Payment"):
        types.to_json(Decimal(1), "Payment")
    with pytest.raises(PayloadError, match="a value of class dict is no arm of Status"):
        types.to_json({}, "Status")
    with pytest.raises(KeyError):
        types.converter("Nothing")


names = st.text("abcXYZ09_", min_size=1, max_size=6).map(lambda text: "f" + text)
texts = st.text(st.characters(exclude_categories=["Cs"]))
moments = st.datetimes(timezones=st.just(UTC)).map(lambda it: it.isoformat())
values: dict[str, st.SearchStrategy[Any]] = {
    "string": texts,
    "decimal": st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**20), max_value=10**20).map(
        lambda it: format(it, "f")
    ),
    "uuid": st.uuids().map(str),
    "timestamp": moments,
    "datetime": moments,
    "date": st.dates().map(str),
    "duration": st.integers(0, 10**9).map(lambda it: f"PT{it}S"),
    "currency": st.text("ABC", min_size=3, max_size=3),
    "uri": st.text("abc:/", min_size=1),
    "path": texts.map(lambda it: it.replace("\0", "")),
    "boolean": st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1).map(str),
    "float": st.floats(allow_nan=False, allow_infinity=False, width=32),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "bytes": st.binary().map(lambda it: b64encode(it).decode()),
}


@st.composite
def records(draw: st.DrawFn) -> tuple[RecordType, dict[str, Any]]:
    fields = draw(st.dictionaries(names, st.sampled_from(sorted(SCALARS)), min_size=1, max_size=8))
    return record("Drawn", **fields), {name: draw(values[kind]) for name, kind in fields.items()}


@given(records(), st.dictionaries(texts, st.integers()))
def test_every_record_comes_back_as_it_went(drawn, extra):
    kind, payload = drawn
    types = TypeRegistry([kind, record("Other")], [UnionType("Either", {"drawn": "Drawn", "other": "Other"})])
    value = types.converter("Drawn")(extra | payload)
    assert types.to_json(value) == payload
    wire = orjson.loads(orjson.dumps(types.to_json(value, "Either")))
    assert types.converter("Either")(wire) == value


def test_every_scalar_has_a_strategy():
    assert set(values) == set(SCALARS)

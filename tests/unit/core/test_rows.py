"""Rows keep what is put into them, in the order of their keys, and another version's are refused, not guessed."""

from __future__ import annotations

from dataclasses import MISSING, fields, replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.core.machine import Machine, pipeline
from tpf_streams.core import rows
from tpf_streams.core.execution import (
    ExecutionRecord,
    ExecutionStatus,
    OutputRecord,
    OwedKind,
    OwedRecord,
    RejectRecord,
    StreamPlace,
    Summary,
)
from tpf_streams.core.interaction import EarlyRecord, InteractionRecord, InteractionStatus
from tpf_streams.core.rows import Keys, decode, encode
from tpf_streams.core.unit import AwaitUnitRecord, Recall, SessionRecord, UnitStatus
from tpf_streams.errors import LogCorruptError

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
maybe = st.none() | texts
small = st.integers(0, 2**40)
payloads = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
counts = st.dictionaries(texts, small, max_size=3)
OF_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "str": texts,
    "str | None": maybe,
    "int": small,
    "int | None": st.none() | small,
    "bool": st.booleans(),
    "Json": payloads,
    "list[Json]": st.lists(payloads, max_size=3),
    "dict[str, int]": counts,
    "dict[str, Json]": st.dictionaries(texts, payloads, max_size=3),
    "dict[str, str] | None": st.none() | st.dictionaries(texts, texts, max_size=3),
    "tuple[str, ...] | None": st.none() | st.tuples(texts, texts, texts) | st.tuples(texts, texts, texts, texts),
    "list[list[Json]]": st.lists(st.lists(payloads, max_size=5), max_size=3),
    "InteractionStatus": st.sampled_from(InteractionStatus),
    "ExecutionStatus": st.sampled_from(ExecutionStatus),
    "UnitStatus": st.sampled_from(UnitStatus),
    "OwedKind": st.sampled_from(OwedKind),
    "Summary | None": st.none()
    | st.builds(
        Summary,
        *(small, small, small, small, counts),
        st.none() | st.builds(StreamPlace, small, small, small, texts, st.booleans(), st.booleans(), small),
    ),
    "OwedRecord | None": st.none()
    | st.builds(OwedRecord, texts, st.sampled_from(OwedKind), st.none() | small, small, payloads),
    "Recall | None": st.none() | st.builds(Recall, small, st.booleans(), small),
}
CLASSES: list[type] = [
    ExecutionRecord,
    AwaitUnitRecord,
    InteractionRecord,
    SessionRecord,
    OwedRecord,
    OutputRecord,
    RejectRecord,
    EarlyRecord,
]
each_class = pytest.mark.parametrize("cls", CLASSES, ids=[cls.__name__ for cls in CLASSES])


def records(cls: type[Any]) -> st.SearchStrategy[Any]:
    return st.builds(cls, **{field.name: OF_TYPE[str(field.type)] for field in fields(cls)})


@each_class
@settings(max_examples=30)
@given(data=st.data())
def test_every_record_comes_back(cls, data):
    record = data.draw(records(cls))
    assert decode(cls, encode(record)) == record


@each_class
@settings(max_examples=30)
@given(data=st.data())
def test_a_row_of_an_earlier_version_has_fewer_fields(cls, data):
    """Fields are only added at the end, with a default."""
    record = data.draw(records(cls))
    defaults = [field for field in fields(cls) if field.default is not MISSING or field.default_factory is not MISSING]
    values = orjson.loads(encode(record)[1:])
    for left in range(len(defaults) + 1):
        shorter = encode(b"" + orjson.dumps(values[: len(values) - left]))
        gone = {field.name: default_of(field) for field in fields(cls)[len(values) - left :]}
        assert decode(cls, shorter) == replace(record, **gone)


def default_of(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


@each_class
def test_what_is_no_such_row_is_refused(cls):
    required = [field for field in fields(cls) if field.default is MISSING and field.default_factory is MISSING]
    too_short = orjson.dumps([None] * (len(required) - 1))
    too_long = orjson.dumps([None] * (len(fields(cls)) + 1))
    for value in (b"", b"\x01", b"\x01{", b"\x01null", b"\x01" + too_short, b"\x01" + too_long):
        with pytest.raises(LogCorruptError):
            decode(cls, value)


@pytest.mark.parametrize("value", [b"\x02[]", b"\x00[]", b"[]"])
def test_a_row_of_another_version_is_refused_and_says_so(value):
    for read in (lambda it: decode(OutputRecord, it), rows.decode_bytes, rows.decode_markers):
        with pytest.raises(LogCorruptError, match=f"format version {value[0]}; this program reads 1"):
            read(value)


def test_indexes_and_markers_come_back():
    assert rows.decode_bytes(encode(b"\x00raw")) == b"\x00raw"
    assert rows.decode_markers(encode({"t/0": 7})) == {"t/0": 7}


@pytest.mark.parametrize("value", [b"\x01{", b"\x01[1]", b"\x01"])
def test_markers_that_cannot_be_read_are_refused(value):
    with pytest.raises(LogCorruptError):
        rows.decode_markers(value)


ID = "0123abcd-1111-8222-8333-444444444444"
OTHER = "0123abcd-1111-8222-8333-444444444445"


def test_ids_are_sixteen_bytes():
    assert rows.text_id(rows.raw_id(ID)) == ID
    assert len(rows.raw_id(ID)) == 16


@given(st.lists(st.integers(0, 2**63), min_size=2, max_size=6))
def test_deadlines_are_in_order_of_time(times):
    keys = Keys(3)
    made = sorted(keys.deadline(ms, ID) for ms in times)
    assert [rows.deadline_of(key) for key in made] == [(ms, ID) for ms in sorted(times)]


@given(st.integers(0, 2**40), st.integers(-3, 3))
def test_a_deadline_is_over_one_millisecond_after_it(deadline, after):
    start, end = Keys(0).deadlines_until(deadline + after)
    assert (start <= Keys(0).deadline(deadline, ID) < end) == (after > 0)
    start, end = Keys(0).expiries_until(deadline + after)
    assert (start <= Keys(0).early_expiry(deadline, ID) < end) == (after > 0)


@given(st.lists(st.integers(0, 2**32 - 2), min_size=1, max_size=6, unique=True))
def test_outputs_are_in_item_order_and_the_scalar_one_is_last(items):
    keys = Keys(0)
    made = [keys.output(ID, item) for item in sorted(items)]
    assert sorted([*made, keys.output(ID, None)]) == [*made, keys.output(ID, None)]


def test_ranges_hold_their_own_and_nothing_else():
    keys, other_slot = Keys(7), Keys(8)
    everything = {
        "execution": keys.execution(ID),
        "session": keys.session(ID),
        "unit": keys.unit(ID),
        "interaction": keys.interaction(ID),
        "correlation": keys.correlation(ID),
        "deadline": keys.deadline(5, ID),
        "output": keys.output(ID, None),
        "output of another": keys.output(OTHER, 0),
        "reject": keys.reject(ID, 2**32 - 1),
        "owed": keys.owed(ID, OwedKind.PUBLISH, None),
        "owed of another": keys.owed(OTHER, OwedKind.SEGMENT, 0),
        "early": keys.early(ID),
        "expiry": keys.early_expiry(5, ID),
        "markers": keys.markers,
        "now": keys.now,
        "other slot": other_slot.execution(ID),
    }
    assert len(set(everything.values())) == len(everything)
    ranges = {
        keys.outputs_of(ID): {"output"},
        keys.rejects_of(ID): {"reject"},
        keys.owed_of(ID): {"owed"},
        keys.all_owed(): {"owed", "owed of another"},
        keys.all_executions(): {"execution"},
        keys.all_deadlines(): {"deadline"},
        keys.all_early(): {"early"},
        keys.all_expiries(): {"expiry"},
    }
    for (start, end), wanted in ranges.items():
        assert {name for name, key in everything.items() if start <= key < end} == wanted


def test_keys_begin_with_the_slot():
    assert Keys(0x0102).execution(ID)[:2] == b"\x01\x02"


def test_owed_work_of_each_kind_and_item_has_its_own_place():
    keys = [Keys(0).owed(ID, kind, item) for kind in OwedKind for item in (None, 0, 1, 2**32 - 2)]
    assert len(set(keys)) == len(keys)


def test_the_rows_of_a_real_execution_come_back_from_their_bytes():
    machine = Machine(pipeline("Sws"))
    execution_id = machine.stream(2, ended=True)
    before = machine.execution(execution_id), machine.session(execution_id), machine.owed(execution_id)
    machine.reopen()
    assert (machine.execution(execution_id), machine.session(execution_id), machine.owed(execution_id)) == before

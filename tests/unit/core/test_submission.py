"""What a submission is told that somebody waits for: begun, met again, or begun with something else."""

from __future__ import annotations

import pytest

from tests.unit.core.machine import Machine, pipeline
from tpf_streams.core import events as ev
from tpf_streams.core.step import SourceObject

SOURCE = SourceObject("payments", "file", "in", "a.csv", "0" * 64, "in/a.csv")


def asked(it: Machine, payload: object, **more: object) -> str | None:
    return it.decide(ev.ExecutionSubmitted("tenant-1", "key-1", payload, origin="request/1", **more)).outcome  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("second", "outcome"),
    [({"a": 1, "b": "2"}, "duplicate"), ({"b": "2", "a": 1}, "duplicate"), ({"a": 2}, "conflict"), (None, "conflict")],
)
def test_the_second_of_a_key(second, outcome):
    it = Machine(pipeline("k"))
    assert asked(it, {"a": 1, "b": "2"}) == "submitted"
    assert asked(it, second) == outcome


def test_where_nobody_waits_nothing_is_told():
    it = Machine(pipeline("k"))
    for _ in range(2):
        assert it.decide(ev.ExecutionSubmitted("tenant-1", "key-1", {"a": 1})).outcome is None


def test_of_a_list_and_of_an_object_the_key_decides():
    """A list lies in rows that its first step has used up; of an object the key holds the content already."""
    listed, objects = Machine(pipeline("s<")), Machine(pipeline("k"))
    assert [asked(listed, [1]), asked(listed, [2])] == ["submitted", "duplicate"]
    assert [asked(objects, 1, source=SOURCE), asked(objects, 2, source=SOURCE)] == ["submitted", "duplicate"]

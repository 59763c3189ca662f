"""Where streams begin and end, by the shapes of the steps."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.core.machine import pipeline


def streams(shape: str) -> list[tuple[Any, ...]]:
    """(first step of the source, await step dispatched to, end) of each, and what it is made of, if of a list."""
    kinds = {(False, False): (), (True, True): ("seekable",), (True, False): ("list",)}
    return [(it.start, it.awaited, it.end, *kinds[it.listed, it.seekable]) for it in pipeline(shape).course.streams]


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ("sks", []),
        ("Sks", [(0, 1, 3)]),
        ("Sksks", [(0, 1, 5)]),
        ("kSks", [(1, 2, 4)]),
        ("Ss", [(0, None, 2)]),
        ("SSk", [(0, 2, 3)]),
        # One value expands behind an await: its answer is a list.
        ("k>", [(1, None, 1, "seekable")]),
        ("k>s", [(1, None, 2, "seekable")]),
        ("k>Sk", [(1, 2, 3, "list")]),
        ("sk>ks", [(2, 2, 4, "seekable")]),
        # A step takes all together: the stream before it ends there.
        ("Sks<", [(0, 1, 2)]),
        ("Sk<s", [(0, None, 1)]),
        ("Sk*ks", [(0, None, 1), (2, 2, 4, "seekable")]),
        ("Ss*k", [(0, None, 1), (1, 2, 3, "list")]),
        ("Sk<k>s", [(0, None, 1), (3, None, 4, "seekable")]),
        # Of one value a list of one.
        ("k<s", []),
        ("sk<", []),
        # The input is a list.
        ("s<k", []),
        ("s*k", [(0, 1, 2, "list")]),
        ("k*k", [(1, 1, 2, "seekable")]),
        ("k*k*", [(2, None, 2, "seekable")]),
        # An item has become many, and the next await needs a numbering of them.
        ("Sk>s", [(0, 1, 3)]),
        ("Sk>k", [(0, 1, 2), (2, 2, 3, "seekable")]),
        ("SkSsk", [(0, 1, 4), (4, 4, 5, "seekable")]),
        ("SkS", [(0, 1, 3)]),
        ("k>k>", [(1, 1, 2, "seekable")]),
    ],
)
def test_streams(shape, wanted):
    assert streams(shape) == wanted


def test_a_list_is_gathered_where_it_is_taken():
    assert pipeline("Sks<k>k").course.gathered == {2}
    assert pipeline("sk<").course.gathered == {1}
    assert pipeline("Sk>k").course.gathered == {2}
    assert pipeline("Sks").course.gathered == frozenset()

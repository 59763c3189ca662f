"""Every scenario of the specification is shown by a test, or says what it still needs (scenarios.toml)."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TABLE: dict[str, dict[str, Any]] = tomllib.loads(
    (Path(__file__).with_name("scenarios.toml")).read_text(encoding="utf-8")
)
IDS = (
    *(f"O{number:02}" for number in range(1, 25)),
    *(f"T{number:02}" for number in range(1, 100)),
    *(f"R{number}" for number in range(1, 31)),
)
KEYS = {"tests", "later"}
FIELD_TEST = re.compile(r"::test_[or]\d+_")
REASON_CHARS_MIN = 10
"""A reason says what is missing; a single word does not."""
AWAITED = ("SQS", "webhook", "HTTP")
"""What is still to come, and alone may leave a scenario without all of its tests."""


def test_every_scenario_has_its_place():
    assert sorted(set(IDS) - TABLE.keys()) == []
    assert sorted(TABLE.keys() - set(IDS)) == []
    assert list(TABLE) == list(IDS), "the table is kept in order"


@pytest.mark.parametrize("ident", IDS)
def test_a_scenario_is_shown_by_tests_that_exist(ident):
    entry = TABLE.get(ident, {})
    assert entry.keys() <= KEYS
    tests, later = entry.get("tests", []), entry.get("later", "")
    assert tests or later, "neither a test nor what it needs"
    assert not later or (len(later) >= REASON_CHARS_MIN and any(name in later for name in AWAITED))
    assert len(tests) == len(set(tests))
    missing = [name for name in tests if name not in names_in(name.partition("::")[0])]
    assert {name: elsewhere(name) for name in missing} == {}, "gone, or moved to where it says"


def test_every_test_of_a_field_case_is_in_the_table():
    """A test that is named by a case and missing here would not be missed when it goes."""
    named = {name for entry in TABLE.values() for name in entry.get("tests", [])}
    files = sorted(str(file.relative_to(ROOT)) for file in (ROOT / "tests").rglob("test_*.py"))
    written = {name for file in files for name in names_in(file) if FIELD_TEST.search(name)}
    assert sorted(written - named) == []


def elsewhere(name: str) -> list[str]:
    """Where a test of this name is now."""
    last = name.rpartition("::")[2]
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [it for file in files for it in names_in(str(file.relative_to(ROOT))) if it.endswith(f"::{last}")]


@cache
def names_in(file: str) -> frozenset[str]:
    """The tests of a file as file::name or file::Class::name; none for a file that is not there."""
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    return frozenset(f"{file}::{name}" for name in _names(ast.parse(path.read_text(encoding="utf-8")).body))


def _names(body: Sequence[ast.stmt], prefix: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            yield prefix + node.name
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from _names(node.body, f"{node.name}::")

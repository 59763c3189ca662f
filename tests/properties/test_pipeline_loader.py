"""Whatever is in a pipeline file, a load ends in time, with a pipeline or with problems that name file and line.

Good files are broken at random: by lines, by characters, by bytes, and by exchanging pieces of them. What loads all the
same must have a topology that can be shown, and no complaint of the JSON Schema: an editor that marks what runs is not
believed again. `pipelines/` keeps what was found.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from tests.unit.dsl.test_schema import GOOD, as_editors_see
from tpf_streams.dsl import load_pipeline
from tpf_streams.dsl.document import parse_yaml, read_text
from tpf_streams.dsl.report import Report
from tpf_streams.dsl.schema import pipeline_schema
from tpf_streams.errors import DefinitionError
from tpf_streams.runtime.topology import topology_of

KEPT = sorted((Path(__file__).parent / "pipelines").glob("*.yaml"))
EXAMPLES = int(os.environ.get("TPF_FUZZ_EXAMPLES", "200"))
CPU_MAX_S = 1.0
"""Of this process, so that a busy machine is no hang."""

VALIDATOR = Draft7Validator(pipeline_schema())
SOURCES = [path.read_bytes() for path in GOOD]
PIECES = [
    b"null", b"~", b"[]", b"{}", b"''", b'"', b"'", b"no", b"on", b"true", b"0", b"-1", b"1e9", b"1:30", b"0x1F",
    b".inf", b"P1M", b"-PT5M", b"PT999999999H", b"&a ", b"*a", b"*status", b"<<: *status", b"!!int ", b"!x ", b"? ",
    b"- ", b"| ", b"> ", b": ", b"#", b"\t", b"---\n", b"...\n", b"%YAML 1.1\n", b"@", b"`", b"{a: 1}", b"[a, [b]]",
    b"\\", b"${HOME}", b"${", b'"\\UFFFFFFFF"', b'"\\uD800"', b'"\\0"', b'"\\n"', b'"\\e[31m"', b"\xff", b"\x00",
    b"\xef\xbb\xbf", b"\xc2\x85", b"\xe2\x80\xa8", b"\r", b"EXPANSION", b"MANY_TO_ONE", b"await", b"kafka", b"sqs",
    b"webhook", b"interaction-api", b"PaymentStatus", b"string", b"kind: await", b"terminal: true", b"x" * 300,
    b"cardinality: REDUCTION", b"a.b:c", b"json:loads", b"x" * 300 + b":y", b"[" * 40,
]  # fmt: skip

Mutation = Callable[[bytes], bytes]


def at(data: bytes, place: float) -> int:
    return int(place * len(data))


def inserted(place: float, piece: bytes) -> Mutation:
    return lambda data: data[: at(data, place)] + piece + data[at(data, place) :]


def cut(place: float, count: int) -> Mutation:
    return lambda data: data[: at(data, place)] + data[at(data, place) + count :]


def flipped(place: float, bit: int) -> Mutation:
    def flip(data: bytes) -> bytes:
        where = min(at(data, place), len(data) - 1)
        return data[:where] + bytes([data[where] ^ 1 << bit]) + data[where + 1 :] if data else data

    return flip


def by_lines(change: Callable[[list[bytes], int, int], None], one: float, other: float) -> Mutation:
    def changed(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        if lines:
            change(lines, int(one * len(lines)), int(other * len(lines)))
        return b"".join(lines)

    return changed


def remove(lines: list[bytes], one: int, other: int) -> None:
    del lines[one]


def repeat(lines: list[bytes], one: int, other: int) -> None:
    lines.insert(other, lines[one])


def exchange(lines: list[bytes], one: int, other: int) -> None:
    lines[one], lines[other] = lines[other], lines[one]


def exchange_values(lines: list[bytes], one: int, other: int) -> None:
    key, sign, value = lines[one].partition(b": ")
    other_key, other_sign, other_value = lines[other].partition(b": ")
    if sign and other_sign:
        lines[one], lines[other] = key + sign + other_value, other_key + other_sign + value


def indent(lines: list[bytes], one: int, other: int) -> None:
    lines[one] = b"  " + lines[one]


def outdent(lines: list[bytes], one: int, other: int) -> None:
    lines[one] = lines[one].removeprefix(b"  ")


def replace_value(piece: bytes) -> Callable[[list[bytes], int, int], None]:
    def change(lines: list[bytes], one: int, other: int) -> None:
        key, sign, _ = lines[one].partition(b":")
        if sign:
            lines[one] = key + b": " + piece + b"\n"

    return change


places = st.floats(0, 1, exclude_max=True)
pieces = st.sampled_from(PIECES) | st.binary(max_size=4)
changes = st.sampled_from([remove, repeat, exchange, exchange_values, indent, outdent]) | pieces.map(replace_value)
mutations = st.one_of(
    st.builds(by_lines, changes, places, places),
    st.builds(inserted, places, pieces),
    st.builds(cut, places, st.integers(1, 30)),
    st.builds(flipped, places, st.integers(0, 7)),
)


def check(path: Path) -> None:
    began_s = time.process_time()
    try:
        loaded = load_pipeline(path, environ={}, require_secret=False)
    except DefinitionError as error:
        problems = error.problems
    else:
        problems = []
        json.dumps(topology_of(loaded))
        value: Any = as_editors_see(parse_yaml(read_text(path, "f"), "f", Report()))
        assert [f"{it.json_path}: {it.message}" for it in VALIDATOR.iter_errors(value)] == []
    assert time.process_time() - began_s < CPU_MAX_S
    lines = path.read_bytes().decode(errors="replace").splitlines()
    for problem in problems:
        assert problem.file == str(path), problem
        assert 1 <= problem.line <= len(lines) + 1, problem
        assert problem.key and problem.message and str(problem).isprintable(), problem


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(source=st.sampled_from(SOURCES), changes=st.lists(mutations, min_size=1, max_size=6))
def test_a_broken_file_tells_file_and_line(tmp_path, source, changes):
    for change in changes:
        source = change(source)
    path = tmp_path / "pipeline.yaml"
    path.write_bytes(source)
    check(path)


@pytest.mark.parametrize("path", [*GOOD, *KEPT], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_was_found_stays_mended(path):
    check(path)

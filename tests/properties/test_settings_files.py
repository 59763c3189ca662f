"""Whatever is in a file of settings, a load ends in time, with a pipeline or with problems that name file and line."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tpf_streams.dsl import load_pipeline
from tpf_streams.dsl.settings_table import SETTINGS
from tpf_streams.errors import DefinitionError

PIPELINE = Path(__file__).parents[2] / "topologies" / "restaurant_approval" / "pipeline.yaml"
EXAMPLES = int(os.environ.get("TPF_FUZZ_EXAMPLES", "150"))
CPU_MAX_S = 1.0
"""Of this process, so that a busy machine is no hang."""

keys = st.sampled_from([*SETTINGS, "pipeline.handoff.x", "quarkus.port", "%dev.sync", "restaurant-approval.rate", "x"])
values = st.sampled_from(
    ["", "true", "AUTO", "5", "-1", "1e9", "PT5M", "P1M", "a,b", ",", "${HOME}", "${NOPE}", "${NOPE:5}", "${", "\\",
     "\\\\", "\\u0041", "\\uD800", "\\uD83D\\uDE00", "\\u00", "#", "=", ":", " " * 300, "x" * 9000, "[a]", "{a: b}",
     "- a", "\t"]
)  # fmt: skip
signs = st.sampled_from(["=", ":", " = ", ": ", "\\=", "", " ", "\\\n"])
lines = st.builds("{}{}{}\n".format, keys, signs, values) | st.sampled_from(
    ["# x\n", "\n", "!\n", "\\\n", "a\\\n", "=\n"]
)

KEPT = {
    "half-a-pair.properties": "pipeline.orchestrator.resume-token-secret=\\uD800\n",
    "a-whole-pair.properties": "restaurant-approval.greeting=\\uD83D\\uDE00\n",
    "blanks.properties": f"a{' ' * 100_000}b\n",
    "a-line-that-goes-on.properties": "a\\\n" * 80_000,
    "placeholders-that-do-not-end.properties": f"sync={'${A:' * 30_000}\n",
    "nul.properties": "pipeline.application-id=\\u0000\n",
    "many-unknown.yaml": "".join(f"pipeline.key{number}: x\n" for number in range(4000)),
}


def check(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8")
    began_s = time.process_time()
    try:
        load_pipeline(PIPELINE, environ={}, require_secret=False, config=path)
    except DefinitionError as error:
        problems = error.problems
    else:
        problems = []
    assert time.process_time() - began_s < CPU_MAX_S
    for problem in problems:
        assert problem.file in (str(path), str(PIPELINE)), problem
        assert problem.line > 0 and problem.key and problem.message and str(problem).isprintable(), problem


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.lists(lines | st.text(max_size=8), max_size=8).map("".join),
    suffix=st.sampled_from(["properties", "yaml"]),
)
def test_a_broken_file_tells_file_and_line(tmp_path, content, suffix):
    check(tmp_path / f"settings.{suffix}", content)


@pytest.mark.parametrize("name", KEPT)
def test_what_was_found_stays_mended(tmp_path, name):
    check(tmp_path / name, KEPT[name])

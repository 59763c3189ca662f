"""Every broken pipeline tells exactly the problems that its own `#! key: message` comments promise, on their lines.

A message may go on after what the comment quotes; nothing may be missing and nothing more be told.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tpf_streams.dsl import load_pipeline
from tpf_streams.errors import DefinitionError

BROKEN = Path(__file__).parent / "data" / "broken"
ENVIRON = {"PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET": "a secret that no message may show"}


def promised(path: Path) -> list[tuple[int, str]]:
    found = []
    for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        found += [(line, promise.strip()) for promise in text.split("#!")[1:]]
    return found


@pytest.mark.parametrize("path", sorted(BROKEN.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_broken_pipeline_tells_every_problem_where_it_is(path):
    environ = {} if path.stem == "secret-missing" else ENVIRON
    with pytest.raises(DefinitionError) as caught:
        load_pipeline(path, environ=environ)
    told = [(problem.line, f"{problem.key}: {problem.message}") for problem in caught.value.problems]
    unmet = [it for it in promised(path) if not any(it[0] == line and text.startswith(it[1]) for line, text in told)]
    surplus = [it for it in told if not any(it[0] == line and it[1].startswith(text) for line, text in promised(path))]
    assert (unmet, surplus) == ([], [])
    assert all(problem.file == str(path) for problem in caught.value.problems)
    assert ENVIRON["PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET"] not in str(caught.value)


def test_there_are_enough_broken_files():
    assert len(list(BROKEN.glob("*.yaml"))) >= 20


def test_a_problem_reads_file_line_key_message():
    path = BROKEN / "timeout-zero.yaml"
    with pytest.raises(DefinitionError) as caught:
        load_pipeline(path, environ=ENVIRON)
    assert str(caught.value).splitlines()[0] == (
        f"{path}:23: steps[0].timeout: 'PT0S': must be longer than nothing, as PT5M"
    )

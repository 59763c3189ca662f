"""Every broken pipeline tells exactly the problems that stand beside it in `NAME.expected`, word by word.

After a change of words, write what is told now and read it: `python -m tests.unit.dsl.test_errors`, then git diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tpf_streams.dsl import load_pipeline
from tpf_streams.dsl.document import MAX_BYTES
from tpf_streams.errors import DefinitionError

BROKEN = Path(__file__).parent / "broken"
FILES = sorted(BROKEN.glob("*.yaml"))
ENVIRON = {"PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET": "a secret that no message may show"}


def told(path: Path) -> str:
    """What a load in the file's own folder says, so that no message holds the place of this checkout."""
    with pytest.raises(DefinitionError) as caught:
        load_pipeline(Path(path.name), environ={} if path.stem == "secret-missing" else ENVIRON)
    assert all(problem.file == path.name and problem.line > 0 for problem in caught.value.problems)
    return f"{caught.value}\n"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_broken_pipeline_tells_every_problem_where_it_is(path, monkeypatch):
    monkeypatch.chdir(BROKEN)
    found = told(path)
    assert found == path.with_suffix(".expected").read_text(encoding="utf-8")
    assert ENVIRON["PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET"] not in found


def test_there_are_enough_broken_files_and_each_has_its_words():
    assert len(FILES) >= 40
    assert {path.stem for path in BROKEN.glob("*.expected")} == {path.stem for path in FILES}


def test_a_file_of_a_megabyte_is_refused_and_not_read(tmp_path):
    path = tmp_path / "pipeline.yaml"
    path.write_bytes(b"# a page\n" * 120_000)
    with pytest.raises(DefinitionError) as caught:
        load_pipeline(path, environ=ENVIRON)
    assert str(caught.value) == f"{path}:1: file: larger than {MAX_BYTES} bytes, the most that is read"


def test_a_file_full_of_nonsense_tells_a_hundred_problems(tmp_path):
    path = tmp_path / "pipeline.yaml"
    path.write_text("".join(f"key{number}: x\n" for number in range(1000)))
    with pytest.raises(DefinitionError) as caught:
        load_pipeline(path, environ=ENVIRON)
    assert len(caught.value.problems) == 100


if __name__ == "__main__":
    os.chdir(BROKEN)
    for file in FILES:
        file.with_suffix(".expected").write_text(told(file), encoding="utf-8")

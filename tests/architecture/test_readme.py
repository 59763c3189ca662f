"""README says what is true: its snippets run, its settings table is the one the program has, its paths exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tpf_streams.dsl import settings_table_markdown

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_settings_table_is_the_one_of_the_program():
    found = re.search(r"<!-- settings -->\n(.*?)\n<!-- /settings -->", README, re.DOTALL)
    assert found is not None
    assert found.group(1).strip() == settings_table_markdown().strip()


def test_the_driver_snippet_runs(monkeypatch):
    monkeypatch.chdir(ROOT)
    snippets = [code for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "TopologyTestDriver" in code]
    assert len(snippets) == 1
    exec(compile(snippets[0], "README.md", "exec"), {})


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\b(?:topologies|tpf_streams|tests)/[\w./]+\w", README))))
def test_a_named_path_exists(path):
    assert (ROOT / path).exists()

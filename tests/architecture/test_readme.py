"""README says what is true: its snippets run, its settings table is the one the program has, its paths exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.architecture.generated import GENERATED
from tpf_streams.cli.main import app

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
def test_what_is_made_from_the_code_is_up_to_date(path):
    """`make docs` writes it anew."""
    assert path.read_text(encoding="utf-8") == GENERATED[path]()


def test_the_driver_snippet_runs(monkeypatch):
    monkeypatch.chdir(ROOT)
    snippets = [code for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "TopologyTestDriver" in code]
    assert len(snippets) == 1
    exec(compile(snippets[0], "README.md", "exec"), {})


def test_the_example_of_ones_own_runs_as_it_stands_there(monkeypatch, tmp_path):
    monkeypatch.setenv("PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET", "a-secret-for-tests-only")
    section = README.partition("### Your own")[2].partition("\n### ")[0]
    for text in re.findall(r"```(?:yaml|python)\n(.*?)```", section, re.DOTALL):
        (tmp_path / re.match(r"# (\w+\.\w+)", text)[1]).write_text(text)  # type: ignore[index]
    commands = [line.partition("  #")[0].strip() for line in section.splitlines() if line.startswith("    ")]
    commands = [line for line in commands if line.startswith(("echo '{", "tpf-streams"))]
    assert len(commands) == 5
    found = ""
    for command in commands:
        ids = re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", found)
        line = command.replace("tpf-streams", f"{sys.executable} -m tpf_streams.cli").replace("EXECUTION", "".join(ids))
        done = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        found = done.stdout
    assert '{"number":"i-1","booked":true}' in found


def test_the_faust_app_is_one(tmp_path):
    """Its pipeline is the example above it, and Faust finds its agent."""
    files = re.findall(r"```(?:yaml|python)\n(# (\w+\.\w+)\b.*?)```", README, re.DOTALL)
    for text, name in files:
        (tmp_path / name).write_text(text)
    words = [sys.executable, "-m", "faust", "-A", "app", "agents"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "notify" in done.stdout and "invoices-outputs" in done.stdout


@pytest.mark.parametrize("topology", sorted(path.parent.name for path in ROOT.glob("topologies/*/pipeline.yaml")))
def test_the_commands_of_a_topology_are_calls_that_exist(topology):
    """Files exist, and options are ones that the program has; running them is for the tests of the topology."""
    text = (ROOT / "topologies" / topology / "README.md").read_text()
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    commands = [line.strip() for line in lines if line.startswith("    tpf-streams")]
    assert commands
    assert [path for path in re.findall(r"topologies/[\w./]+\w", text) if not (ROOT / path).exists()] == []
    for command in commands:
        known = CliRunner().invoke(app, [command.split()[1], "--help"], terminal_width=200).stdout
        assert [option for option in re.findall(r"--[a-z-]+", command) if option not in known] == [], command


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\b(?:topologies|tpf_streams|tests)/[\w./]+\w", README))))
def test_a_named_path_exists(path):
    assert (ROOT / path).exists()

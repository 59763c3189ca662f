"""README says what is true: its snippets run, its settings table is the one the program has, its paths exist."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.architecture.generated import GENERATED
from tests.e2e.program import wait_until
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


def test_a_person_decides_within_a_minute(tmp_path):
    """By the commands as they stand there, from the start of `dev` on; only its port and its folder are others."""
    section = README.partition("## Five minutes with a person in the loop")[2].partition("\n## ")[0]
    lines = [line[4:] for line in section.splitlines() if line.startswith("    ")]
    begun, url = lines.index("tpf-streams dev"), lines.index("export TPF_STREAMS_URL=http://127.0.0.1:8080")
    commands = re.findall(r"^tpf-streams [^\n]*(?:\n  [^\n]*)*", "\n".join(lines[url + 1 :]), re.MULTILINE)
    assert [command.split()[1] for command in commands] == ["submit", "pending", "complete", "show"]
    assert lines[:begun] == ["make venv", ". .venv/bin/activate"]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program, began_s = f"{sys.executable} -m tpf_streams.cli", time.monotonic()
    words = [*program.split(), "dev", "--port", str(port), "--data-dir", str(tmp_path / "dev")]
    with (tmp_path / "said").open("w") as said, subprocess.Popen(words, cwd=ROOT, stderr=said) as dev:
        try:
            wait_until(lambda: f"HTTP: http://127.0.0.1:{port}" in (tmp_path / "said").read_text(), 60)
            environ = {**os.environ, "TPF_STREAMS_URL": f"http://127.0.0.1:{port}"}
            found: dict[str, str] = {}
            for command in commands:
                ids = re.findall(r"^[0-9a-f-]{36}$", found.get("pending", ""), re.MULTILINE)
                line = command.replace("tpf-streams", program).replace("\n", " ").replace("INTERACTION", "".join(ids))
                line = line.replace("EXECUTION", found.get("submit", "").partition("\n")[0])
                found[command.split()[1]] = output_of(line, environ)
                if len(found) == 1:
                    wait_until(lambda: "interactionId" in output_of(f"{program} pending --json", environ), 30)
            assert found["complete"] == "admitted\n"
            assert time.monotonic() - began_s < 60
            assert "in 20 minutes" in found["show"]
            assert "COMPLETED" in found["show"]
        finally:
            dev.terminate()


def output_of(line: str, environ: dict[str, str]) -> str:
    done = subprocess.run(line, shell=True, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (line, done.stdout, done.stderr)
    return done.stdout


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

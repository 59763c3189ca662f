"""What `dev` prepares before anything runs, and what it shows of a pipeline."""

from __future__ import annotations

import json
import os
import shlex
import socket
import stat
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from tests.api.serving import SECRET
from tpf_streams.cli import dev as command
from tpf_streams.cli.guide import guide
from tpf_streams.cli.main import app
from tpf_streams.cli.reloading import FILES, Reloading, WorkerCall
from tpf_streams.cli.samples import sample_of
from tpf_streams.dsl.load import load_pipeline
from tpf_streams.dsl.payload_schema import completion_schema, input_schema
from tpf_streams.logs.local.directory import DataDirectory

ROOT = Path(__file__).parents[3]
TOPOLOGIES = ("restaurant_approval", "fraud_check", "csv_payments")


def loaded(name: str):
    return load_pipeline(ROOT / "topologies" / name / "pipeline.yaml", settings_overrides=SECRET, environ={})


def tried(*words: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, ["dev", *words])
    return found.exit_code, found.stderr


def test_a_port_in_use_is_told_before_anything_starts(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, told = tried("--port", str(port), "--data-dir", str(tmp_path / "dev"))
    assert (code, f"127.0.0.1:{port} cannot be had (Address already in use): choose another" in told) == (2, True), told


def test_without_the_source_there_is_no_sample(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tpf_streams.__file__", str(tmp_path / "lib/tpf_streams/__init__.py"))
    code, told = tried()
    assert (code, "name a pipeline.yaml" in told, list(tmp_path.iterdir())) == (2, True, [])


def test_the_secret_is_made_once_and_for_its_owner_alone(tmp_path, monkeypatch):
    monkeypatch.delenv(command.SECRET_VARIABLE, raising=False)
    found = command._environment(tmp_path)
    file = tmp_path / command.SECRET_FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(file.read_text()) >= 32
    assert found[command.SECRET_VARIABLE] == file.read_text() == command._environment(tmp_path)[command.SECRET_VARIABLE]


def test_a_secret_that_is_given_is_taken(tmp_path, monkeypatch):
    monkeypatch.setenv(command.SECRET_VARIABLE, "of somebody's own")
    assert command._environment(tmp_path)[command.SECRET_VARIABLE] == "of somebody's own"
    assert list(tmp_path.iterdir()) == []


def test_fresh_deletes_what_dev_has_made_and_nothing_else(tmp_path):
    foreign = tmp_path / "mine"
    foreign.mkdir()
    (foreign / "thesis.txt").touch()
    code, told = tried("--fresh", "--data-dir", str(foreign))
    assert (code, "was not made by tpf-streams dev" in told, (foreign / "thesis.txt").exists()) == (2, True, True)
    ours = tmp_path / "dev"
    command._prepare(ours, fresh=False, ours=False)
    command._secret(ours / command.SECRET_FILE)
    (ours / "data").mkdir()
    command._prepare(ours, fresh=True, ours=False)
    assert (stat.S_IMODE(ours.stat().st_mode), list(ours.iterdir())) == (0o700, [])


def test_fresh_leaves_alone_what_another_one_runs_on(tmp_path):
    command._secret(tmp_path / command.SECRET_FILE)
    other = DataDirectory(tmp_path / "data")
    try:
        code, _ = tried("--fresh", "--data-dir", str(tmp_path))
        assert (code, (tmp_path / "data/lock").exists()) == (2, True)
    finally:
        other.release()


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_a_sample_is_what_its_schema_and_the_codec_take(name):
    found = loaded(name)
    schemas = [completion_schema(found.types, it) for it in found.definition.steps if hasattr(it, "transport")]
    for schema in (input_schema(found.types, found.definition), *schemas):
        jsonschema.Draft202012Validator(schema).validate(sample_of(schema))


def test_a_type_that_holds_itself_has_an_end():
    schema = {"$ref": "#/$defs/T", "$defs": {"T": {"type": "object", "properties": {}, "required": ["next"]}}}
    schema["$defs"]["T"]["properties"] = {"next": {"$ref": "#/$defs/T"}}  # type: ignore[index]
    assert len(json.dumps(sample_of(schema))) < 200


@pytest.mark.parametrize(
    ("name", "simulated", "shown", "hidden"),
    [
        ("restaurant_approval", True, ["submit", "pending --payload", "complete --interaction-id ID"], ["--token"]),
        ("csv_payments", True, ["--input"], ["submit", "complete"]),
        ("fraud_check", False, ["submit", "--token TOKEN", "--data-dir 'a b'"], []),
    ],
)
def test_the_guide_shows_what_can_be_done(name, simulated, shown, hidden):
    lines = list(guide(loaded(name), "http://127.0.0.1:1", Path("a b"), simulated=simulated))
    text = "\n".join(lines)
    assert [words for words in shown if words not in text] + [words for words in hidden if words in text] == []
    for line in lines:
        if line.startswith("  tpf-streams"):
            words = shlex.split(line)
            told = CliRunner().invoke(app, [words[1], "--help"], terminal_width=200).stdout
            assert [word for word in words if word.startswith("--") and word not in told] == [], line


@pytest.mark.parametrize(
    ("path", "concerns"),
    [
        ("steps.py", True),
        ("pipeline.yaml", True),
        ("application.properties", True),
        (".steps.py", False),
        ("steps.py~", False),
        ("out.csv", False),
        (FILES, True),
        (f"elsewhere/{FILES}", False),
    ],
)
def test_only_what_a_pipeline_is_made_of_starts_it_again(tmp_path, path, concerns):
    call = WorkerCall(str(tmp_path / "pipeline.yaml"), str(tmp_path), "127.0.0.1", 1)
    assert Reloading(call, os.environ)._concerns(None, str(tmp_path / path)) is concerns  # type: ignore[arg-type]

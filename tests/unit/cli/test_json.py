"""With --json there is one JSON object on stdout, also when the call is refused; without it there is none."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from tpf_streams.cli import main
from tpf_streams.cli.console import Exit, JsonAwareCommand, fail
from tpf_streams.cli.main import app

ROOT = Path(__file__).parents[3]
CSV_PAYMENTS = str(ROOT / "topologies/csv_payments/pipeline.yaml")
BROKEN = str(ROOT / "tests/unit/dsl/broken/kafka.yaml")

REFUSED = [
    (("validate", "nothing.yaml"), "USAGE"),
    (("validate", BROKEN), "INVALID_DEFINITION"),
    (("validate", CSV_PAYMENTS, "--set", "x"), "USAGE"),
    (("run", CSV_PAYMENTS), "USAGE"),
    (("run", BROKEN, "--log", "memory"), "INVALID_DEFINITION"),
    (("run", CSV_PAYMENTS, "--data-dir", "{empty}", "--input", "nothing.csv"), "USAGE"),
    (("status", "--data-dir", "{empty}"), "USAGE"),
    (("status", "--data-dir", "{empty}/nothing"), "USAGE"),
    (("status", "--url", "http://127.0.0.1:9"), "USAGE"),
    (("status", "x", "--url", "ftp://somewhere"), "USAGE"),
    (("submit", "{", "--url", "http://127.0.0.1:9"), "USAGE"),
    (("submit", "1", "--data-dir", "{empty}", "--url", "http://127.0.0.1:9"), "USAGE"),
    (("submit", "1", "--data-dir", "{empty}"), "USAGE"),
    (("submit", "@nothing", "--data-dir", "{empty}"), "USAGE"),
    (("show", "x"), "USAGE"),
    (("show", "x", "--url", "http://u:p@127.0.0.1"), "USAGE"),
    (("pending", "--url", "http://127.0.0.1:9", "--token"), "USAGE"),
    (("pending", "--data-dir", "{empty}", "--limit", "0"), "USAGE"),
    (("complete", "--data-dir", "{empty}", "--payload", "1"), "USAGE"),
    (("complete", "--data-dir", "{empty}", "--payload", "@nothing", "--interaction-id", "x"), "USAGE"),
    (("redrive", "x", "--data-dir", "{empty}"), "USAGE"),
    (("redrive", "--data-dir", "{empty}"), "USAGE"),
    (("redrive", "x", "--data-dir", "{empty}", "--expected-version", "new"), "USAGE"),
    (("cancel", "x", "--data-dir", "{empty}"), "USAGE"),
    (("cancel",), "USAGE"),
    (("replay", "x", "--data-dir", "{empty}/nothing"), "USAGE"),
    (("replay", "x"), "USAGE"),
    (("replay", "x", "--log", "kafka", "--pipeline", BROKEN), "INVALID_DEFINITION"),
    (("describe", "--data-dir", "{empty}", "--wrong"), "USAGE"),
    (("describe",), "USAGE"),
    (("provider", CSV_PAYMENTS, "--reject", "7"), "USAGE"),
    (("provider", BROKEN), "INVALID_DEFINITION"),
]


@pytest.mark.parametrize(("words", "code"), REFUSED, ids=lambda it: it if isinstance(it, str) else " ".join(it)[:40])
def test_a_refusal_leaves_one_object(words, code, tmp_path):
    words = [word.replace("{empty}", str(tmp_path)) for word in words]
    found = CliRunner().invoke(app, [*words, "--json"])
    error = json.loads(found.stdout)["error"]
    assert (found.exit_code, error["exitCode"], error["code"]) == (2, 2, code)
    assert error["message"]
    assert ("problems" in error) is (code == "INVALID_DEFINITION")
    assert found.stderr, "a person is told as well"
    without = CliRunner().invoke(app, words)
    assert (without.exit_code, without.stdout) == (2, "")


def test_every_command_that_takes_json_is_tried_here():
    taking = {
        command.callback.__name__
        for command in app.registered_commands
        if command.callback and "as_json" in inspect.signature(command.callback).parameters
    }
    assert taking == {words[0] for words, _ in REFUSED}


def test_a_fault_of_the_program_leaves_one_too(monkeypatch, capsys):
    def broken(*_: object) -> None:
        raise RuntimeError("the payload is 4711")

    monkeypatch.setattr("sys.argv", ["tpf-streams", "status", "--data-dir", ".", "--json"])
    monkeypatch.setattr("tpf_streams.cli.status.desk_of", broken)
    with pytest.raises(SystemExit) as left:
        main.main()
    shown = capsys.readouterr()
    assert left.value.code == 1
    error = json.loads(shown.out)["error"]
    assert (error["code"], error["exitCode"]) == ("INTERNAL_ERROR", 1)
    assert "4711" not in shown.out + shown.err


def test_the_version_is_told():
    found = CliRunner().invoke(app, ["--version"])
    assert (found.exit_code, found.stdout) == (0, "tpf-streams 0.1.0\n")


def test_the_schema_is_printed():
    found = CliRunner().invoke(app, ["schema"])
    assert json.loads(found.stdout)["title"] == "pipeline.yaml of tpf-streams"


@pytest.mark.parametrize("leave", [Exit.FAILED, Exit.USAGE])
def test_a_refusal_is_called_as_its_exit_code_is(leave):
    """What is not there is no wrong call."""
    app_of_one = typer.Typer()

    @app_of_one.command(cls=JsonAwareCommand)
    def ask(as_json: Annotated[bool, typer.Option("--json")] = False) -> None:
        fail("nothing is known of it", leave)

    found = CliRunner().invoke(app_of_one, ["--json"])
    assert found.exit_code == leave
    assert json.loads(found.stdout) == {
        "error": {"code": leave.name, "message": "nothing is known of it", "exitCode": int(leave)}
    }


@pytest.mark.parametrize("command", app.registered_commands, ids=lambda it: it.callback.__name__)
def test_every_command_shows_examples(command):
    name = command.callback.__name__
    told = CliRunner().invoke(app, [name, "--help"], terminal_width=200)
    assert told.exit_code == 0
    assert f"tpf-streams {name}" in told.stdout.partition("Examples")[2]

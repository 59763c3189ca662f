"""`tpf-streams run` from inside: what the options become, and the exit code of a result."""

from __future__ import annotations

import re
import signal
import socket
from pathlib import Path

import click
import orjson
import pytest
import typer
from typer.testing import CliRunner

from tpf_streams.cli.main import app
from tpf_streams.cli.options import overrides_of, text_of
from tpf_streams.cli.pending import span
from tpf_streams.cli.run import exit_code
from tpf_streams.runtime.run_result import RunResult

ROOT = Path(__file__).parents[3]
PIPELINE = ROOT / "topologies/csv_payments/pipeline.yaml"
ROWS_12 = ROOT / "topologies/csv_payments/data/payments_12.csv"
ANSWERED = ("--simulate-provider", "reject=0.08")
FAILED = [{"executionId": "e", "source": None, "code": "C", "message": "m"}]


@pytest.fixture
def call(monkeypatch):
    monkeypatch.setenv("PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET", "a-secret-for-tests-only")
    runner = CliRunner()
    return lambda *words: runner.invoke(app, ["run", str(PIPELINE), *map(str, words)])


def test_a_run_in_memory(call, tmp_path):
    found = call("--input", ROWS_12, "--output-dir", tmp_path, "--log", "memory", "--simulate-provider", "reject=0.08")
    assert found.exit_code == 0, found.output
    assert "12 items in, 12 out (4 approved, 8 unapproved)" in found.stdout
    assert (tmp_path / "payments_12.csv.out").exists()


def test_where_outputs_go_is_told_when_no_file_is_written(monkeypatch, tmp_path):
    monkeypatch.setenv("PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET", "a-secret-for-tests-only")
    (tmp_path / "no.jsonl").write_text("{\n")
    pipeline = ROOT / "topologies/restaurant_approval/pipeline.yaml"
    words = ["run", str(pipeline), "--input", str(tmp_path), "--data-dir", str(tmp_path / "data")]
    found = CliRunner().invoke(app, [*words, "--output-dir", str(tmp_path / "out")])
    assert found.exit_code == 1
    assert "outputs go to topic restaurant-approval-outputs; --output-dir has nothing to do" in found.stderr
    assert f"tpf-streams status --data-dir {tmp_path}" in found.stderr
    assert "no.jsonl:1: not JSON" in found.stdout.replace("\n", "")


def test_one_json_object_and_nothing_else_on_stdout(call, tmp_path):
    words = ["--input", ROWS_12, "--output-dir", tmp_path / "out", "--data-dir", tmp_path / "data", "--json"]
    found = call(*words, "--simulate-provider", "delay-ms=1,duplicates=1", "--sync", "interval")
    assert found.exit_code == 0, found.output
    result = orjson.loads(found.stdout)
    assert (result["items"], result["completed"]) == (12, 12)
    assert 0 <= result["duplicates"] <= 12


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--input", ROWS_12], "--data-dir is needed"),
        (["--input", "nowhere.csv", "--log", "memory"], "there is no such file"),
        (["--log", "kafka"], "kafka"),
        (["--log", "memory", "--input", ROWS_12, "--simulate-provider", "rejects=1"], "name=value is wanted"),
        (["--log", "memory", "--input", ROWS_12, "--set", "topology.partitions=0"], "topology.partitions"),
        (["--log", "memory", "--input", ROWS_12, "--set", "no.such.key=1"], "unknown setting"),
    ],
)
def test_a_wrong_call_is_told(call, words, told):
    found = call(*words)
    assert found.exit_code == 2
    assert told in found.stderr
    assert found.stdout == ""


@pytest.mark.parametrize(
    ("result", "stopped_by", "strict", "code"),
    [
        (RunResult(), None, True, 0),
        (RunResult(rejected_rows=1), None, False, 0),
        (RunResult(rejected_rows=1), None, True, 3),
        (RunResult(failed=FAILED), None, False, 1),
        (RunResult(failed=FAILED, rejected_rows=1), None, True, 1),
        (RunResult(failed=FAILED), signal.SIGINT, True, 130),
        (RunResult(), signal.SIGTERM, False, 143),
    ],
)
def test_an_exit_code_tells_the_worst(result, stopped_by, strict, code):
    assert exit_code(result, stopped_by, strict=strict) == code


def test_settings_keep_what_stands_behind_the_first_sign():
    assert overrides_of(["a=b=c", " d =e", "a=last"]) == {"a": "last", "d": "e"}
    assert overrides_of(None) == {}
    with pytest.raises((typer.Exit, click.exceptions.Exit)):
        overrides_of(["=value"])


def test_a_payload_is_a_text_a_file_or_what_comes_in(tmp_path, monkeypatch):
    file = tmp_path / "answer.json"
    file.write_text('{"a": 1}')
    assert text_of('{"b": 2}') == '{"b": 2}'
    assert text_of(f"@{file}") == '{"a": 1}'
    with file.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert text_of("-") == '{"a": 1}'
    with pytest.raises((typer.Exit, click.exceptions.Exit)):
        text_of("@/nowhere")


@pytest.mark.parametrize(
    ("ms", "text"), [(-1, "over"), (0, "0s"), (61_000, "1m 1s"), (3_660_000, "1h 1m"), (90_000_000, "1d 1h")]
)
def test_a_span_shows_its_two_largest_units(ms, text):
    assert span(ms) == text


def test_metrics_are_served_while_it_runs(call, tmp_path):
    """And their place is told, on stderr."""
    found = call("--input", ROWS_12, "--output-dir", tmp_path, "--log", "memory", "--metrics-port", "0", *ANSWERED)
    assert found.exit_code == 0, found.output
    assert re.search(r"metrics: http://127\.0\.0\.1:\d+/metrics\n", found.stderr)


def test_a_metrics_port_that_is_taken(call, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["--input", ROWS_12, "--output-dir", tmp_path, "--log", "memory", "--metrics-port", port, *ANSWERED]
        found = call(*words)
    assert found.exit_code == 2
    assert f"metrics cannot be served on 127.0.0.1:{port}: Address already in use" in found.stderr


def test_a_metrics_port_without_metrics(call, tmp_path):
    words = ["--input", ROWS_12, "--output-dir", tmp_path, "--log", "memory", "--metrics-port", "0"]
    found = call(*words, "--set", "pipeline.telemetry.metrics.enabled=false")
    assert found.exit_code == 2
    assert "pipeline.telemetry.metrics.enabled is false" in found.stderr

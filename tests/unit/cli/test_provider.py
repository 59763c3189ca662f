"""`tpf-streams provider` and the names of pipelines, without a broker."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tpf_streams.cli.main import app
from tpf_streams.cli.options import pipeline_file

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def test_a_pipeline_is_a_path_or_a_name():
    file = Path("topologies/csv_payments/pipeline.yaml")
    assert pipeline_file("csv-payments") == pipeline_file("csv_payments") == pipeline_file(str(file)) == file


@pytest.mark.parametrize("text", ["nowhere", "topologies/nowhere.yaml", "topologies", "../etc", ""])
def test_what_is_no_pipeline_is_told(text):
    with pytest.raises(typer.BadParameter, match="there is no such file"):
        pipeline_file(text)


def test_a_name_is_good_for_every_command():
    found = CliRunner().invoke(app, ["validate", "fraud-check"])
    assert (found.exit_code, found.stdout.splitlines()[0]) == (0, "topologies/fraud_check/pipeline.yaml: valid")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--reject", "8"], "reject=8.0: a probability from 0 to 1 is wanted"),
        (["--burst", "0"], "burst=0: 1 to 10000 is wanted"),
        (["--key", "csvId"], "'none'"),
        (["--set", "kafka.security.protocol=SASL_SSL"], "kafka.sasl.username: needed"),
        (["--set", "kafka.bootstrap=x"], "unknown setting"),
    ],
)
def test_a_wrong_call_is_told(words, told):
    found = CliRunner().invoke(app, ["provider", "csv-payments", *words])
    assert (found.exit_code, told in found.stderr) == (2, True), found.stderr


def test_a_pipeline_without_a_kafka_step_has_nothing_to_answer():
    found = CliRunner().invoke(app, ["provider", "restaurant-approval"])
    assert (found.exit_code, "awaits over kafka" in found.stderr) == (2, True), found.stderr


def test_no_broker_is_told():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{free.getsockname()[1]}"
        found = CliRunner().invoke(app, ["provider", "csv-payments", "--bootstrap", where])
    assert (found.exit_code, f"no Kafka at {where}" in found.stderr) == (1, True), found.stderr

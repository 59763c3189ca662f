"""Which directory an operator's question goes to, where the log is on Kafka."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from tpf_streams.cli.main import app


@pytest.fixture
def workers(tmp_path):
    """Directories that two workers have left as they are while they run."""
    for name in ("0", "1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lock").touch()
    return tmp_path


def asked(data_dir):
    found = CliRunner().invoke(app, ["status", "--data-dir", str(data_dir)])
    return found.exit_code, found.stderr


def test_of_several_workers_one_is_to_be_named(workers):
    for name in ("0", "1"):
        (workers / name / "control.sock").touch()
    code, told = asked(workers)
    assert (code, f"name one of {workers}/0, {workers}/1" in told) == (2, True), told


@pytest.mark.parametrize("inside", [".", "1"])
def test_without_a_worker_nobody_can_answer_for_kafka(workers, inside):
    code, told = asked(workers / inside)
    assert (code, "no worker runs there" in told) == (2, True), told


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("reason", ["cancel", "an-id", "--reason", "caf\udce9"]),
        ("reason", ["redrive", "an-id", "--reason", "caf\udce9"]),
        ("executionId", ["redrive", "caf\udce9"]),
        ("payload", ["complete", "--interaction-id", "an-id", "--payload", "caf\udce9"]),
    ],
)
def test_words_of_another_encoding_are_a_wrong_call(tmp_path, name, words):
    """As a terminal of Latin-1 types them; they were an internal error."""
    found = CliRunner().invoke(app, [*words, "--data-dir", str(tmp_path)])
    assert (found.exit_code, f"{name}: UTF-8 is wanted" in found.stderr) == (2, True), found.stderr

"""What a person sees at a terminal, and a program in its pipe."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.e2e.program import PIPELINE, ROOT, ROWS_1K, Place, environment, finish, result_of, started, tpf, wait_until


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_progress_shows_on_a_terminal_only_and_never_on_stdout(place):
    words = [*place.words(ROWS_1K, provider="reject=0.08,delay-ms=100"), "--json"]
    ours, theirs = pty.openpty()
    seen: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(ours, 65_536):
                seen.append(piece)
        except OSError:
            return  # a pty without its other end

    process = subprocess.Popen(
        [sys.executable, "-m", "tpf_streams.cli", *map(str, words)],
        cwd=ROOT,
        env=environment(TERM="xterm", COLUMNS="120"),
        stdout=subprocess.PIPE,
        stderr=theirs,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    os.close(theirs)
    reading = threading.Thread(target=read)
    reading.start()
    found = finish(process)
    reading.join()
    os.close(ours)
    shown = b"".join(seen).decode()
    assert found.returncode == 0, shown
    assert result_of(subprocess.CompletedProcess([], 0, found.stdout, shown))["items"] == 1000
    assert "items done" in shown
    assert "in flight" in shown
    assert "\x1b" not in found.stdout


def test_a_pipe_gets_no_progress(place):
    found = tpf(*place.words(ROWS_1K, provider="reject=0.08,delay-ms=100"))
    assert found.returncode == 0
    assert "items done" not in found.stderr
    assert "\x1b" not in found.stderr + found.stdout
    assert "1,000 items in, 1,000 out (907 approved, 93 unapproved)" in found.stdout
    assert "items/s" in found.stdout
    assert str(place.out / "payments_1k.csv.out") in found.stdout
    assert "RocksDB memory 64 MiB" in found.stderr


def test_a_step_that_does_not_end_does_not_keep_the_process(place, tmp_path):
    """It runs in a thread that nobody can stop: it is owed, and the next run does it again."""
    (tmp_path / "slow_steps.py").write_text(
        "import pathlib, time\n"
        "def slow(value):\n    pathlib.Path(__file__).with_name('began').touch()\n    time.sleep(600)\n"
    )
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text(
        "version: 3\nappName: slow\ntransport: LOCAL\n"
        "types:\n  Order: {fields: [[orderId, string]]}\n"
        "steps:\n  - {name: Slow, service: 'slow_steps:slow', cardinality: ONE_TO_ONE, input: Order, output: Order,"
        " terminal: true}\n"
    )
    order = tmp_path / "order.json"
    order.write_text('{"orderId": "a"}')
    with started(*place.words(order, pipeline=pipeline, provider=None), "--json") as process:
        wait_until(lambda: (tmp_path / "began").exists())
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        found = finish(process, timeout=30)
    assert found.returncode == 130
    assert time.monotonic() - began < 10
    assert result_of(found)["executions"] == {"RUNNING": 1}


def test_an_error_of_ours_shows_where_but_not_what(place, tmp_path):
    """Its words may hold a payload."""
    (tmp_path / "sitecustomize.py").write_text(
        "import tpf_streams.runtime.batch as batch\n"
        "async def run(self, found):\n    raise ValueError('card 4111')\n"
        "batch.BatchRun.run = run\n"
    )
    env = environment(PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    found = tpf(*place.words(ROWS_1K), env=env)
    assert found.returncode == 1
    assert "internal error, ValueError in " in found.stderr
    assert "4111" not in found.stderr
    shown = tpf(*place.words(ROWS_1K), env={**env, "TPF_STREAMS_TRACEBACK": "1"})
    assert "card 4111" in shown.stderr


def test_help_shows_examples():
    for command in ("validate", "run", "status", "pending", "complete", "describe"):
        found = tpf(command, "--help", env=environment(COLUMNS="200"))
        assert found.returncode == 0
        assert "Examples" in found.stdout
        assert f"tpf-streams {command} " in found.stdout
    assert "Exit codes" in tpf("--help").stdout


def test_operators_are_answered_by_a_run_in_memory_too(tmp_path):
    words = ["run", PIPELINE, "--input", ROWS_1K, "--log", "memory", "--data-dir", tmp_path / "data"]
    with started(*words, "--output-dir", tmp_path / "out") as process:
        wait_until(lambda: (tmp_path / "data/control.sock").exists())
        found = tpf("describe", "--data-dir", tmp_path / "data", "--json")
        assert result_of(found)["partitions"] == 8
        second = tpf(*words)
        assert (second.returncode, "in use by process" in second.stderr) == (2, True)
        process.send_signal(signal.SIGTERM)
        assert finish(process).returncode == 143

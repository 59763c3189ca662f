"""`tpf-streams dev` with its real processes: from nothing to a decision, edits, and every way to end."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.e2e.program import DATA, environment, finish, result_of, started, tpf, wait_until

PIPELINE = """
version: 3
appName: desk
types:
  Order:
    fields: [[number, string]]
  Verdict:
    fields: [[ok, boolean]]
steps:
  - name: Check
    service: desk_steps:check
    input: Order
    output: Order
  - name: Ask
    kind: await
    input: Order
    output: Verdict
    timeout: PT1H
    await:
      correlation: {strategy: interactionId}
      transport: {type: interaction-api}
"""
STEPS = """
def check(order: dict):
    return {"number": order["number"] + "-first"}
"""


class Dev:
    """One `dev` that runs."""

    def __init__(self, process: subprocess.Popen[str], log: Path, url: str) -> None:
        self.process = process
        self.url = url
        self._log = log

    @property
    def said(self) -> str:
        return self._log.read_text()

    def ready(self) -> bool:
        try:
            with urlopen(f"{self.url}/ready", timeout=5) as found:
                return bool(found.status == 200)
        except (URLError, OSError):
            return False

    def wait_for(self, words: str, times: int = 1) -> None:
        wait_until(lambda: self.said.count(words) >= times or self.process.poll() is not None, 60)
        assert self.said.count(words) >= times, self.said

    def tpf(self, *words: str) -> Any:
        return result_of(tpf(*words, "--url", self.url, "--json"))

    def asked(self, number: str) -> Any:
        """What is asked of a person for an order that is submitted."""
        execution = self.tpf("submit", json.dumps({"number": number}), "--key", number)["executionId"]
        wait_until(lambda: self.tpf("show", execution)["units"], 30, pause=0.2)
        return self.tpf("show", execution)["units"][0]["interaction"]


@contextmanager
def developing(folder: Path, *words: str | Path) -> Iterator[Dev]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = folder / "said"
    with (
        log.open("w") as err,
        started("dev", *words, "--port", str(port), "--data-dir", folder / "dev", env=without_secret(), err=err) as it,
    ):
        found = Dev(it, log, f"http://127.0.0.1:{port}")
        wait_until(lambda: found.ready() or it.poll() is not None, 60, pause=0.1)
        assert it.poll() is None, found.said
        yield found


def without_secret() -> dict[str, str]:
    return environment(PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET=None)


@pytest.fixture
def desk(tmp_path):
    folder = tmp_path / "desk"
    folder.mkdir()
    (folder / "pipeline.yaml").write_text(PIPELINE)
    (folder / "desk_steps.py").write_text(STEPS)
    return folder


def test_the_commands_that_it_shows_lead_to_a_decision(tmp_path):
    """Of the sample, by its commands as they stand there; in well under a minute."""
    began_s = time.monotonic()
    with developing(tmp_path) as dev:
        lines = [line.strip() for line in dev.said.splitlines() if line.startswith("  tpf-streams")]
        shown = {line.split()[1]: shlex.split(line)[1:] for line in lines}
        execution = dev.tpf(*shown["submit"])["executionId"]
        wait_until(lambda: dev.tpf(*shown["pending"])["interactions"], 30, pause=0.2)
        (interaction,) = dev.tpf(*shown["pending"])["interactions"]
        words = [
            word.replace("ID", interaction["interactionId"]) if word == "ID" else word for word in shown["complete"]
        ]
        assert dev.tpf(*words)["outcome"] == "admitted"
        assert time.monotonic() - began_s < 60
        wait_until(lambda: dev.tpf("show", execution)["result"], 30, pause=0.2)
        dev.process.send_signal(signal.SIGINT)
        ended_s = time.monotonic()
        assert finish(dev.process).returncode == 130
        assert time.monotonic() - ended_s < 15
        assert not dev.ready()
        secret = (tmp_path / "dev/resume-token.secret").read_text()
        assert secret not in dev.said


def test_an_edit_is_seen_at_once_and_what_is_stored_is_kept(desk, tmp_path):
    with developing(tmp_path, desk / "pipeline.yaml") as dev:
        assert dev.asked("a")["requestPayload"] == {"number": "a-first"}
        (desk / "desk_steps.py").write_text(STEPS.replace("first", "other"))
        dev.wait_for("desk_steps.py changed: starting again")
        dev.wait_for("HTTP: ", 2)
        assert dev.asked("b")["requestPayload"] == {"number": "b-other"}
        dev.process.send_signal(signal.SIGTERM)
        assert finish(dev.process).returncode == 143
    with developing(tmp_path, desk / "pipeline.yaml", "--fresh") as dev:
        assert dev.tpf("pending")["interactions"] == []


def test_an_edit_that_does_not_hold_is_told_and_the_next_one_waited_for(desk, tmp_path):
    pipeline, steps = desk / "pipeline.yaml", desk / "desk_steps.py"
    with developing(tmp_path, pipeline) as dev:
        first = dev.asked("a")
        pipeline.write_text(PIPELINE.replace("timeout: PT1H", "timeout: soon"))
        dev.wait_for("it does not run like this")
        line = PIPELINE.splitlines().index("    timeout: PT1H") + 1
        assert re.search(rf"pipeline\.yaml:{line}: steps\[1\]\.timeout: ", dev.said)
        pipeline.write_text(PIPELINE)
        dev.wait_for("HTTP: ", 2)
        steps.write_text("def check(order: dict:\n")
        dev.wait_for("it does not run like this", 2)
        assert dev.process.poll() is None
        steps.write_text(STEPS)
        dev.wait_for("HTTP: ", 3)
        assert [it["interactionId"] for it in dev.tpf("pending")["interactions"]] == [first["interactionId"]]


def test_providers_are_simulated_and_nothing_outlives_a_killed_one(tmp_path):
    with developing(tmp_path, "csv-payments", "--input", DATA / "payments_12.csv") as dev:
        wait_until(lambda: list((tmp_path / "dev/out").glob("*.csv.out")), 60, pause=0.2)
        os.kill(dev.process.pid, signal.SIGKILL)
        wait_until(lambda: not dev.ready(), 30, pause=0.2)

"""`tpf-streams run --http`: a restaurant approves over HTTP, whatever happens to the process in between."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import APPROVAL, finish, start, tpf, wait_until
from tests.orders import ANN

HEADERS = {"x-tenant-id": "default", "Content-Type": "application/json"}
ORDER = ANN
DECIDED_AT = "2026-01-31T12:00:00Z"
PENDING = "/pipeline/interactions/pending"
COMPLETE = "/pipeline/interactions/complete"


class Server:
    """A run that serves, and what it says over HTTP."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url

    def ask(self, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        named = {**HEADERS, **{name.replace("_", "-"): text for name, text in headers.items()}}
        request = urllib.request.Request(self.url + path, data, named)
        try:
            with urllib.request.urlopen(request, timeout=20) as found:
                return found.status, json.load(found)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, json.load(refused)

    def get(self, path: str) -> Any:
        status, found = self.ask(path)
        assert status == 200, found
        return found

    def waiting(self, execution_id: str) -> dict[str, Any]:
        """The interaction that an execution waits for."""
        wait_until(lambda: self.get(f"/pipeline/executions/{execution_id}")["status"] == "WAITING_EXTERNAL")
        return next(it for it in self.get(PENDING) if it["executionId"] == execution_id)


@contextmanager
def serving(folder: Path, *more: str, program: tuple[str, ...] = ("tpf_streams.cli",)) -> Iterator[Server]:
    told = folder / "told"
    with told.open("w") as err:
        words: list[str | Path] = ["run", APPROVAL, "--data-dir", folder / "data", "--http", "0", *more]
        process = start(*words, err=err, program=program)
    try:
        wait_until(lambda: "HTTP: " in told.read_text() or process.poll() is not None)
        url = re.search(r"^HTTP: (http://127\.0\.0\.1:\d+),", told.read_text(), re.MULTILINE)
        assert url is not None, told.read_text()
        server = Server(process, url[1])
        wait_until(lambda: server.ask("/ready")[0] == 200)
        yield server
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("arm", "fields", "result"),
    [
        ("accepted", {"note": "in 20 minutes"}, ("APPROVED", "ACCEPTED", "in 20 minutes")),
        ("declined", {"declineReason": "closed"}, ("DECLINED", "DECLINED", "closed")),
    ],
)
def test_a_restaurant_decides_by_http_alone(tmp_path, arm, fields, result):
    """Contract 12.4: step index 2 while it waits, 3 afterwards."""
    with serving(tmp_path) as server:
        status, begun = server.ask("/pipeline/run-async", ORDER, Idempotency_Key="o-1")
        assert (status, begun["duplicate"]) == (202, False)
        interaction = server.waiting(begun["executionId"])
        assert server.get(begun["statusUrl"])["stepIndex"] == 2
        order = interaction["requestPayload"]["orderId"]
        body = {
            "interactionId": interaction["interactionId"],
            "responsePayload": {arm: {"orderId": order, "decidedAt": DECIDED_AT, **fields}},
            "actor": "chef",
        }
        assert server.ask(COMPLETE, body)[0] == 200
        wait_until(lambda: server.get(begun["statusUrl"])["status"] == "SUCCEEDED")
        assert server.get(begun["statusUrl"])["stepIndex"] == 3
        assert server.get(begun["statusUrl"] + "/result") == {
            "orderId": order,
            "outcome": result[0],
            "resolvedAt": DECIDED_AT,
            "restaurantStatus": result[1],
            "summary": result[2],
        }
        server.process.send_signal(signal.SIGTERM)
        assert finish(server.process).returncode == 143


def test_a_kill_between_a_decision_and_its_answer(tmp_path):
    """The person's retry is told `duplicate`, another decision `conflict`; one continuation, one output."""
    with serving(tmp_path, program=("tests.e2e.killed_answer",)) as server:
        _, begun = server.ask("/pipeline/run-async", ORDER, Idempotency_Key="o-1")
        interaction = server.waiting(begun["executionId"])
        order = interaction["requestPayload"]["orderId"]
        body = {
            "interactionId": interaction["interactionId"],
            "responsePayload": {"accepted": {"orderId": order, "decidedAt": DECIDED_AT}},
        }
        with pytest.raises((urllib.error.URLError, http.client.HTTPException, ConnectionError)):
            server.ask(COMPLETE, body)
        assert server.process.wait(20) == -signal.SIGKILL
    with serving(tmp_path) as server:
        status, again = server.ask(COMPLETE, body)
        assert (status, again["outcome"], again["duplicate"]) == (200, "duplicate", True)
        other = {"declined": {"orderId": order, "decidedAt": DECIDED_AT, "declineReason": "closed"}}
        status, refused = server.ask(COMPLETE, {**body, "responsePayload": other})
        assert (status, refused["outcome"]) == (409, "conflict")
        wait_until(lambda: server.get(begun["statusUrl"])["status"] == "SUCCEEDED")
        status, repeated = server.ask("/pipeline/run-async", ORDER, Idempotency_Key="o-1")
        assert (status, repeated["duplicate"], repeated["executionId"]) == (202, True, begun["executionId"])
        assert server.get(PENDING) == []
        server.process.send_signal(signal.SIGTERM)
        finish(server.process)
    described = tpf("describe", "--data-dir", tmp_path / "data", "--json")
    assert json.loads(described.stdout)["topics"]["restaurant-approval-outputs"] == 1


def test_a_port_that_is_taken_and_an_address_that_is_none(tmp_path):
    with serving(tmp_path) as server:
        port = server.url.rpartition(":")[2]
        found = tpf("run", APPROVAL, "--data-dir", tmp_path / "other", "--http", port)
        assert found.returncode == 2 and f"HTTP cannot be served on 127.0.0.1:{port}" in found.stderr
    for text in ("x", "127.0.0.1", "70000", "-1"):
        found = tpf("run", APPROVAL, "--data-dir", tmp_path / "other", "--http", text)
        assert found.returncode == 2 and "--http" in found.stderr

"""What a command makes of a worker's answers: asked again within bounds, and a word on what to do for each refusal."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from tpf_streams.cli import http_client
from tpf_streams.cli.main import app

TOKEN = "a-bearer-token-4711"
Reply = tuple[int, Any, dict[str, str]]
FOUND = {"executionId": "x", "status": "WAITING_EXTERNAL"}


class Worker:
    """Answers one request after another with what it is given, and keeps what it was asked; the last answer stays."""

    def __init__(self, *answers: Reply) -> None:
        self._answers = list(answers)
        self.asked: list[dict[str, str]] = []
        """Headers."""

    def next(self) -> Reply:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@contextmanager
def listening(worker: Worker) -> Iterator[str]:
    """In a thread of its own: the commands block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            worker.asked.append(dict(self.headers))
            status, body, headers = worker.next()
            data = body if isinstance(body, bytes) else orjson.dumps(body)
            self.send_response(status)
            for name, text in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET  # noqa: N815 - the name is the library's

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(10)


def good(body: Any, status: int = 200, **headers: str) -> Reply:
    return status, body, {name.replace("_", "-"): text for name, text in headers.items()}


def problem(status: int, outcome: str, **headers: str) -> Reply:
    return good({"status": status, "outcome": outcome, "detail": "so it is"}, status, **headers)


def run(url: str, *words: str, env: dict[str, str] | None = None) -> Any:
    return CliRunner().invoke(app, [*words, "--url", url], env=env)


@pytest.fixture
def slept(monkeypatch):
    pauses: list[float] = []
    monkeypatch.setattr(http_client, "sleep", pauses.append)
    return pauses


def test_where_a_worker_says_so_it_is_asked_again(slept):
    worker = Worker(problem(503, "starting", Retry_After="1"), good(FOUND))
    with listening(worker) as url:
        found = run(url, "status", "x")
    assert (found.exit_code, len(worker.asked), slept) == (0, 2, [1.0]), found.output
    assert "trying again" in found.stderr


def test_it_is_not_asked_for_ever(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(http_client, "monotonic", lambda: clock[0])
    monkeypatch.setattr(http_client, "sleep", lambda pause: clock.__setitem__(0, clock[0] + pause))
    worker = Worker(problem(503, "unavailable", Retry_After="3600"))
    with listening(worker) as url:
        found = run(url, "status", "x")
    assert (found.exit_code, clock[0]) == (1, http_client.AGAIN_MAX_S)
    assert len(worker.asked) == 1 + http_client.AGAIN_MAX_S / http_client.PAUSE_MAX_S
    assert "try again in a moment" in found.stderr
    assert found.stderr.count("trying again") == 1


@pytest.mark.parametrize(
    ("outcome", "asked"), [("undecided", 1), ("unavailable", 1), ("elsewhere", 2), ("starting", 2)]
)
def test_what_may_not_be_done_twice_is_sent_again_only_where_nothing_was_done(slept, outcome, asked):
    worker = Worker(problem(503, outcome, Retry_After="1"), good({"outcome": "redriven"}))
    with listening(worker) as url:
        found = run(url, "redrive", "x")
    assert (len(worker.asked), found.exit_code) == (asked, 2 - asked)


def test_a_submission_and_an_answer_may_be_sent_twice(slept):
    again = problem(503, "undecided", Retry_After="1")
    submitted = {"executionId": "x", "duplicate": True, "statusUrl": "/pipeline/executions/x"}
    worker = Worker(again, good(submitted, 202), again, good({"outcome": "duplicate"}))
    with listening(worker) as url:
        found = run(url, "submit", "1", "--key", "k")
        assert found.stdout.split() == ["x", f"{url}/pipeline/executions/x"]
        assert run(url, "complete", "--interaction-id", "i", "--payload", "1").stdout == "duplicate\n"
    assert [headers.get("Idempotency-Key") for headers in worker.asked] == ["k", "k", None, None]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (problem(401, "unauthorized"), "set TPF_STREAMS_TOKEN"),
        (problem(403, "forbidden"), "the token in TPF_STREAMS_TOKEN, or the tenant"),
        (problem(404, "not_found"), "see status and pending"),
        (problem(400, "tenant_required"), "--tenant or TPF_STREAMS_TENANT"),
        (good(b"<html>", 502), "not how a worker answers"),
        (good(b"<html>"), "not answer as a worker does"),
        (good(b"", 302, Location="http://127.0.0.1:9/"), "status 302"),
    ],
)
def test_each_refusal_has_a_word_on_what_to_do(answer, words):
    with listening(Worker(answer)) as url:
        found = run(url, "status", "x")
    assert (found.exit_code, found.stdout) == (1, "")
    assert words in found.stderr


def test_where_nobody_listens():
    found = run("http://127.0.0.1:9", "pending")
    assert found.exit_code == 1
    assert "nobody answers at http://127.0.0.1:9 (connection refused)" in found.stderr
    assert "tpf-streams dev" in found.stderr


def test_the_token_is_sent_and_never_shown():
    worker = Worker(problem(401, "unauthorized"))
    with listening(worker) as url:
        found = run(url, "status", "x", "--json", env={"TPF_STREAMS_TOKEN": TOKEN})
    (headers,) = worker.asked
    assert (headers["Authorization"], "x-tenant-id" in headers) == (f"Bearer {TOKEN}", False)
    assert TOKEN not in found.output


def test_a_token_that_breaks_the_header_is_refused_without_showing_it():
    found = run("http://127.0.0.1:9", "status", "x", env={"TPF_STREAMS_TOKEN": f"{TOKEN}\r\nx: y"})
    assert (found.exit_code, TOKEN in found.output) == (2, False)


def test_it_is_not_redirected_with_the_token():
    other = Worker(good(FOUND))
    with listening(other) as there:
        worker = Worker(good(b"", 307, Location=f"{there}/pipeline/executions/x"))
        with listening(worker) as url:
            found = run(url, "status", "x", env={"TPF_STREAMS_TOKEN": TOKEN})
    assert (found.exit_code, other.asked) == (1, [])


def test_a_pending_list_goes_on_behind_its_cursor():
    def page(number: int) -> list[dict[str, Any]]:
        return [{"interactionId": f"i-{number}", "transportType": "kafka", "createdAtEpochMs": time.time_ns() // 10**6}]

    worker = Worker(good(page(1), x_next_cursor="c"), good([], x_next_cursor="d"), good(page(2)))
    with listening(worker) as url:
        found = run(url, "pending", "--json", "--limit", "5")
    shown = orjson.loads(found.stdout)
    assert [it["interactionId"] for it in shown["interactions"]] == ["i-1", "i-2"]
    assert (shown["nextCursor"], len(worker.asked)) == (None, 3)


def test_more_than_a_command_takes_is_not_read_to_its_end(monkeypatch):
    monkeypatch.setattr(http_client, "BODY_BYTES_MAX", 1024)
    with listening(Worker(good({"executionId": "x" * 2000}))) as url:
        found = run(url, "status", "x")
    assert (found.exit_code, "get it with another client" in found.stderr) == (1, True)

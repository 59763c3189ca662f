"""What a client may send: its size, depth, time and type; and what is said while rows are elsewhere."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.api.serving import ORDER, TENANT, accepted, loaded_with, serving
from tpf_streams.logs.memory import MemoryLog

RUN = "/pipeline/run-async"
JSON = {**TENANT, "Content-Type": "application/json"}


async def asked(served, path, data, headers=JSON):
    async with served.client.post(path, data=data, headers=headers) as found:
        return found.status, (await found.json(content_type=None))["outcome"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"  ",
        b"{",
        b'{"a": NaN}',
        b'{"a": 1, "a": 2}',
        b"\xff",
        b"\xef\xbb\xbf{}",
        b'{"a": "\\ud800"}',
        b"[" * 65 + b"]" * 65,
        b"[" * 100_000,
    ],
    ids=["empty", "blank", "cut", "nan", "repeated", "no-utf8", "bom", "surrogate", "deep", "open"],
)
async def test_one_json_policy(in_memory, data):
    """Contract 0.6, on this way in as on every other."""
    assert await asked(in_memory, RUN, data) == (400, "invalid_envelope")
    assert await asked(in_memory, "/pipeline/interactions/complete", data) == (400, "invalid_envelope")


@pytest.mark.parametrize(
    "headers",
    [{"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}, {"Content-Type": ""}],
)
async def test_another_content_type(in_memory, headers):
    assert await asked(in_memory, RUN, b"{}", {**TENANT, **headers}) == (415, "unsupported_media_type")


async def test_a_type_that_is_json_too(in_memory):
    headers = {**TENANT, "Content-Type": "application/vnd.order+json; charset=utf-8"}
    async with in_memory.client.post(RUN, data=json.dumps(ORDER), headers=headers) as found:
        assert found.status == 202


async def test_the_settings_bound_a_body():
    async with serving(loaded_with(http__max_body_bytes="1024", http__max_depth="3")) as served:
        assert await asked(served, RUN, b"[[[1]]]") == (422, "invalid_payload")
        assert await asked(served, RUN, b"[[[[1]]]]") == (400, "invalid_envelope")
        assert await asked(served, RUN, b" " * 1025) == (413, "payload_too_large")

        async def piece_by_piece():
            for _ in range(5):
                yield b" " * 256

        assert await asked(served, RUN, piece_by_piece()) == (413, "payload_too_large")


async def test_a_body_that_does_not_come():
    async with serving(loaded_with(http__read_timeout="PT0.1S")) as served:

        async def never():
            yield b"{"
            await asyncio.sleep(5)

        assert await asked(served, RUN, never()) == (408, "timeout")


async def test_an_outcome_that_does_not_come_is_not_known(monkeypatch):
    async with serving(loaded_with(http__answer_timeout="PT0.1S")) as served:

        async def never(data):
            await asyncio.sleep(5)

        interaction = await served.waiting()
        monkeypatch.setattr(served.application, "complete", never)
        body = {"interactionId": interaction["interactionId"], "responsePayload": accepted(interaction)}
        async with served.client.post("/pipeline/interactions/complete", json=body, headers=TENANT) as found:
            assert (found.status, found.headers["Retry-After"]) == (503, "1")
            assert (await found.json(content_type=None))["outcome"] == "undecided"


async def test_a_defect_says_nothing_of_what_was_sent(in_memory, monkeypatch, caplog):
    async def broken(payload, **more):
        raise ZeroDivisionError("secret words")

    monkeypatch.setattr(in_memory.application, "submit_and_wait", broken)
    async with in_memory.client.post(RUN, json=ORDER, headers=TENANT) as found:
        text = await found.text()
        assert (found.status, json.loads(text)["outcome"]) == (500, "internal_error")
    assert "secret" not in text + caplog.text
    assert "ZeroDivisionError" in caplog.text


async def test_rows_that_are_elsewhere_are_never_a_404(in_memory, monkeypatch):
    """What this process does not hold it knows nothing of: ask again, or ask the other."""
    interaction = await in_memory.waiting()
    monkeypatch.setattr(MemoryLog, "unseen", tuple(range(in_memory.log.partitions)))
    execution, ident = interaction["executionId"], interaction["interactionId"]
    asks = [
        ("GET", f"/pipeline/executions/{execution}", None),
        ("GET", f"/pipeline/executions/{execution}/result", None),
        ("POST", f"/pipeline/executions/{execution}/cancel", {}),
        ("POST", f"/pipeline/executions/{execution}/redrive", {}),
        ("GET", f"/pipeline/interactions/{ident}", None),
        ("POST", f"/pipeline/interactions/{ident}/cancel", {}),
        ("POST", "/pipeline/interactions/complete", {"interactionId": ident, "responsePayload": accepted(interaction)}),
        ("POST", RUN, ORDER),
    ]
    for method, path, body in asks:
        async with in_memory.client.request(method, path, json=body, headers=TENANT) as found:
            assert (found.status, found.headers["Retry-After"]) == (503, "1"), path
            assert (await found.json(content_type=None))["outcome"] == "elsewhere"
    monkeypatch.setattr(in_memory.application.worker, "partitions", [])
    async with in_memory.client.get(f"/pipeline/executions/{execution}", headers=TENANT) as found:
        assert "with another worker" in (await found.json(content_type=None))["detail"]


async def test_an_id_that_routes_nowhere_is_known_to_be_none(in_memory, monkeypatch):
    monkeypatch.setattr(MemoryLog, "unseen", tuple(range(in_memory.log.partitions)))
    await in_memory.get("/pipeline/executions/no-id-of-ours", 404)

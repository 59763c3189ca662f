"""The commands against a worker's URL: what is told over HTTP is what the rows say."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from typer.testing import CliRunner

from tests.api.serving import ORDER, Served, accepted
from tpf_streams.cli.main import app


async def tpf(served: Served, *words: str, code: int = 0, stdin: str | None = None) -> Any:
    """-> what stdout holds, or else the line on stderr."""
    url = str(served.client.make_url("")).rstrip("/")
    found = await asyncio.to_thread(CliRunner().invoke, app, [*words, "--json", "--url", url], input=stdin)
    assert found.exit_code == code, found.output
    return json.loads(found.stdout)


async def begun(served: Served, key: str = "o-1") -> tuple[str, dict[str, Any]]:
    found = await tpf(served, "submit", "-", "--key", key, stdin=json.dumps(ORDER))
    interaction = await served.waiting(key)
    return found["executionId"], interaction


async def test_from_an_input_to_a_result(served):
    execution, interaction = await begun(served)
    assert (await tpf(served, "submit", json.dumps(ORDER), "--key", "o-1"))["outcome"] == "duplicate"
    shown = await tpf(served, "pending", "--payload")
    assert [it["interactionId"] for it in shown["interactions"]] == [interaction["interactionId"]]
    assert shown["interactions"][0]["requestPayload"] == interaction["requestPayload"]
    shown = await tpf(served, "show", execution)
    (unit,) = shown["units"]
    assert (unit["status"], unit["stepIndex"], unit["itemized"]) == ("WAITING_EXTERNAL", 2, False)
    assert unit["interaction"]["requestPayload"] == interaction["requestPayload"]
    answer = json.dumps(accepted(interaction, note="soon"))
    words = ("complete", "--interaction-id", interaction["interactionId"], "--payload", answer)
    assert (await tpf(served, *words))["outcome"] == "admitted"
    ended = await tpf(served, "submit", json.dumps(ORDER), "--key", "o-1", "--wait")
    assert (ended["status"], ended["result"]["outcome"]) == ("SUCCEEDED", "APPROVED")
    assert (await tpf(served, *words))["outcome"] == "duplicate"
    shown = await tpf(served, "show", execution)
    assert (shown["units"][0]["status"], shown["result"]) == ("COMPLETED", ended["result"])
    assert shown["units"][0]["interaction"]["responsePayload"] == accepted(interaction, note="soon")
    assert (await tpf(served, "show", interaction["interactionId"]))["interaction"]["status"] == "COMPLETED"
    assert (await tpf(served, "status", execution))["stepIndex"] == 3


async def test_what_is_refused_is_an_outcome(in_memory):
    execution, interaction = await begun(in_memory)
    ident = interaction["interactionId"]
    found = await tpf(in_memory, "complete", "--interaction-id", ident, "--payload", "{}", code=1)
    assert found["outcome"] == "invalid_payload"
    assert "accepted, declined" in found["reason"]
    assert (await tpf(in_memory, "redrive", execution, code=1))["outcome"] == "not_failed"
    found = await tpf(in_memory, "submit", json.dumps({**ORDER, "items": "soup"}), "--key", "o-1", code=1)
    assert (found["error"]["code"], execution in found["error"]["message"]) == ("conflict", True)
    found = await tpf(in_memory, "submit", "{}", "--key", "o-2", code=1)
    assert (found["error"]["code"], "requestId" in found["error"]["message"]) == ("invalid_payload", True)
    found = await tpf(in_memory, "show", execution.replace("-", "+"), code=1)
    assert found["error"]["code"] == "not_found"


async def test_either_is_cancelled(in_memory):
    execution, interaction = await begun(in_memory)
    other, _ = await begun(in_memory, "o-2")
    found = await tpf(in_memory, "cancel", interaction["interactionId"], "--reason", "closed")
    assert (found["kind"], found["outcome"]) == ("interaction", "cancelled")
    found = await tpf(in_memory, "cancel", other)
    assert (found["kind"], found["outcome"]) == ("execution", "cancelled")
    assert (await in_memory.ended(execution))["status"] == "FAILED"
    found = await tpf(in_memory, "submit", json.dumps(ORDER), "--key", "o-2", "--wait", code=1)
    assert (found["status"], found["errorCode"]) == ("FAILED", "CANCELLED")
    assert (await tpf(in_memory, "cancel", other, code=1))["outcome"] == "terminal"
    await tpf(in_memory, "redrive", execution)
    shown = await tpf(in_memory, "show", execution)
    assert shown["execution"]["generation"] == 1


async def test_who_waits_too_short_is_told_where_it_stands(in_memory):
    found = await tpf(in_memory, "submit", json.dumps(ORDER), "--wait", "--timeout", "0.3", code=1)
    assert found["status"] == "WAITING_EXTERNAL"


async def test_another_tenant_sees_nothing(in_memory):
    execution, _ = await begun(in_memory)
    assert (await tpf(in_memory, "show", execution, "--tenant", "b", code=1))["error"]["code"] == "not_found"
    assert (await tpf(in_memory, "pending", "--tenant", "b"))["interactions"] == []

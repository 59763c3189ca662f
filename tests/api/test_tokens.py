"""Resume tokens over HTTP: field case O09, and a completion that brings its token alone (T21)."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.serving import ROOT, Served, loaded_with, serving
from tpf_streams.core.token import TokenClaims

O09 = [json.loads(it) for it in (Path(__file__).parents[1] / "field/data/O09.tokens.jsonl").read_text().splitlines()]
FORGED = [case for case in O09 if case["expect"] != "admitted"]
COMPLETE = "/pipeline/interactions/complete"
FINE = {"orderId": "o-1", "approved": True, "score": 3, "reason": "fine"}
HOUR_MS = 3_600_000


@pytest.fixture
async def checks() -> AsyncIterator[Served]:
    async with serving(loaded_with(ROOT / "topologies/fraud_check/pipeline.yaml")) as found:
        yield found


async def waiting(served: Served, key: str = "o-1") -> dict[str, Any]:
    """The interaction with its token, which HTTP shows nobody."""
    order = {"orderId": key, "amount": "12.50", "currency": "EUR"}
    begun = await served.post("/pipeline/run-async", order, 202, Idempotency_Key=key)
    async with asyncio.timeout(10):
        while True:
            found = await served.api.answers.answer("pending", {"token": True, "payload": True})
            for it in found["interactions"]:
                if it["executionId"] == begun["executionId"]:
                    return dict(it)
            await asyncio.sleep(0.01)


def filled(served: Served, interaction: dict[str, Any], value: object) -> object:
    """Genuine tokens and halves of tokens where the case asks for them."""
    if not isinstance(value, str):
        return value
    token = interaction["resumeToken"]
    payload, _, signature = token.partition(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    later = TokenClaims(
        *[
            claims[name] + (HOUR_MS if name == "deadlineEpochMs" else 0) if name.endswith("Ms") else claims[name]
            for name in (
                "tenantId",
                "interactionId",
                "correlationId",
                "executionId",
                "stepId",
                "deadlineEpochMs",
                "issuedAtEpochMs",
            )
        ]
    )
    parts = {
        "TOKEN": token,
        "TOKEN_PAYLOAD": payload,
        "TOKEN_SIGNATURE": signature,
        "TOKEN_PAYLOAD_DEADLINE_PLUS_1H": served.loaded.definition.signer.sign(later).partition(".")[0],
    }
    return re.sub(r"\$\{(\w+):[\w-]+\}", lambda match: parts[match[1]], value)


@pytest.mark.parametrize("named", [True, False], ids=["with-ids", "token-alone"])
async def test_o09_forged_tokens_change_nothing_and_the_genuine_one_still_counts(checks, caplog, named):
    """Right: each is a 403, never a 5xx; counted; no reply and no log line repeats a token. A completion that names
    nothing but a token which says nothing is refused as one without ids, where it has none at all."""
    interaction = await waiting(checks)
    ids = {name: interaction[name] for name in ("interactionId", "correlationId")} if named else {}
    counted = 0
    with caplog.at_level(logging.DEBUG):
        for case in FORGED:
            token = filled(checks, interaction, case["resumeToken"])
            body = {**ids, "resumeToken": token, "responsePayload": FINE}
            async with checks.client.post(COMPLETE, json=body, headers={"x-tenant-id": "default"}) as found:
                text = await found.text()
            blank = token in (None, "")
            refused = (400, "invalid_envelope") if blank and not named else (403, "resume_token_rejected")
            assert (found.status, json.loads(text)["outcome"]) == refused, case["name"]
            counted += refused[0] == 403
            assert not isinstance(token, str) or len(token) < 6 or token not in text + caplog.text
    assert checks.tally.dropped["resume_token_rejected"] == counted
    shown = await checks.get(f"/pipeline/interactions/{interaction['interactionId']}")
    assert shown["status"] == "DISPATCHED" and "resumeToken" not in shown
    await checks.post(COMPLETE, {**ids, "resumeToken": interaction["resumeToken"], "responsePayload": FINE})
    assert (await checks.ended(interaction["executionId"]))["status"] == "SUCCEEDED"


async def test_t21_a_token_alone_finds_its_interaction(checks):
    interaction = await waiting(checks)
    body = {"resumeToken": interaction["resumeToken"], "responsePayload": FINE}
    first = await checks.post(COMPLETE, body)
    assert (first["outcome"], first["interactionId"]) == ("admitted", interaction["interactionId"])
    assert (await checks.post(COMPLETE, body))["outcome"] == "duplicate"


async def test_a_token_of_another_interaction(checks):
    """Contract 0.3: a mixed envelope says nothing about either."""
    one, other = await waiting(checks, "o-1"), await waiting(checks, "o-2")
    body = {
        "interactionId": one["interactionId"],
        "resumeToken": other["resumeToken"],
        "responsePayload": FINE,
    }
    refused = await checks.post(COMPLETE, body, 403)
    assert (refused["outcome"], set(refused)) == (
        "resume_token_rejected",
        {"type", "title", "status", "detail", "outcome"},
    )


async def test_an_answer_before_its_row_is_held(checks):
    """Contract 0.11: 202, and decided as soon as the row is there."""
    interaction = await waiting(checks)
    factory, definition = checks.application.ids, checks.loaded.definition
    execution = checks.application.execution_id("o-9")
    step = definition.steps[0]
    unit = factory.unit("default", execution, step.step_id, 0, 0)
    deadline = interaction["deadlineEpochMs"] + HOUR_MS
    claims = TokenClaims(
        "default", unit.interaction_id(None), unit.correlation_id(None), execution, step.step_id, deadline, 1
    )
    body = {"resumeToken": definition.signer.sign(claims), "responsePayload": FINE}
    held = await checks.post(COMPLETE, body, 202)
    assert (held["outcome"], held["status"], held["duplicate"]) == ("held", "HELD", False)
    order = {"orderId": "o-1", "amount": "12.50", "currency": "EUR"}
    begun = await checks.post("/pipeline/run-async", order, 202, Idempotency_Key="o-9")
    assert begun["executionId"] == execution
    assert (await checks.ended(execution))["status"] == "SUCCEEDED"

"""Several decide at the same time (O23): one decision, one continuation, and everyone else learns what stands."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.api.serving import accepted, declined

AT_ONCE = 50


@pytest.mark.parametrize("number", range(3))
async def test_near_simultaneous_decisions(served, number):
    """Two clicks by one manager and an opposite one by another, 50 times over."""
    for turn in range(50):
        interaction = await served.waiting(f"o-{turn}")
        body = {"interactionId": interaction["interactionId"]}
        clicks = [("ann", accepted(interaction)), ("ann", accepted(interaction)), ("bob", declined(interaction))]
        clicks = clicks[number:] + clicks[:number]
        found = await asyncio.gather(
            *(_told(served, {**body, "actor": who, "responsePayload": payload}) for who, payload in clicks)
        )
        outcomes = Counter(it["outcome"] for it in found)
        assert outcomes["admitted"] == 1
        winner = next(payload for (_, payload), it in zip(clicks, found, strict=True) if it["outcome"] == "admitted")
        for (_, payload), it in zip(clicks, found, strict=True):
            assert it["outcome"] in ("admitted", "duplicate" if payload == winner else "conflict")
            assert it["responsePayload"] == winner
        assert interaction["interactionId"] not in {
            it["interactionId"] for it in await served.get("/pipeline/interactions/pending")
        }
        await served.ended(interaction["executionId"])
    assert await _counted(served, 50) == (50, 50)


@pytest.mark.parametrize(
    "rounds", [40, pytest.param(1_000, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])], ids=str
)
async def test_fifty_opposite_decisions_at_once(in_memory, rounds):
    for turn in range(rounds):
        interaction = await in_memory.waiting(f"o-{turn}")
        body = {"interactionId": interaction["interactionId"]}
        payloads = [accepted(interaction) if it % 2 else declined(interaction) for it in range(AT_ONCE)]
        found = await asyncio.gather(*(_told(in_memory, {**body, "responsePayload": it}) for it in payloads))
        outcomes = Counter(it["outcome"] for it in found)
        assert outcomes == {"admitted": 1, "duplicate": AT_ONCE // 2 - 1, "conflict": AT_ONCE // 2}
        ended = await in_memory.ended(interaction["executionId"])
        assert (ended["status"], ended["outputs"]) == ("SUCCEEDED", 1)
    assert await _counted(in_memory, rounds) == (rounds, rounds)


async def _counted(served, count):
    """Facts are told a moment after the rows that made them true."""
    async with asyncio.timeout(5):
        while served.tally["output.emitted.total"] < count:
            await asyncio.sleep(0.01)
    return served.tally["completion.admitted.total"], served.tally["output.emitted.total"]


async def _told(served, body):
    async with served.client.post(
        "/pipeline/interactions/complete", json=body, headers={"x-tenant-id": "default"}
    ) as found:
        return await found.json(content_type=None)

"""Interactions over HTTP: the inbox page by page, and what an answer is told (contract 0.4, 9.1)."""

from __future__ import annotations

import asyncio

import pytest

from tests.api.serving import APPROVAL, ORDER, TENANT, accepted, declined, loaded_with, serving
from tpf_streams.api.models import Pending
from tpf_streams.core.identity import IdFactory

PENDING = "/pipeline/interactions/pending"
COMPLETE = "/pipeline/interactions/complete"
UNKNOWN = IdFactory("others").execution_id("default", "none", "none", 0)


async def test_an_entry_of_the_inbox(served):
    interaction = await served.waiting()
    assert set(interaction) == set(Pending.names())
    assert interaction["requestPayload"].items() >= ORDER.items()
    assert (interaction["stepId"], interaction["stepIndex"]) == ("ProcessAwaitRestaurantDecisionService", 2)
    assert (interaction["status"], interaction["transportType"]) == ("DISPATCHED", "interaction-api")
    assert interaction["transportMetadata"]["adapter"] == "interaction-api"
    assert interaction["deadlineEpochMs"] - interaction["createdAtEpochMs"] == 30 * 60_000
    one = await served.get(f"/pipeline/interactions/{interaction['interactionId']}")
    assert one == {**interaction, "responsePayload": None, "actor": None}


async def test_filters_are_exact_and_blank_is_unset(served):
    """T43: another tenant's, another group's and other steps' are left out."""
    roma, uno = await served.waiting("o-1", restaurantName="Roma"), await served.waiting("o-2", restaurantName="Uno")
    ids = {"roma": roma["interactionId"], "uno": uno["interactionId"]}

    async def found(tenant: str = "default", **query: str) -> set[str]:
        shown = await served.get(PENDING, headers={"x-tenant-id": tenant}, **query)
        return {it["interactionId"] for it in shown}

    assert await found() == await found(group=" ", stepId="", assignee="") == set(ids.values())
    assert await found(group="Roma") == {ids["roma"]}
    assert await found(group="Rom") == await found(assignee="Roma") == await found(stepId="Other") == set()
    assert await found(stepId="ProcessAwaitRestaurantDecisionService", group="Uno") == {ids["uno"]}
    assert await found(tenant="other") == set()


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ({"limit": "-1"}, "limit must be >= 0"),
        ({"limit": "501"}, "at most 500"),
        ({"limit": "ten"}, "a whole number"),
        ({"limit": "9" * 100}, "a whole number"),
        ({"cursor": "x"}, "give back"),
        ({"cursor": "é" * 40}, "give back"),
        ({"cursor": "Ag" + "A" * 32}, "another version"),
    ],
)
async def test_a_wrong_question_is_refused(in_memory, query, word):
    assert word in (await in_memory.get(PENDING, 400, **query))["detail"]


async def test_the_tenant_has_to_be_named(in_memory):
    for method, path in (("GET", PENDING), ("POST", COMPLETE)):
        async with in_memory.client.request(method, path, json={}, headers={"x-tenant-id": " "}) as found:
            assert found.status == 400
            assert "tenantId header is required" in (await found.json(content_type=None))["detail"]


async def test_pages_miss_none_and_repeat_none_while_others_decide(served):
    """Each page is followed by decisions before and behind the place where it ended."""
    count = 120
    await asyncio.gather(*(served.submitted(f"o-{number}") for number in range(count)))
    async with asyncio.timeout(20):
        while len(everything := await served.get(PENDING, limit=500)) < count:
            await asyncio.sleep(0.02)
    order = [it["interactionId"] for it in everything]
    places = [(it["deadlineEpochMs"], it["interactionId"]) for it in everything]
    assert places == sorted(places)
    decided: set[str] = set()
    seen: list[str] = []
    query: dict[str, str] = {"limit": "7"}
    while True:
        async with served.client.get(PENDING, headers=TENANT, params=query) as page:
            seen += [it["interactionId"] for it in await page.json()]
            cursor = page.headers.get("x-next-cursor")
            assert (cursor is None) is ("Link" not in page.headers)
        if cursor is None:
            break
        query["cursor"] = cursor
        left = [it for it in everything if it["interactionId"] not in decided]
        for it in (left[0], left[-1]):
            await served.complete(it, accepted(it))
            decided.add(it["interactionId"])
    assert len(seen) == len(set(seen))
    assert [it for it in order if it in seen] == seen
    assert set(order) - set(seen) <= decided


async def test_a_filter_that_fits_little_gives_short_pages(in_memory, monkeypatch):
    """What is looked at for one page is bounded; an empty page may be followed by others."""
    monkeypatch.setattr("tpf_streams.runtime.asked_interactions.LOOKED_AT_MAX", 10)
    for number in range(25):
        await in_memory.submitted(f"o-{number}", restaurantName="Uno" if number == 24 else "Roma")
    async with asyncio.timeout(10):
        while in_memory.tally["interaction.created.total"] < 25:
            await asyncio.sleep(0.01)
    pages, query = [], {"group": "Uno"}
    while True:
        async with in_memory.client.get(PENDING, headers=TENANT, params=query) as page:
            pages.append(len(await page.json()))
            if "x-next-cursor" not in page.headers:
                break
            query["cursor"] = page.headers["x-next-cursor"]
    assert (sum(pages), len(pages)) == (1, 3)


async def test_a_repeat_is_a_duplicate_and_another_answer_a_conflict(served):
    """O04: the repeat carries the stored result, the other is told what stands; one continuation."""
    interaction = await served.waiting()
    first = await served.complete(interaction, accepted(interaction), actor="chef", idempotencyKey="delivery-1")
    assert first == {
        "interactionId": interaction["interactionId"],
        "executionId": interaction["executionId"],
        "stepId": interaction["stepId"],
        "status": "COMPLETED",
        "duplicate": False,
        "outcome": "admitted",
        "responsePayload": accepted(interaction),
    }
    again = await served.complete(interaction, accepted(interaction), actor="cook", idempotencyKey="delivery-2")
    assert again == {**first, "duplicate": True, "outcome": "duplicate"}
    other = await served.complete(interaction, declined(interaction), 409)
    assert (other["outcome"], other["statusOfInteraction"], other["actor"]) == ("conflict", "COMPLETED", "chef")
    assert other["responsePayload"] == accepted(interaction)
    assert (await served.ended(interaction["executionId"]))["outputs"] == 1
    assert served.tally["output.emitted.total"] == 1


async def test_by_correlation_id(in_memory):
    interaction = await in_memory.waiting()
    body = {"correlationId": interaction["correlationId"], "responsePayload": accepted(interaction)}
    found = await in_memory.post(COMPLETE, body)
    assert (found["outcome"], found["interactionId"]) == ("admitted", interaction["interactionId"])


async def test_ids_that_disagree_say_nothing_of_either(in_memory):
    first, second = await in_memory.waiting("o-1"), await in_memory.waiting("o-2")
    refused = await in_memory.complete(first, accepted(first), 403, correlationId=second["correlationId"])
    assert refused["outcome"] == "identity_mismatch"
    assert "interactionId" not in refused


async def test_another_tenant_cannot_answer(in_memory):
    interaction = await in_memory.waiting()
    body = {"interactionId": interaction["interactionId"], "responsePayload": accepted(interaction)}
    for headers, more in (({"x_tenant_id": "other"}, {}), ({}, {"tenantId": "other"})):
        refused = await in_memory.post(COMPLETE, {**body, **more}, 404, **headers)
        assert refused["outcome"] == "tenant_mismatch"
    assert await in_memory.get(PENDING) == [interaction]


@pytest.mark.parametrize(
    ("body", "status", "outcome"),
    [
        ({"interactionId": UNKNOWN, "responsePayload": 1}, 404, "not_found"),
        ({"interactionId": "no id of ours", "responsePayload": 1}, 404, "not_found"),
        ({"responsePayload": 1}, 400, "invalid_envelope"),
        ({"interactionId": UNKNOWN}, 400, "invalid_envelope"),
        ({"interactionId": UNKNOWN, "responsePayload": None}, 400, "invalid_envelope"),
        ({"interactionId": [], "responsePayload": 1}, 400, "invalid_envelope"),
        ({"resumeToken": "x", "responsePayload": 1}, 403, "resume_token_rejected"),
        ([], 400, "invalid_envelope"),
        ("x", 400, "invalid_envelope"),
    ],
)
async def test_what_is_no_answer(in_memory, body, status, outcome):
    assert (await in_memory.post(COMPLETE, body, status))["outcome"] == outcome


@pytest.mark.parametrize("payload", [{"postponed": {}}, {"accepted": {}}, [], "accepted", 7])
async def test_what_does_not_fit_leaves_it_open_and_says_why(in_memory, payload):
    interaction = await in_memory.waiting()
    refused = await in_memory.complete(interaction, payload, 422)
    assert refused["outcome"] == "invalid_payload"
    assert "Failed converting await payload to RestaurantDecision" in refused["detail"]
    assert (await in_memory.complete(interaction, accepted(interaction)))["outcome"] == "admitted"


async def test_a_payload_over_its_limit(in_memory):
    interaction = await in_memory.waiting()
    refused = await in_memory.complete(interaction, accepted(interaction, note="x" * 262_144), 413)
    assert refused["outcome"] == "payload_too_large"


async def test_a_cancelled_interaction_takes_no_answer(served):
    interaction = await served.waiting()
    path = f"/pipeline/interactions/{interaction['interactionId']}"
    assert await served.post(path + "/cancel", {"reason": "asked twice"}) == {"outcome": "cancelled"}
    assert (await served.post(path + "/cancel", None, 409))["outcome"] == "terminal"
    refused = await served.complete(interaction, accepted(interaction), 409)
    assert (refused["outcome"], refused["statusOfInteraction"]) == ("terminal", "CANCELLED")
    assert (await served.ended(interaction["executionId"]))["errorCode"] == "AWAIT_CANCELLED"


@pytest.mark.parametrize("ident", [UNKNOWN, "no id of ours"])
async def test_there_is_no_such_interaction(in_memory, ident):
    path = f"/pipeline/interactions/{ident}"
    assert (await in_memory.get(path, 404))["outcome"] == "not_found"
    assert (await in_memory.post(path + "/cancel", None, 404))["outcome"] == "not_found"


async def test_an_executions_id_is_no_interactions(in_memory):
    interaction = await in_memory.waiting()
    path = f"/pipeline/interactions/{interaction['executionId']}"
    await in_memory.get(path, 404)
    await in_memory.post(path + "/cancel", None, 404)
    assert await in_memory.get(PENDING) == [interaction]


async def test_a_late_answer(tmp_path):
    file = tmp_path / "pipeline.yaml"
    file.write_text(APPROVAL.read_text().replace("PT30M", "PT0.2S"))
    async with serving(loaded_with(file)) as served:
        interaction = await served.waiting()
        await asyncio.sleep(0.3)
        refused = await served.complete(interaction, accepted(interaction), 409)
        assert (refused["outcome"], refused["statusOfInteraction"]) == ("late", "TIMED_OUT")

"""Executions over HTTP: begun once by their key, asked after, cancelled, redriven; nothing of them for others."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from tests.api.serving import ORDER, TENANT, accepted, declined, loaded_with, serving
from tpf_streams.core.identity import IdFactory
from tpf_streams.runtime.asked_executions import server_key

RUN = "/pipeline/run-async"
JSON = {**TENANT, "Content-Type": "application/json"}
UNKNOWN = IdFactory("others").execution_id("default", "none", "none", 0)


@pytest.mark.parametrize(
    ("decide", "outcome", "restaurant", "summary"),
    [
        (accepted, "APPROVED", "ACCEPTED", "Restaurant approved the order."),
        (declined, "DECLINED", "DECLINED", "closed"),
    ],
)
async def test_from_the_order_to_the_result(served, decide, outcome, restaurant, summary):
    """Contract 12.4: step index 2 while it waits, 3 afterwards."""
    interaction = await served.waiting()
    execution_id = interaction["executionId"]
    path = f"/pipeline/executions/{execution_id}"
    waiting = await served.get(path)
    assert (waiting["status"], waiting["stepIndex"]) == ("WAITING_EXTERNAL", 2)
    early = await served.get(path + "/result", 409)
    assert early["outcome"] == "not_finished"
    await served.complete(interaction, decide(interaction))
    ended = await served.ended(execution_id)
    assert (ended["status"], ended["stepIndex"], ended["errorCode"]) == ("SUCCEEDED", 3, None)
    assert await served.get(path + "/result") == {
        "orderId": interaction["requestPayload"]["orderId"],
        "outcome": outcome,
        "resolvedAt": "2026-01-01T10:00:00Z",
        "restaurantStatus": restaurant,
        "summary": summary,
    }


async def test_an_unfinished_result_says_when_to_ask_again(in_memory):
    interaction = await in_memory.waiting()
    path = f"/pipeline/executions/{interaction['executionId']}/result"
    async with in_memory.client.get(path, headers=TENANT) as found:
        assert (found.status, found.headers["Retry-After"]) == (409, "1")
        assert found.content_type == "application/problem+json"


async def test_the_same_key_is_the_same_execution(served):
    first = await served.post(RUN, ORDER, 202, Idempotency_Key="o-1")
    assert first["duplicate"] is False
    assert first["statusUrl"] == f"/pipeline/executions/{first['executionId']}"
    again = await served.post(RUN, dict(reversed(ORDER.items())), 202, Idempotency_Key="o-1")
    assert again == {**first, "duplicate": True}
    other = await served.post(RUN, ORDER, 202, Idempotency_Key="o-2")
    assert other["executionId"] != first["executionId"]


async def test_a_key_with_another_input_is_no_duplicate(served):
    """The second order would be lost without a word."""
    first = await served.submitted("o-1")
    refused = await served.post(RUN, {**ORDER, "totalAmount": "27.51"}, 409, Idempotency_Key="o-1")
    assert (refused["outcome"], refused["executionId"]) == ("conflict", first)


async def test_one_of_many_at_once_begins_it(served):
    asked = (served.post(RUN, ORDER, 202, Idempotency_Key="o-1") for _ in range(20))
    found = await asyncio.gather(*asked)
    assert len({it["executionId"] for it in found}) == 1
    assert sorted(it["duplicate"] for it in found) == [False, *[True] * 19]
    assert served.tally["execution.submitted.total"] == 1


async def test_a_key_is_of_its_tenant(in_memory):
    mine = await in_memory.submitted("o-1")
    other = await in_memory.post(RUN, ORDER, 202, Idempotency_Key="o-1", x_tenant_id="other")
    assert (other["duplicate"], other["executionId"] != mine) == (False, True)


@pytest.mark.parametrize("policy", ["OPTIONAL_CLIENT_KEY", "CLIENT_KEY_REQUIRED", "SERVER_KEY_ONLY"])
async def test_who_gives_the_key(policy):
    """Contract 4.4: the client's where there is one and it counts, else one of tenant and input."""
    own = IdFactory("restaurant-approval").execution_id
    by_server = own("default", "restaurant-approval", server_key("default", ORDER), 0)
    by_client = own("default", "restaurant-approval", "mine", 0)
    async with serving(loaded_with(pipeline__orchestrator__idempotency_policy=policy)) as served:
        required = policy == "CLIENT_KEY_REQUIRED"
        bare = await served.post(RUN, ORDER, 400 if required else 202)
        if required:
            assert bare["outcome"] == "idempotency_key_required"
        else:
            assert bare["executionId"] == by_server
        keyed = await served.post(RUN, ORDER, 202, Idempotency_Key="mine")
        assert keyed["executionId"] == (by_server if policy == "SERVER_KEY_ONLY" else by_client)


@pytest.mark.parametrize(
    ("body", "status", "outcome"),
    [
        ({**ORDER, "totalAmount": "much"}, 422, "invalid_payload"),
        ({}, 422, "invalid_payload"),
        ([ORDER], 422, "invalid_payload"),
        (None, 422, "invalid_payload"),
        ({**ORDER, "items": "x" * 262_144}, 413, "payload_too_large"),
    ],
    ids=["bad-field", "no-fields", "list", "null", "large"],
)
async def test_what_is_no_input_begins_nothing(in_memory, body, status, outcome):
    async with in_memory.client.post(RUN, data=orjson.dumps(body), headers=JSON) as found:
        assert (found.status, (await found.json(content_type=None))["outcome"]) == (status, outcome)
    assert in_memory.tally["execution.submitted.total"] == 0


@pytest.mark.parametrize("name", ["execution", "result", "cancel", "redrive"])
async def test_another_tenant_finds_nothing(in_memory, name):
    execution_id = await in_memory.submitted("o-1")
    for ident in (execution_id, UNKNOWN, "o-1"):
        path = f"/pipeline/executions/{ident}" + ("" if name == "execution" else f"/{name}")
        headers = {"x-tenant-id": "other"}
        method = "POST" if name in ("cancel", "redrive") else "GET"
        async with in_memory.client.request(method, path, headers=headers) as found:
            assert (found.status, (await found.json(content_type=None))["outcome"]) == (404, "not_found")


async def test_an_execution_is_cancelled_once(served):
    interaction = await served.waiting()
    path = f"/pipeline/executions/{interaction['executionId']}"
    assert await served.post(path + "/cancel", {"reason": "the kitchen burns"}) == {"outcome": "cancelled"}
    assert (await served.post(path + "/cancel", None, 409))["outcome"] == "terminal"
    failed = await served.get(path + "/result", 409)
    assert failed["outcome"] == "failed"
    assert "CANCELLED: the kitchen burns" in failed["detail"]
    assert await served.get("/pipeline/interactions/pending") == []


async def test_a_failed_execution_goes_on(served):
    """Contract 0.14: the same item is asked for again, under new ids."""
    interaction = await served.waiting()
    path = f"/pipeline/executions/{interaction['executionId']}"
    assert (await served.post(path + "/redrive", {}, 409))["outcome"] == "not_failed"
    await served.post(path + "/cancel", {})
    async with asyncio.timeout(10):
        while (await served.get(f"/pipeline/interactions/{interaction['interactionId']}"))["status"] != "CANCELLED":
            await asyncio.sleep(0.01)
    version = (await served.get(path))["version"]
    for body, outcome in (
        ({"expectedVersion": version + 1}, "version_mismatch"),
        ({"allowFailed": False}, "failed_not_allowed"),
    ):
        assert (await served.post(path + "/redrive", body, 409))["outcome"] == outcome
    assert await served.post(path + "/redrive", {"expectedVersion": version}) == {"outcome": "redriven"}
    async with asyncio.timeout(10):
        while not (pending := await served.get("/pipeline/interactions/pending")):
            await asyncio.sleep(0.01)
    assert pending[0]["interactionId"] != interaction["interactionId"]
    await served.complete(pending[0], accepted(pending[0]))
    assert (await served.ended(interaction["executionId"]))["status"] == "SUCCEEDED"

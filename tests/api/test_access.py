"""Who may call: tenants, and bearer tokens that say who somebody is."""

from __future__ import annotations

import pytest

from tests.api.serving import ORDER, accepted, loaded_with, serving
from tpf_streams.dsl.tenancy import TOKENS
from tpf_streams.errors import DefinitionError

ANN, BOB, EVE = "ann-of-the-kitchen-1", "bob-of-the-kitchen-2", "eve-of-elsewhere-33"
ENTRIES = f"default:ann:{ANN},default:bob:{BOB},other:eve:{EVE}"
PENDING = "/pipeline/interactions/pending"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_the_principal_takes_the_place_of_the_actor():
    """The tenant is the token's; nobody decides under another name."""
    async with serving(loaded_with(http__bearer_tokens=ENTRIES)) as served:
        begun = await served.client.post("/pipeline/run-async", json=ORDER, headers=bearer(ANN))
        assert begun.status == 202
        (interaction,) = await until_one(served, bearer(BOB))
        body = {
            "interactionId": interaction["interactionId"],
            "responsePayload": accepted(interaction),
            "actor": "somebody else",
        }
        async with served.client.post("/pipeline/interactions/complete", json=body, headers=bearer(EVE)) as found:
            assert found.status == 404
        async with served.client.post("/pipeline/interactions/complete", json=body, headers=bearer(BOB)) as found:
            assert found.status == 200
        one = await served.get(f"/pipeline/interactions/{interaction['interactionId']}", headers=bearer(ANN))
        assert one["actor"] == "bob"
        await served.get(f"/pipeline/interactions/{interaction['interactionId']}", 404, headers=bearer(EVE))


async def test_who_cancelled_is_told():
    async with serving(loaded_with(http__bearer_tokens=ENTRIES)) as served:
        begun = await served.client.post("/pipeline/run-async", json=ORDER, headers=bearer(ANN))
        path = f"/pipeline/executions/{(await begun.json())['executionId']}"
        await served.client.post(path + "/cancel", json={"reason": "no gas"}, headers=bearer(BOB))
        assert (await served.get(path, headers=bearer(ANN)))["errorMessage"] == "by bob: no gas"


async def test_a_long_reason_leaves_the_name_of_who_gave_it():
    """It was behind the reason, and cut off with its end: a name of one's choice could stand there."""
    async with serving(loaded_with(http__bearer_tokens=ENTRIES)) as served:
        begun = await served.client.post("/pipeline/run-async", json=ORDER, headers=bearer(ANN))
        path = f"/pipeline/executions/{(await begun.json())['executionId']}"
        reason = "x" * 501 + " (by alice)"
        await served.client.post(path + "/cancel", json={"reason": reason}, headers=bearer(BOB))
        assert (await served.get(path, headers=bearer(ANN)))["errorMessage"].startswith("by bob: xxx")


async def test_a_lone_worker_is_passed_nothing_on():
    """Who says which life of a key he means begins a second execution of it."""
    async with serving(loaded_with()) as served:
        key = {"Idempotency-Key": "one"}
        first = await (await served.client.post("/pipeline/run-async", json=ORDER, headers=key)).json()
        for incarnation in range(4):
            hop = {**key, "x-tpf-partitions": f"0@{incarnation}", "x-tpf-life": "5"}
            again = await (await served.client.post("/pipeline/run-async", json=ORDER, headers=hop)).json()
            assert (again["executionId"], again["duplicate"]) == (first["executionId"], True)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 202),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://behind-a-proxy.example"}, 202),
        ({"Sec-Fetch-Site": "none"}, 202),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "http://elsewhere.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
async def test_a_page_of_somebody_else_decides_nothing(headers, status):
    """A browser sends a POST without a body for any page, to a worker of this machine too."""
    async with serving(loaded_with()) as served:
        begun = await served.client.post("/pipeline/run-async", json=ORDER, headers=headers)
        assert begun.status == status
        own = {"Origin": str(served.client.make_url("/")).rstrip("/")}
        again = await served.client.post("/pipeline/run-async", json=ORDER, headers=own)
        assert again.status == 202


async def until_one(served, headers):
    while not (found := await served.get(PENDING, headers=headers)):
        pass
    return found


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", f"Basic {ANN}", "Bearer nobodys-token-at-all", f"Bearer {ANN}x", "Bearer é\udcff€"],
)
async def test_without_a_good_token_nothing_is_answered(header):
    """O09's trap: a text that is not ASCII must not make the compare raise."""
    async with serving(loaded_with(http__bearer_tokens=ENTRIES)) as served:
        raw = header.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
        headers = {"x-tenant-id": "default", **({"Authorization": raw} if header else {})}
        for path in (PENDING, "/pipeline/steps", "/pipeline/interactions/changes"):
            async with served.client.get(path, headers=headers) as found:
                assert (found.status, found.headers["WWW-Authenticate"][:6]) == (401, "Bearer")
                assert ANN not in await found.text()
        assert (await served.get("/health", headers={}))["status"] == "UP"


async def test_a_token_of_another_tenant():
    async with serving(loaded_with(http__bearer_tokens=ENTRIES)) as served:
        headers = {**bearer(ANN), "x-tenant-id": "other"}
        assert (await served.get(PENDING, 403, headers=headers))["outcome"] == "tenant_not_allowed"


async def test_the_document_asks_for_the_token():
    async with serving(loaded_with(http__bearer_tokens=ENTRIES)) as served:
        document = await served.get("/openapi.json", headers={})
        assert document["components"]["securitySchemes"] == {"bearer": {"type": "http", "scheme": "bearer"}}
        asked = {path for path, found in document["paths"].items() for it in found.values() if "security" in it}
        assert asked == {path for path in document["paths"] if path.startswith("/pipeline/")}


async def test_tenants_that_may_call():
    async with serving(loaded_with(pipeline__orchestrator__tenancy__allowed_tenants="default,uno")) as served:
        for tenant, status in (("uno", 200), ("default", 200), ("other", 403)):
            await served.get(PENDING, status, headers={"x-tenant-id": tenant})
        refused = await served.post("/pipeline/run-async", ORDER, 403, x_tenant_id="other")
        assert refused["outcome"] == "tenant_not_allowed"


async def test_a_tenant_that_has_to_be_named():
    async with serving(loaded_with(pipeline__orchestrator__tenancy__require_explicit_tenant="true")) as served:
        async with served.client.post("/pipeline/run-async", json=ORDER) as found:
            assert (found.status, (await found.json(content_type=None))["outcome"]) == (400, "tenant_required")
        await served.submitted("o-1")


@pytest.mark.parametrize("tenant", ["x" * 257, "a\tb"])
async def test_a_tenant_that_is_no_name(in_memory, tenant):
    assert (await in_memory.get(PENDING, 400, headers={"x-tenant-id": tenant}))["outcome"] == "invalid_argument"


@pytest.mark.parametrize(
    ("settings", "key", "word"),
    [
        ({"http__bearer_tokens": ANN}, TOKENS, "entry 1: TENANT:PRINCIPAL:TOKEN"),
        ({"http__bearer_tokens": f"default:ann:{ANN},:bob:{BOB}"}, TOKENS, "entry 2: TENANT:PRINCIPAL:TOKEN"),
        ({"http__bearer_tokens": "default:ann:short"}, TOKENS, "at least 16 characters"),
        ({"http__bearer_tokens": f"default:ann:{ANN},default:bob:{ANN}"}, TOKENS, "stands there twice"),
        (
            {"http__bearer_tokens": ENTRIES, "pipeline__orchestrator__tenancy__allowed_tenants": "default"},
            TOKENS,
            "entry 3: its tenant is not among",
        ),
        ({"pipeline__orchestrator__tenancy__allowed_tenants": "uno"}, "allowed-tenants", "is not among them"),
    ],
)
def test_what_does_not_fit_is_told_at_the_start(settings, key, word):
    with pytest.raises(DefinitionError) as found:
        loaded_with(**settings)
    (problem,) = found.value.problems
    assert key in problem.key and word in problem.message
    assert ANN not in str(found.value)

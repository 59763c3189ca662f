"""What is said of the process itself, and the document that describes all of it."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest

from tests.api.serving import ROOT, SECRET, accepted, declined, loaded_with, serving
from tpf_streams.api.routes import ROUTES
from tpf_streams.dsl.load import load_pipeline

SCHEMA = "/pipeline/steps/ProcessAwaitRestaurantDecisionService/completion-schema"


async def test_it_lives_and_is_ready(in_memory, monkeypatch):
    assert await in_memory.get("/health", headers={}) == {"status": "UP"}
    assert await in_memory.get("/ready", headers={}) == {"status": "READY", "partitions": list(range(8))}
    monkeypatch.setattr(in_memory.application.worker, "partitions", [8])
    async with in_memory.client.get("/ready") as found:
        assert (found.status, found.headers["Retry-After"]) == (503, "1")


async def test_metrics_hold_the_facts(in_memory):
    await in_memory.waiting()
    async with in_memory.client.get("/metrics") as found:
        assert found.content_type == "text/plain"
        assert re.search(r"^tpf_await_interaction_created_total\{.*\} 1\.0$", await found.text(), re.MULTILINE)


async def test_a_path_or_method_that_is_none(in_memory):
    assert (await in_memory.get("/nothing", 404))["outcome"] == "not_found"
    async with in_memory.client.delete("/health") as found:
        assert (found.status, found.headers["Allow"]) == (405, "GET,HEAD")
        assert found.content_type == "application/problem+json"


async def test_the_document_says_every_route(in_memory):
    document = await in_memory.get("/openapi.json", headers={})
    assert document["openapi"].startswith("3.1")
    told = {(method.upper(), path) for path, found in document["paths"].items() for method in found}
    assert told == {(route.method, route.path) for route in ROUTES}
    names = [found["operationId"] for path in document["paths"].values() for found in path.values()]
    assert len(names) == len(set(names))
    for reference in re.findall(r'"\$ref": "#/components/schemas/([^"]+)"', json.dumps(document)):
        jsonschema.Draft202012Validator.check_schema(document["components"]["schemas"][reference])


async def test_answers_have_the_shape_that_the_document_says(in_memory):
    document = await in_memory.get("/openapi.json", headers={})
    interaction = await in_memory.waiting()
    ident, execution = interaction["interactionId"], interaction["executionId"]
    paths = {
        "/pipeline/interactions/pending": "/pipeline/interactions/pending",
        "/pipeline/interactions/{id}": f"/pipeline/interactions/{ident}",
        "/pipeline/executions/{id}": f"/pipeline/executions/{execution}",
        "/pipeline/steps": "/pipeline/steps",
        "/ready": "/ready",
    }
    for told, path in paths.items():
        schema = document["paths"][told]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        whole = {**schema, "components": document["components"]}
        jsonschema.Draft202012Validator(whole).validate(await in_memory.get(path))


async def test_the_schema_of_an_answer_makes_a_form(in_memory):
    """Union arms as choices; what it takes admission takes, and the other way round."""
    interaction = await in_memory.waiting()
    assert interaction["completionSchema"] == SCHEMA
    schema = await in_memory.get(SCHEMA)
    assert [arm["title"] for arm in schema["oneOf"]] == ["accepted", "declined"]
    check = jsonschema.Draft202012Validator(schema).is_valid
    good = [accepted(interaction), accepted(interaction, note="soon"), declined(interaction)]
    bad = [{}, {"accepted": {}}, {**accepted(interaction), **declined(interaction)}, [], {"postponed": {}}]
    assert all(map(check, good)) and not any(map(check, bad))
    for payload in bad:
        await in_memory.complete(interaction, payload, 422)
    await in_memory.complete(interaction, good[1])
    assert (await in_memory.get(SCHEMA.replace("Decision", "Nothing"), 404))["outcome"] == "not_found"


@pytest.mark.parametrize("name", ["fraud_check", "csv_payments", "restaurant_approval"])
async def test_every_topology_has_a_document(name):
    loaded = load_pipeline(ROOT / "topologies" / name / "pipeline.yaml", settings_overrides=SECRET, environ={})
    async with serving(loaded) as served:
        document = await served.get("/openapi.json")
        assert "Payload.Input" in document["components"]["schemas"]
        for step in await served.get("/pipeline/steps"):
            jsonschema.Draft202012Validator.check_schema(await served.get(step["completionSchema"]))


async def test_an_object_source_takes_no_input():
    async with serving(loaded_with(ROOT / "topologies/csv_payments/pipeline.yaml")) as served:
        refused = await served.post(
            "/pipeline/run-async", {"filepath": "x", "csvFolderPath": "/"}, 400, Idempotency_Key="x"
        )
        assert "objects of its source" in refused["detail"]

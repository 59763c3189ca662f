"""The HTTP API on the worker's web server, without a broker: what it serves, and whose page a path is."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from tests.topology.scrapes import Scrape
from tpf_streams import App
from tpf_streams.api.routes import ROUTES
from tpf_streams.app.boot import EngineBootStrategy
from tpf_streams.core.effects import Fact
from tpf_streams.observability.metrics import Metrics

FRAUD_CHECK = Path(__file__).parents[3] / "topologies/fraud_check/pipeline.yaml"
SECRET = {"pipeline.orchestrator.resume-token-secret": "a-secret-for-tests-only"}
OFF = {**SECRET, "pipeline.telemetry.metrics.enabled": "false"}


def made(folder: Path, settings: dict[str, str], *, loaded: bool) -> App:
    app = App("checks", pipeline=FRAUD_CHECK, settings=settings, datadir=str(folder))
    EngineBootStrategy(app).web_server()
    if loaded:
        app.engine_service.serve(app._plan().loaded)
    return app


@pytest.fixture
def app(tmp_path):
    return made(tmp_path, SECRET, loaded=True)


async def get(app: App, path: str = "/metrics", **headers: str) -> tuple[int, str, str]:
    """The page as a web server has it: status, content type, text."""
    web: Any = app.web
    async with TestClient(TestServer(web.web_app)) as client:
        answer = await client.get(path, headers=headers)
        return answer.status, answer.headers["Content-Type"], await answer.text()


async def test_metrics_hold_the_facts(app):
    assert isinstance(app.engine_service.metrics, Metrics)
    app.engine_service.metrics.observe([Fact("execution.submitted.total", {}, {"executionId": "e"}, 3)])
    status, kind, text = await get(app)
    assert status == 200 and kind.startswith("text/plain; version=")
    assert Scrape(text).total("execution.submitted.total") == 3
    _, kind, text = await get(app, Accept="application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text") and text.endswith("# EOF\n")


async def test_switched_off_they_say_so(tmp_path):
    status, _, text = await get(made(tmp_path, OFF, loaded=True))
    assert status == 404 and "pipeline.telemetry.metrics.enabled" in text


async def test_every_route_is_added_once(app, caplog):
    with caplog.at_level(logging.WARNING):
        EngineBootStrategy(app).web_server()
    assert "page" not in caplog.text
    web: Any = app.web
    there = [resource.canonical for resource in web.web_app.router.resources()]
    assert len(there) == len(set(there)) and {route.path for route in ROUTES} <= set(there)


async def test_before_the_pipeline_is_loaded_one_asks_again(tmp_path):
    app = made(tmp_path, SECRET, loaded=False)
    for path in ("/ready", "/health", "/openapi.json"):
        status, kind, _ = await get(app, path)
        assert (status, kind) == (503, "application/problem+json")


async def test_without_an_engine_nothing_is_found_or_missing(app):
    status, _, text = await get(app, "/pipeline/executions/5d52cb98-f502-8efa-a42b-d5e43972fcdb")
    assert status == 503 and "unavailable" in text
    assert (await get(app, "/ready"))[0] == 503
    assert (await get(app, "/health"))[0] == 200


async def test_a_page_of_the_users_own_stays(tmp_path, caplog):
    app = App("checks", pipeline=FRAUD_CHECK, settings=SECRET, datadir=str(tmp_path))

    @app.page("/metrics")
    async def own(view, request):
        return view.text("mine")

    with caplog.at_level(logging.WARNING):
        EngineBootStrategy(app).web_server()
    assert "/metrics is a page of this app's own" in caplog.text
    assert (await get(app))[2] == "mine"


def test_nobody_else_reaches_it_unless_told_so(tmp_path, monkeypatch):
    assert App("checks", pipeline=FRAUD_CHECK).conf.web_bind == "127.0.0.1"
    assert App("checks", pipeline=FRAUD_CHECK, web_bind="0.0.0.0").conf.web_bind == "0.0.0.0"
    monkeypatch.setenv("WEB_BIND", "10.0.0.1")
    assert App("checks", pipeline=FRAUD_CHECK).conf.web_bind == "10.0.0.1"

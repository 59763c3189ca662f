"""`/metrics` on the worker's web server, without a broker: what it shows, and whose page it is."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from tests.topology.scrapes import Scrape
from tpf_streams import App
from tpf_streams.app.boot import EngineBootStrategy
from tpf_streams.core.effects import Fact
from tpf_streams.observability.metrics import Metrics

FRAUD_CHECK = Path(__file__).parents[3] / "topologies/fraud_check/pipeline.yaml"
SECRET = {"pipeline.orchestrator.resume-token-secret": "a-secret-for-tests-only"}


@pytest.fixture
def app(tmp_path):
    return App("checks", pipeline=FRAUD_CHECK, settings=SECRET, datadir=str(tmp_path))


async def get(app: App, **headers: str) -> tuple[int, str, str]:
    """The page as a web server has it: status, content type, text."""
    web: Any = app.web
    async with TestClient(TestServer(web.web_app)) as client:
        answer = await client.get("/metrics", headers=headers)
        return answer.status, answer.headers["Content-Type"], await answer.text()


async def test_it_is_there_when_the_web_server_starts(app):
    EngineBootStrategy(app).web_server()
    app.engine_service.metrics = metrics = Metrics(app._plan().loaded.definition, app.metrics_registry)
    metrics.observe([Fact("execution.submitted.total", {}, {"executionId": "e"}, 3)])
    status, kind, text = await get(app)
    assert status == 200 and kind.startswith("text/plain; version=")
    assert Scrape(text).total("execution.submitted.total") == 3
    _, kind, text = await get(app, Accept="application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text") and text.endswith("# EOF\n")


async def test_it_is_added_once(app, caplog):
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            EngineBootStrategy(app).web_server()
    assert "metrics" not in caplog.text
    assert (await get(app))[0] == 404


async def test_switched_off_it_says_so(app):
    EngineBootStrategy(app).web_server()
    status, _, text = await get(app)
    assert status == 404 and "pipeline.telemetry.metrics.enabled" in text


async def test_a_page_of_the_users_own_stays(app, caplog):
    @app.page("/metrics")
    async def own(view, request):
        return view.text("mine")

    with caplog.at_level(logging.WARNING):
        EngineBootStrategy(app).web_server()
    assert "app.metrics_registry" in caplog.text
    assert (await get(app))[2] == "mine"

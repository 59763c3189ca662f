"""About this process: whether it lives, whether it is ready, its metrics, and the description of all of this."""

from __future__ import annotations

from aiohttp import web

from tpf_streams.api.models import Health, Readiness
from tpf_streams.api.problems import ProblemError, unavailable
from tpf_streams.api.saying import said
from tpf_streams.api.service import Call, Route
from tpf_streams.observability.exposition import scrape

OFF = "metrics are switched off by pipeline.telemetry.enabled or pipeline.telemetry.metrics.enabled"


async def health(call: Call) -> web.StreamResponse:
    return said(Health, {"status": "UP"})


async def ready(call: Call) -> web.StreamResponse:
    """503 while partitions are being restored: a load balancer sends requests elsewhere meanwhile."""
    if not call.api.ready():
        raise unavailable("starting", "partitions of this worker are not open yet")
    return said(Readiness, {"status": "READY", "partitions": sorted(call.api.partitions())})


async def metrics(call: Call) -> web.StreamResponse:
    if call.api.metrics is None:
        raise ProblemError(404, "not_found", OFF)
    body, content_type = scrape(call.api.metrics, call.request.headers.get("Accept", ""))
    return web.Response(body=body, headers={"Content-Type": content_type})


ROUTES = (
    Route("GET", "/health", health, "Whether the process answers.", {200: Health}, tenant="none"),
    Route("GET", "/ready", ready, "Whether every partition of this worker is open.", {200: Readiness}, tenant="none"),
    Route(
        "GET",
        "/metrics",
        metrics,
        "Metrics in the format that Accept asks for, by default the text format of Prometheus.",
        {200: None},
        refusals=(404,),
        tenant="none",
    ),
)

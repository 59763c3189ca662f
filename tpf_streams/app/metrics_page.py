"""`/metrics` on the worker's web server."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from faust.web import Request, Response, View

from tpf_streams.observability.exposition import PATH, scrape

if TYPE_CHECKING:
    from tpf_streams.app.application import App

log = logging.getLogger(__name__)

NAME = "tpf-metrics"
OFF = "metrics are switched off by pipeline.telemetry.enabled or pipeline.telemetry.metrics.enabled\n"


def add_metrics_page(app: App) -> None:
    """Called when the web server is about to start: a page of the user's own at this path is there by then, and wins,
    where registering a second one would have ended the start."""
    found = app.web.views.get(PATH)
    if found is not None:
        if found.view_name != NAME:
            log.warning("%s is a page of this app's own; the pipeline's metrics are in app.metrics_registry", PATH)
        return

    @app.page(PATH, name=NAME)
    async def metrics(view: View, request: Request) -> Response:
        if app.engine_service.metrics is None:
            return app.web.text(OFF, status=404)
        body, content_type = scrape(app.metrics_registry, request.headers.get("Accept", ""))
        return app.web.bytes(body, headers={"Content-Type": content_type})

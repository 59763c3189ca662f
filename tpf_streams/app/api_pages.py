"""The HTTP API on the worker's web server: the same handlers as everywhere, beside the pages of the app."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from tpf_streams.api.routes import routes

if TYPE_CHECKING:
    from tpf_streams.app.application import App

log = logging.getLogger(__name__)


def add_api(app: App) -> None:
    """Called when the web server is about to start: a page of the user's own at one of these paths is there by then,
    and wins, where registering a second one would have ended the start. Once more adds nothing."""
    web: Any = app.web
    web.web_app.on_cleanup.append(lambda _: _leave(app))
    there = {resource.canonical for resource in web.web_app.router.resources()}
    for route in routes(lambda: app.engine_service.api):
        if route.path not in there:
            route.register(web.web_app.router)
        elif route.path in web.views:  # and not one of ours, from the call before
            log.warning("%s is a page of this app's own; what the pipeline shows there is not served", route.path)


async def _leave(app: App) -> None:
    """On the loop of the server, where the other workers were asked."""
    api = app.engine_service.api
    if api is not None and api.peers is not None:
        await api.peers.close()

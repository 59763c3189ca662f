"""All routes, in the order in which they are looked at: a fixed path before one with an id in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import orjson
from aiohttp import web

from tpf_streams.api import changes, executions, interactions, process, replays
from tpf_streams.api.openapi import document
from tpf_streams.api.pages.serving import pages
from tpf_streams.api.service import Api, Call, Route, guarded


async def openapi(call: Call) -> web.StreamResponse:
    call.api.document = call.api.document or orjson.dumps(document(call.api, ROUTES))
    return web.Response(body=call.api.document, content_type="application/json")


ROUTES: tuple[Route, ...] = (
    *executions.ROUTES,
    *replays.ROUTES,
    *changes.ROUTES,
    *interactions.ROUTES,
    *process.ROUTES,
    Route("GET", "/openapi.json", openapi, "This document.", {200: {"type": "object"}}, tenant="none"),
)


def routes(api_of: Callable[[], Api | None]) -> Iterator[web.RouteDef]:
    """As any aiohttp application takes them; what they need of it they bring along."""
    for route in ROUTES:
        named = {"allow_head": not route.endless} if route.method == "GET" else {}
        yield web.route(route.method, route.path, guarded(api_of, route), **named)
    yield from pages(lambda: _words(api_of()))


def _words(api: Api | None) -> dict[str, str] | None:
    return None if api is None else {"app": api.definition.app_name, "tenant": api.access.default_tenant}

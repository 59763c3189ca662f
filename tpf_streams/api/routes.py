"""All routes, in the order in which they are looked at: a fixed path before one with an id in its place."""

from __future__ import annotations

from collections.abc import Iterator

from aiohttp import web

from tpf_streams.api import changes, executions, interactions, process
from tpf_streams.api.openapi import document
from tpf_streams.api.service import Api, Route, guarded

ROUTES: tuple[Route, ...] = (*executions.ROUTES, *changes.ROUTES, *interactions.ROUTES, *process.ROUTES)


def routes(api: Api) -> Iterator[web.RouteDef]:
    """As any aiohttp application takes them; what they need of it they bring along."""
    for route in (*ROUTES, process.described(document(api, ROUTES))):
        yield web.route(route.method, route.path, guarded(api, route))

"""An answer as JSON, in the shape that its model says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from aiohttp import web

from tpf_streams.api.models import Answer


def shaped(model: type[Answer], found: Mapping[str, Any]) -> dict[str, Any]:
    """The members that the model has, and no others; what is not there is null."""
    return {name: found.get(name) for name in model.names()}


def said(
    model: type[Answer], found: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    body = orjson.dumps(shaped(model, found))
    return web.Response(body=body, status=status, content_type="application/json", headers=headers)


def said_all(
    model: type[Answer], found: Iterable[Mapping[str, Any]], headers: Mapping[str, str] | None = None
) -> web.Response:
    body = orjson.dumps([shaped(model, it) for it in found])
    return web.Response(body=body, content_type="application/json", headers=headers)

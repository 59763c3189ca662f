"""Sends the pages and what they are made of, under a policy that lets nothing else run in them."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from html import escape
from importlib.resources import files
from string import Template

from aiohttp import web

from tpf_streams.api.problems import unavailable

PAGES = {"/inbox": "inbox.html", "/executions/{id}": "execution.html"}
ASSETS = "/pages/"
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

# Payloads come from anywhere. The scripts make text of them and never markup; should one ever fail to, `script-src`
# runs nothing that came with a payload, and trusted types refuse to parse it.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""Nothing frames a page: one click on what somebody laid over it would be a decision. `no-cache`: asked for again each
time, so that scripts of two releases never meet in one page."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def pages(words: Callable[[], Mapping[str, str] | None]) -> Iterator[web.RouteDef]:
    """As any aiohttp application takes them. `words`: the `app`, and the `tenant` whose work is shown to who names
    nobody; None while no engine is there, which is asked with every request."""
    folder = files(__package__)
    for path, name in PAGES.items():
        yield web.get(path, _page(Template(folder.joinpath(name).read_text("utf-8")), words))
    for file in folder.iterdir():
        kind = KINDS.get(file.name[file.name.rfind(".") :])
        if kind is not None:
            yield web.get(ASSETS + file.name, _asset(file.read_bytes(), kind))


def _page(template: Template, words: Callable[[], Mapping[str, str] | None]) -> Handler:
    async def send(request: web.Request) -> web.StreamResponse:
        found = words()
        if found is None:
            return unavailable("starting", "the engine is not there yet").response()
        return _sent(
            request, template.substitute({name: escape(it) for name, it in found.items()}).encode(), "text/html"
        )

    return send


def _asset(body: bytes, kind: str) -> Handler:
    async def send(request: web.Request) -> web.StreamResponse:
        return _sent(request, body, kind)

    return send


def _sent(request: web.Request, body: bytes, kind: str) -> web.StreamResponse:
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {**HEADERS, "ETag": tag}
    if tag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    return web.Response(body=body, content_type=kind, charset="utf-8", headers=headers)

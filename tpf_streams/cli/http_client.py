"""Requests to one worker: bounded in time and size, tried again where it says so, and clear about what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import monotonic, sleep
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from tpf_streams.cli.console import Exit, fail, say
from tpf_streams.core.step import Json
from tpf_streams.errors import TpfError

AGAIN_MAX_S = 20.0
"""For all tries of one request: a worker that restores its partitions, or loses them, needs some seconds."""
PAUSE_MAX_S = 5.0
REQUEST_S = 60.0
CONNECT_S = 5.0
BODY_BYTES_MAX = 64 * 1024 * 1024
NOTHING_DONE = frozenset({"elsewhere", "starting", "too_many_streams"})
"""Of a 503: the worker did not begin with it, so that even what may not be done twice is asked again."""
WORDS = {
    401: "set TPF_STREAMS_TOKEN to a bearer token that this worker takes",
    403: "the token in TPF_STREAMS_TOKEN, or the tenant, is not the one for this",
    404: "see status and pending; with several tenants name it with --tenant",
    503: "it may be starting, or handing work over: try again in a moment",
}


class HttpError(TpfError):
    """A worker that cannot be reached, or something that does not answer as one."""

    code = "HTTP"


class RefusedError(HttpError):
    """What a worker refused. `code`: its outcome; `more`: what the problem says besides."""

    def __init__(self, status: int, outcome: str, detail: str, more: Mapping[str, Any], retry_s: float | None) -> None:
        words = "name it with --tenant or TPF_STREAMS_TENANT" if outcome == "tenant_required" else WORDS.get(status)
        super().__init__(f"{detail}; {words}" if words else detail)
        self.status = status
        self.detail = detail
        self.code = outcome
        self.more = dict(more)
        self.retry_s = retry_s


class HttpClient:
    """Blocks. `url`: of the worker, without a path of the API."""

    def __init__(self, url: str, token: str | None, tenant: str | None) -> None:
        self.url = checked(url)
        self._headers = {} if tenant is None else {"x-tenant-id": tenant}
        if token is not None:
            if not (token.isascii() and token.isprintable()) or " " in token:
                fail("TPF_STREAMS_TOKEN: printable characters without blanks are wanted", Exit.USAGE)
            self._headers["Authorization"] = f"Bearer {token}"

    def get(self, path: str) -> Any:
        """Raises RefusedError, HttpError."""
        return self.get_with_headers(path, {})[0]

    def get_with_headers(self, path: str, query: Mapping[str, str]) -> tuple[Any, Mapping[str, str]]:
        return self._send("GET", path, query, None, {}, again=True)

    def post(self, path: str, body: bytes, headers: Mapping[str, str], *, again: bool) -> Any:
        """`again`: it may be sent twice without harm. Raises RefusedError, HttpError."""
        return self._send("POST", path, {}, body, {**headers, "Content-Type": "application/json"}, again=again)[0]

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes | None,
        headers: Mapping[str, str],
        *,
        again: bool,
    ) -> tuple[Any, Mapping[str, str]]:
        end_s = monotonic() + AGAIN_MAX_S
        told = False
        while True:
            try:
                return asyncio.run(self._once(method, path, query, body, headers))
            except RefusedError as error:
                pause_s = error.retry_s
                if error.status != 503 or pause_s is None or not (again or error.code in NOTHING_DONE):
                    raise
                if monotonic() + pause_s > end_s:
                    raise
                if not told:
                    say(f"{self.url} cannot answer just now ({error.code}): trying again")
                told = True
                sleep(pause_s)

    async def _once(
        self, method: str, path: str, query: Mapping[str, str], body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[Any, Mapping[str, str]]:
        timeout = aiohttp.ClientTimeout(total=REQUEST_S, sock_connect=CONNECT_S)
        named = {**self._headers, **headers}
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.request(
                    method, self.url + path, params=query, data=body, headers=named, allow_redirects=False
                ) as found,
            ):
                value = await self._json(found)
                if found.status >= 300:
                    raise refusal(found.status, value, found.headers)
                return value, found.headers
        except aiohttp.ClientConnectorError as error:
            raise HttpError(
                f"nobody answers at {self.url} ({reason_of(error.os_error)}): start a worker with "
                "tpf-streams dev or run --http, or name another by --url or TPF_STREAMS_URL"
            ) from None
        except TimeoutError:
            raise HttpError(
                f"{self.url} did not answer within {REQUEST_S:g} s; what was asked may still come true"
            ) from None
        except aiohttp.ClientError as error:
            raise HttpError(f"{self.url} does not answer as a worker does ({type(error).__name__})") from None

    async def _json(self, found: aiohttp.ClientResponse) -> Json:
        data = bytearray()
        async for piece in found.content.iter_any():
            data += piece
            if len(data) > BODY_BYTES_MAX:
                raise HttpError(f"{found.url} is over {BODY_BYTES_MAX // 2**20} MiB: get it with another client")
        try:
            return orjson.loads(data)
        except ValueError:
            if found.status >= 300:
                return None
            raise HttpError(f"{self.url} does not answer as a worker does: {found.url.path} is no JSON") from None


def refusal(status: int, problem: Json, headers: Mapping[str, str]) -> RefusedError:
    """The problem of RFC 9457 that a worker sends, or what can be said of any other answer."""
    told = problem if isinstance(problem, dict) and isinstance(problem.get("detail"), str) else {}
    outcome = str(told.get("outcome") or HttpError.code)
    detail = str(told.get("detail") or f"status {status}, and this is not how a worker answers")
    more = {name: value for name, value in told.items() if name not in ("type", "title", "status", "detail", "outcome")}
    return RefusedError(status, outcome, detail, more, retry_of(headers))


def reason_of(error: OSError) -> str:
    """In the system's words, which asyncio replaces by a sentence with the address in it."""
    refused = isinstance(error, ConnectionRefusedError)
    return "connection refused" if refused else error.strerror or "no connection"


def retry_of(headers: Mapping[str, str]) -> float | None:
    """Seconds, within a bound; None where a worker does not ask for it."""
    text = headers.get("Retry-After", "")
    return min(float(text), PAUSE_MAX_S) if text.isascii() and text.isdigit() else None


def checked(url: str) -> str:
    """Without what stands behind the place: paths are ours."""
    parts = urlsplit(url if "//" in url else f"http://{url}")
    try:
        whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        whole = False
    if not whole or parts.query or parts.fragment:
        fail("--url: http://HOST:PORT of a worker is wanted", Exit.USAGE)
    if parts.username or parts.password:
        fail("--url holds a password, which logs would show: a token belongs in TPF_STREAMS_TOKEN", Exit.USAGE)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"

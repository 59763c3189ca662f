"""The API on a port of its own, for a process that has no web server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from tpf_streams.api.problems import ProblemError
from tpf_streams.api.routes import routes
from tpf_streams.api.service import Api
from tpf_streams.errors import TpfError

LOOPBACK = "127.0.0.1"
SHUTDOWN_S = 2.0
"""For requests under way when it closes; what they wait for is in the log, and can be asked for again."""


class ApiPortError(TpfError):
    """The port cannot be had."""

    code = "HTTP_PORT"


class ApiServer:
    """Serves from `open` to `close`, on the loop that opens it."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._runner = web.AppRunner(application(api), access_log=None, shutdown_timeout=SHUTDOWN_S)
        self.at: tuple[str, int] = ("", 0)
        """Host and port, once it is open."""

    async def open(self, host: str, port: int) -> None:
        """Port 0 takes a free one. Raises ApiPortError."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port).start()
        except OSError as error:
            await self._runner.cleanup()
            raise ApiPortError(f"HTTP cannot be served on {host}:{port}: {error.strerror or error}") from error
        self.at = self._runner.addresses[0][:2]

    @property
    def url(self) -> str:
        host, port = self.at
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    async def close(self) -> None:
        """Idempotent."""
        self._api.feed.close()
        await self._runner.cleanup()
        if self._api.peers is not None:
            await self._api.peers.close()


def application(api: Api) -> web.Application:
    """An application with these routes and no others."""
    found = web.Application(middlewares=[_unrouted])
    found.add_routes(routes(lambda: api))
    return found


@web.middleware
async def _unrouted(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """A path or a method that is none of ours, as a problem too."""
    try:
        return await handler(request)
    except web.HTTPMethodNotAllowed as error:
        problem = ProblemError(405, "method_not_allowed", f"allowed here: {error.headers['Allow']}")
        problem.headers = {"Allow": error.headers["Allow"]}
        return problem.response()
    except web.HTTPNotFound:
        return ProblemError(404, "not_found", "there is no such path; /openapi.json lists those there are").response()

"""The other workers of the application: what is asked of rows that they have is passed on to them, once.

An owner's answer is the answer, given after its commit. Whatever keeps it from coming is a 503 with Retry-After: the
owner has gone, or is another by now, or says nothing in time. What was asked may come true all the same; whoever asks
again is told a duplicate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, hdrs, web
from yarl import URL

from tpf_streams.api.access import TENANT_HEADER
from tpf_streams.api.hops import HOP_HEADER, LIFE_HEADER, WORKER_HEADER, Owned, hop_text, sent_on
from tpf_streams.api.problems import unavailable
from tpf_streams.api.reading import BODY, KEY_HEADER
from tpf_streams.engine.owners import Owner, Owners
from tpf_streams.runtime.refusals import ElsewhereError

log = logging.getLogger(__name__)

PASSED_ON = (hdrs.ACCEPT, hdrs.AUTHORIZATION, hdrs.CONTENT_TYPE, KEY_HEADER, TENANT_HEADER)
"""Of a request: what is asked, and for whom. The rest is between the client and this worker."""
GIVEN_BACK = (hdrs.CONTENT_TYPE, hdrs.RETRY_AFTER, hdrs.WWW_AUTHENTICATE)
"""Of an answer."""
PARTITIONS_A_HOP = 200
"""Named by one request: a header holds 8 KiB."""
WHOLE_BYTES = 1024 * 1024
"""An answer of this size or less is taken in before the client hears of it: one that breaks off is a 503 then."""
PIECE_BYTES, PIECE_S = 64 * 1024, 30.0
"""Of a longer one, and for its next piece to come or to be taken."""


@dataclass(frozen=True, slots=True)
class Share:
    """Partitions that one worker has. `url` None: this worker itself."""

    worker_id: str
    url: str | None
    owned: Owned


class Peers:
    """`worker_id`: of this process. `answer_s`: for an owner's answer. Used on one loop, and closed on it."""

    def __init__(self, owners: Owners, worker_id: str, answer_s: float) -> None:
        self.worker_id = worker_id
        self._owners = owners
        self._answer_s = answer_s
        self._session: ClientSession | None = None

    def shares(self) -> list[Share]:
        """All partitions, by who has them. Raises ProblemError (503) where that is not known: a list without their
        rows would look whole."""
        found: dict[tuple[str, str | None], dict[int, int]] = {}
        for partition in range(self._owners.partitions):
            owner = self._owner(partition)
            url = None if owner.worker_id == self.worker_id else owner.url
            found.setdefault((owner.worker_id, url), {})[partition] = owner.incarnation
        return [Share(worker_id, url, part) for (worker_id, url), owned in found.items() for part in _cut(owned)]

    def _owner(self, partition: int) -> Owner:
        owner = self._owners.of(partition)
        if owner is None:
            raise unavailable("elsewhere", f"which worker has partition {partition} is not known just now")
        if owner.url is None and owner.worker_id != self.worker_id:
            raise unavailable("elsewhere", f"the worker that has partition {partition} serves no HTTP")
        return owner

    async def forward(self, request: web.Request, partition: int, life: int = 0) -> web.StreamResponse | ElsewhereError:
        """A client's request answered by the partition's owner; or where it is to be asked for, and by which life.

        Raises ProblemError: 503.
        """
        owner = self._owner(partition)
        if owner.worker_id == self.worker_id:
            raise unavailable("elsewhere", f"partition {partition} is being opened or given up here")
        share = Share(owner.worker_id, owner.url, {partition: owner.incarnation})
        reply, body = await self._reply(request, share, WHOLE_BYTES, life)
        elsewhere = sent_on(reply.headers)
        if elsewhere is not None and not life:
            return elsewhere
        headers = {str(name): reply.headers[name] for name in GIVEN_BACK if name in reply.headers}
        if body is not None:
            return web.Response(body=body, status=reply.status, headers=headers)
        return await _passed_along(request, reply, headers)

    async def fetch(self, request: web.Request, share: Share) -> tuple[int, bytes, Mapping[str, str]]:
        """Status, body and headers of a worker's own part of the answer to a client's request. Raises ProblemError:
        503."""
        reply, body = await self._reply(request, share, inf)
        if body is None:
            reply.close()
            raise _silent(share)
        return reply.status, body, reply.headers

    async def close(self) -> None:
        """Idempotent."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _reply(
        self, request: web.Request, share: Share, whole_bytes: float, life: int = 0
    ) -> tuple[ClientResponse, bytes | None]:
        """What the worker answers, and its body, if that is short. Raises ProblemError: 503."""
        try:
            async with asyncio.timeout(self._answer_s):
                reply = await self._sent(request, share, life)
                length = reply.content_length
                body = await reply.read() if length is not None and length <= whole_bytes else None
        except (ClientError, OSError, TimeoutError) as error:
            log.info("%s, at %s: %s", _whose(share), share.url, type(error).__name__)
            raise _silent(share) from None
        if reply.headers.get(WORKER_HEADER) != share.worker_id:
            reply.close()
            raise unavailable("elsewhere", f"another program answers where {_whose(share)} is said to be")
        if reply.status >= 500 and reply.status != 503:
            reply.close()
            raise _silent(share)
        return reply, body

    async def _sent(self, request: web.Request, share: Share, life: int) -> ClientResponse:
        if self._session is None:
            self._session = ClientSession(
                cookie_jar=DummyCookieJar(), timeout=ClientTimeout(total=None, sock_read=PIECE_S), auto_decompress=False
            )
        asked, server = request.rel_url, URL(share.url or "")
        # By its parts, and not joined: a path of a client must not name another server.
        url = URL.build(
            scheme=server.scheme,
            authority=server.raw_authority,
            path=asked.raw_path,
            query_string=asked.raw_query_string,
            encoded=True,
        )
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        return await self._session.request(
            request.method,
            url,
            headers={**headers, HOP_HEADER: hop_text(share.owned), **({LIFE_HEADER: str(life)} if life else {})},
            data=request.get(BODY),
            allow_redirects=False,
        )


async def _passed_along(request: web.Request, reply: ClientResponse, headers: Mapping[str, str]) -> web.StreamResponse:
    """Piece by piece. An answer that breaks off breaks the client's connection, too: nobody takes it for the end."""
    response = web.StreamResponse(status=reply.status, headers=headers)
    async with reply:
        await response.prepare(request)
        try:
            async for piece in reply.content.iter_chunked(PIECE_BYTES):
                async with asyncio.timeout(PIECE_S):
                    await response.write(piece)
            await response.write_eof()
        except (ClientError, ConnectionError, TimeoutError):
            if request.transport is not None:
                request.transport.abort()
    return response


def _cut(owned: Owned) -> list[Owned]:
    pairs = list(owned.items())
    return [dict(pairs[start : start + PARTITIONS_A_HOP]) for start in range(0, len(pairs), PARTITIONS_A_HOP)]


def _silent(share: Share) -> Exception:
    return unavailable("elsewhere", f"{_whose(share)} has not answered; what was asked may come true all the same")


def _whose(share: Share) -> str:
    numbers = ", ".join(map(str, sorted(share.owned)))
    return f"the worker that has partition{'s' if len(share.owned) > 1 else ''} {numbers}"

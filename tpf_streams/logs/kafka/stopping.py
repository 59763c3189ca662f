"""The end of a client, whatever the state of its broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

log = logging.getLogger(__name__)

STOP_S = 2.0
"""A client without its broker retries what nobody waits for any more, and one in a group waits for the answer to a
join, held back until every member that is believed in has joined or timed out (seen: 9.8 s behind the death of another
worker). Several are stopped when a worker stops, and a worker that takes too long over it is killed."""


async def stop(client: Any) -> None:
    """Stop a consumer or a producer. Never raises and never lasts; a cancelled caller still gives the connections back.

    With its broker gone aiokafka lets the cancellation of its own inner tasks out, which looks like one of the caller's
    and would end whatever stands behind it: other clients stay open, and a data directory locked.
    """
    stopping = asyncio.ensure_future(_stop(client))
    await asyncio.shield(stopping)


async def _stop(client: Any) -> None:
    for end in (client.stop, *_parts(client)):
        ending = asyncio.ensure_future(end())
        _, late = await asyncio.wait([ending], timeout=STOP_S)
        if late:
            ending.cancel()
        for result in await asyncio.gather(ending, return_exceptions=True):
            if result is not None:
                log.debug("a Kafka client did not stop well: %r", result)


def _parts(client: Any) -> Iterator[Callable[[], Awaitable[None]]]:
    """What `stop` closes itself, but not when it broke off."""
    fetcher = getattr(client, "_fetcher", None)
    if fetcher is not None:
        yield fetcher.close
    yield (client.client if hasattr(client, "client") else client._client).close

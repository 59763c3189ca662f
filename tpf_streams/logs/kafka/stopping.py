"""The end of a client, whatever the state of its broker and of its group."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiokafka import AIOKafkaConsumer

log = logging.getLogger(__name__)

STOP_S = 1.0
"""A client without its broker retries what nobody waits for any more. With it, it has nothing to do but close: whoever
sends has waited for the answers, and what a task leaves open its successor settles."""
LEAVE_S = 2.0
CLOSE_S = 0.5
"""Of connections, which have nobody to wait for."""


async def leave(consumer: AIOKafkaConsumer, within_s: float = LEAVE_S) -> None:
    """Leave the group and close. Never raises, and never lasts as long as a rebalance.

    The client's own stop waits for the answer to a join, which the broker holds back until every member it believes in
    has joined or timed out (seen: 9.8 s behind the death of another worker): a worker that is told to stop would be
    killed instead, in the middle of what it does.
    """
    await stop(consumer, within_s)


async def stop(client: Any, within_s: float = STOP_S) -> None:
    """Stop a consumer or a producer. Never raises and never lasts; a cancelled caller still gives the connections back.

    With its broker gone aiokafka lets the cancellation of its own inner tasks out, which looks like one of the caller's
    and would end whatever stands behind it: other clients stay open, and a data directory locked.
    """
    await asyncio.shield(asyncio.ensure_future(_stop(client, within_s)))


async def _stop(client: Any, within_s: float) -> None:
    """What `stop` of the client closes last is closed once more: it may have broken off before."""
    fetcher = getattr(client, "_fetcher", None)
    connections = client.client if hasattr(client, "client") else client._client
    await _ended(client.stop(), within_s)
    if fetcher is not None:
        await _ended(fetcher.close(), CLOSE_S)
    connections._conns = _Closing(connections._conns)
    await _ended(connections.close(), CLOSE_S)


class _Closing(dict[Any, Any]):
    """The connections of a client that has ended, by node. A sender that is given up leaves requests of its own behind,
    and one that was connecting has its connection here after everybody has looked: nobody would ever close it."""

    def __setitem__(self, node: Any, connection: Any) -> None:
        super().__setitem__(node, connection)
        connection.close()


async def _ended(end: Any, within_s: float) -> None:
    ending = asyncio.ensure_future(end)
    _, late = await asyncio.wait([ending], timeout=within_s)
    if late:
        ending.cancel()
    for result in await asyncio.gather(ending, return_exceptions=True):
        if result is not None:
            log.debug("a Kafka client did not stop well: %r", result)

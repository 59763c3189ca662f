"""Stopping a client of a broker that may be gone."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

log = logging.getLogger(__name__)

STOP_S = 3.0
"""Leaving a group and closing connections is a matter of milliseconds, where somebody answers."""


async def stopped(client: Any) -> None:
    """Stop an aiokafka client; never raises, and never lasts.

    With a broker that hangs `stop` waits for minutes (seen: 90 s and more), and with one that died it may raise the
    cancellation of a task of its own, which would look like one of the caller.
    """
    stopping = asyncio.ensure_future(client.stop())
    done, _ = await asyncio.wait([stopping], timeout=STOP_S)
    if not done:
        stopping.cancel()
        log.warning("a Kafka client did not stop in %.0f s and is left", STOP_S)
    elif stopping.cancelled() or stopping.exception() is not None:
        log.debug("a Kafka client did not stop well")

"""Waiting for an append: one asyncio.Event per waiter, hung on every partition that it reads."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Protocol


class Awaited(Protocol):
    """Something that appends and then sets the events in `waiters`."""

    @property
    def waiters(self) -> set[asyncio.Event]: ...


async def wait_any(sources: Collection[Awaited], timeout_s: float) -> None:
    """Return at the next append to one of `sources`, or after `timeout_s`."""
    event = asyncio.Event()
    for source in sources:
        source.waiters.add(event)
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        pass
    finally:
        # A waiter left behind would be set on every append for ever: a leak that grows with each idle second.
        for source in sources:
            source.waiters.discard(event)


def wake(source: Awaited) -> None:
    """Tell everybody who waits on `source`."""
    for event in source.waiters:
        event.set()

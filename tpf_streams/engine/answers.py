"""Who asked for the outcome of a completion is told it, after the commit that made it true."""

from __future__ import annotations

import asyncio


class Answers:
    """Open questions by origin. An answer nobody waits for is dropped: the rows hold it."""

    def __init__(self) -> None:
        self._open: dict[str, asyncio.Future[str]] = {}

    def expect(self, origin: str) -> asyncio.Future[str]:
        """A future of the outcome (contract 0.4) of the completion that carries `origin`."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._open[origin] = future
        future.add_done_callback(lambda _: self._open.pop(origin, None))
        return future

    def resolve(self, origin: str, outcome: str) -> None:
        future = self._open.get(origin)
        if future is not None and not future.done():
            future.set_result(outcome)

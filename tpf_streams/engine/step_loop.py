"""Where async steps run: on the loop of the application, beside its own clients, and not on the engine's.

A step that blocks its loop then delays other steps, and never a heartbeat. Closing waits for nobody over there: a loop
that stands still for twenty seconds must not hold up a revocation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import aclosing
from typing import Any, TypeVar

T = TypeVar("T")

log = logging.getLogger(__name__)


class StepLoop:
    """Runs coroutines of steps on `loop`; None: on the caller's."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop

    async def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """The result of `call`, which is made and awaited over there. Raises what it raises."""
        loop = self._elsewhere()
        if loop is None:
            return await call()
        under_way = _send(loop, _awaited(call))
        if under_way is None:
            # The application has ended before its engine. A failure would be recorded, and its execution would end
            # with it; the step is owed, and the next process runs it.
            await asyncio.Event().wait()
            raise AssertionError("nobody sets it")
        return await asyncio.wrap_future(under_way)

    async def iterate(self, results: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """The items of a generator whose every part runs over there, also what it does when it is let go."""
        loop = self._elsewhere()
        if loop is None:
            async with aclosing(results):
                async for item in results:
                    yield item
            return
        # A pull that was cancelled may still end over there when the generator is let go, and one that runs cannot be
        # closed.
        alone = asyncio.Lock()
        try:
            while (item := await self.run(lambda: _next(results, alone))) is not _END:
                yield item
        finally:
            _send(loop, _let_go(results, alone))

    def _elsewhere(self) -> asyncio.AbstractEventLoop | None:
        return None if self._loop is asyncio.get_running_loop() else self._loop


_END: Any = object()


def _send(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> Future[T] | None:
    """None where the loop is closed."""
    try:
        return asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError:
        work.close()
        return None


async def _awaited(call: Callable[[], Awaitable[T]]) -> T:
    return await call()


async def _next(results: AsyncGenerator[Any, None], alone: asyncio.Lock) -> Any:
    async with alone:
        return await anext(results, _END)


async def _let_go(results: AsyncGenerator[Any, None], alone: asyncio.Lock) -> None:
    async with alone:
        try:
            await results.aclose()
        except Exception as error:
            log.warning("a step's generator did not close well: %s", type(error).__name__)

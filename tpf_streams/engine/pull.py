"""Pulling a source: many elements at a time where they come quickly, the first ones alone where they come slowly."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Generator

from tpf_streams.core.step import ItemReject, Json
from tpf_streams.engine.retry import is_control
from tpf_streams.engine.segments import SegmentRunner

Element = Json | ItemReject

PULL_S = 0.02
"""How long a pull waits for more once it has something: an item of a slow source must not wait for its neighbours."""


class Source(ABC):
    """Elements in source order. Reading goes on by itself only as far as the last `take` allowed."""

    def __init__(self, runner: SegmentRunner) -> None:
        self._runner = runner
        self._ready: deque[Element] = deque()
        self._error: BaseException | None = None
        self._over = False
        self._filling: asyncio.Future[None] | None = None

    @property
    def ended(self) -> bool:
        """After the last element has been taken and one more was asked for."""
        return self._over and not self._ready

    async def take(self, count: int) -> list[Element]:
        """Up to `count` elements, at least one unless the source has ended. Raises what a step raises, behind them."""
        await self.look(count)
        return [self._ready.popleft() for _ in range(min(count, len(self._ready)))]

    async def look(self, count: int = 1) -> None:
        """Until there is an element, or none will come; reads up to `count`. Raises what a step raises."""
        # More than once: a pull whose elements were all taken while it went on ends with nothing in hand.
        while not self._ready and not self._over and self._error is None:
            await self._pull(count)
        if not self._ready and self._error is not None:
            raise self._error

    async def _pull(self, count: int) -> None:
        self._filling = self._filling or asyncio.ensure_future(self._fill(count))
        await self._something(self._filling)

    async def _something(self, filling: asyncio.Future[None]) -> None:
        """Until the pull is done, or has something and takes its time."""
        while not filling.done():
            pause = asyncio.ensure_future(self._runner.clock.sleep(PULL_S))
            try:
                await asyncio.wait({filling, pause}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                pause.cancel()
            if self._ready and not filling.done():
                return
        self._filling = None

    @abstractmethod
    async def _fill(self, count: int) -> None:
        """Put up to `count` elements into `_ready`; note the end, or the error. Raises nothing."""

    @abstractmethod
    async def close(self) -> None:
        """Let the steps' generators go."""


class SyncSource(Source):
    """One hop to the pool for a whole pull: a hop for each element would cost more than the element."""

    def __init__(self, runner: SegmentRunner, elements: Generator[Element, None, None]) -> None:
        super().__init__(runner)
        self._elements = elements
        # A pull that nobody waits for any more still runs in its thread, and a generator that runs cannot be closed.
        self._running = threading.Lock()
        self._closing = False

    async def _pull(self, count: int) -> None:
        if self._runner.executor is None:
            self._fill_here(count)
        else:
            await super()._pull(count)

    async def _fill(self, count: int) -> None:
        await self._runner.in_pool(lambda: self._fill_here(count))

    def _fill_here(self, count: int) -> None:
        with self._running:
            try:
                for _ in range(count):
                    if self._closing:
                        return
                    self._ready.append(next(self._elements))
            except StopIteration:
                self._over = True
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                # Whatever it is: a generator that raised is over, and the next pull would take that for the end.
                self._error = error

    async def close(self) -> None:
        self._closing = True
        await self._runner.in_pool(self._close_here)

    def _close_here(self) -> None:
        with self._running:
            self._elements.close()


class AsyncSource(Source):
    """The steps run on the loop, and give way where they wait."""

    def __init__(self, runner: SegmentRunner, elements: AsyncGenerator[Element, None]) -> None:
        super().__init__(runner)
        self._elements = elements

    async def _fill(self, count: int) -> None:
        try:
            for _ in range(count):
                self._ready.append(await anext(self._elements))
        except StopAsyncIteration:
            self._over = True
        except BaseException as error:
            if is_control(error):
                raise
            self._error = error

    async def close(self) -> None:
        if self._filling is not None:
            self._filling.cancel()
            await asyncio.wait([self._filling])
        await self._elements.aclose()

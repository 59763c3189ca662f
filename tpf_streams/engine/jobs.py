"""Outside work of one task: started after a commit, bounded, and forgotten when the task is closed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from tpf_streams.core.events import Event


@dataclass(frozen=True, slots=True)
class Pause:
    """What a work gives that has failed and is to be tried again: `then`, after `seconds`."""

    seconds: float
    then: Work


Work = Callable[[], Coroutine[Any, Any, Event | Pause | None]]
Wanted = Callable[[], bool]


def always() -> bool:
    return True


class Jobs:
    """Runs work beside the turns; each result goes to `deliver`. At most `limit` bounded ones at once, in order.

    Work that pauses between its tries gives its place away: sixty-four calls to a partner that is down would otherwise
    hold up every step that is well. What nobody wants any more when its turn comes is not begun, nor tried again: a
    step must not be called for hours after its execution was cancelled. A result of a closed task is dropped: the next
    incarnation owes the work still and does it again.
    """

    def __init__(
        self,
        deliver: Callable[[Event], None],
        limit: int,
        failed: Callable[[], None] = lambda: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._deliver = deliver
        self._sleep = sleep
        self._paused = 0
        self._failed = failed
        self._limit = limit
        self._running: set[asyncio.Task[None]] = set()
        self._waiting: deque[tuple[Work, Wanted]] = deque()
        self._bounded = 0
        self.closed = False
        self.error: Exception | None = None
        """What a work raised that should give an event: nobody would do it again, so its task has to be opened anew."""

    @property
    def idle(self) -> bool:
        return not self._running and not self._waiting

    @property
    def backlog(self) -> int:
        """Works that wait, for room or for their next try."""
        return len(self._waiting) + self._paused

    def start(self, work: Work) -> None:
        """Start now, outside the bound: pulls and publishing, which are one an execution anyway."""
        self._spawn(work, always, bounded=False)

    def submit(self, work: Work, wanted: Wanted = always) -> None:
        """Start when there is room, if it is `wanted` then."""
        self._waiting.append((work, wanted))
        self._fill()

    async def close(self) -> None:
        """Cancel what runs; nothing is delivered any more."""
        self.closed = True
        self._waiting.clear()
        running = list(self._running)
        for job in running:
            job.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _fill(self) -> None:
        while self._waiting and self._bounded < self._limit and not self.closed:
            self._bounded += 1
            self._spawn(*self._waiting.popleft(), bounded=True)

    def _spawn(self, work: Work, wanted: Wanted, *, bounded: bool) -> None:
        self._keep(self._run(work, wanted, bounded))

    def _keep(self, running: Coroutine[Any, Any, None]) -> None:
        job = asyncio.get_running_loop().create_task(running)
        self._running.add(job)
        job.add_done_callback(self._running.discard)

    async def _run(self, work: Work, wanted: Wanted, bounded: bool) -> None:
        try:
            event = await work() if wanted() else None
            if event is None or self.closed:
                return
            if isinstance(event, Pause):
                self._keep(self._after(event, wanted, bounded))
            else:
                self._deliver(event)
        except Exception as error:
            self.error = self.error or error
            self._failed()
        finally:
            if bounded:
                self._bounded -= 1
                self._fill()

    async def _after(self, pause: Pause, wanted: Wanted, bounded: bool) -> None:
        self._paused += 1
        try:
            await self._sleep(pause.seconds)
        finally:
            self._paused -= 1
        if self.closed:
            return
        if bounded:
            self.submit(pause.then, wanted)
        else:
            self.start(pause.then)

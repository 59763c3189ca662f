"""A clock that moves when told."""

from __future__ import annotations

import asyncio
import heapq

START_MS = 1_700_000_000_000


class ManualClock:
    """`ports.Clock` for tests: time stands still until `advance`; sleepers wake in order of their time.

    Wall time and elapsed time move together; `jump` moves the wall alone, as a corrected system clock does.
    """

    def __init__(self, now_ms: int = START_MS) -> None:
        self._now_ms = now_ms
        self._elapsed_ms = 0
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = 0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return self._elapsed_ms / 1000

    async def sleep(self, seconds: float) -> None:
        """Park until time has moved by `seconds`; without a duration only give way once."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._order += 1
        # Never early: a fraction of a millisecond counts as a whole one.
        due_ms = self._elapsed_ms + -int(-seconds * 1000 // 1)
        heapq.heappush(self._sleepers, (due_ms, self._order, waker))
        await waker

    def advance(self, ms: int) -> None:
        """Let `ms` pass and wake who is due; they run when the caller next awaits."""
        if ms < 0:
            raise ValueError("time does not go back; use jump for the wall clock")
        self._now_ms += ms
        self._elapsed_ms += ms
        while self._sleepers and self._sleepers[0][0] <= self._elapsed_ms:
            waker = heapq.heappop(self._sleepers)[2]
            if not waker.done():
                waker.set_result(None)

    def jump(self, ms: int) -> None:
        """Move the wall clock only, forward or back."""
        self._now_ms += ms

    @property
    def next_wake_ms(self) -> int | None:
        """How far to advance to wake the next sleeper; None when nobody sleeps."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] - self._elapsed_ms if self._sleepers else None

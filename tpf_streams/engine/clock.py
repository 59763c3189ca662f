"""Time: the system's, and the one a partition lives by (contract 0.8)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger(__name__)

JUMP_MS = 60_000
"""Wall time may differ from elapsed time by this much between two readings before deadlines wait."""
READING_GAP_MS = 10_000
READINGS_AGREED = 3
HOLD_MAX_MS = 60_000
AGREEMENT_MS = 1_000
"""Readings agree within this; a slewed clock moves 5 ms in ten seconds."""

_ELAPSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """`ports.Clock` of this machine. Elapsed time counts while the machine sleeps, where the system can tell."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.clock_gettime(_ELAPSED)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def first_of(stop: asyncio.Event, *waits: Coroutine[Any, Any, object]) -> None:
    """Return when one of `waits` does or `stop` is set; raises what a wait raises. The others are cancelled."""
    tasks = [asyncio.ensure_future(wait) for wait in (stop.wait(), *waits)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


async def until_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, None], ending_s: float) -> None:
    """`work`, which looks at `stop` itself; cancelled when it has not ended `ending_s` behind it. Raises what it does.

    For work whose answer may never come: nobody who stops can wait for a broker that hangs.
    """
    running, asked = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([running, asked], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait([running], timeout=ending_s)
    finally:
        for each in (running, asked):
            each.cancel()
        await asyncio.gather(running, asked, return_exceptions=True)
    if not running.cancelled():
        running.result()


class PartitionTime:
    """The `now` of one partition: never goes back, and does not believe a jump at once.

    Feed it readings of wall time (epoch ms) and elapsed time (seconds). After a jump `held` is true, deadlines wait
    and `now` goes on by elapsed time, until three readings 10 s apart agree; after 60 s the clock is believed anyhow.
    `floor_ms`: the last `now` the partition is known to have lived by.
    """

    __slots__ = ("_agreed", "_hold_began_ms", "_hold_drift_ms", "_hold_read_ms", "_now_ms", "_skew_ms")

    def __init__(self, wall_ms: int, elapsed_s: float, floor_ms: int = 0) -> None:
        self._skew_ms = wall_ms - round(elapsed_s * 1000)
        self._now_ms = max(wall_ms, floor_ms)
        self._agreed = 0
        self._hold_began_ms = 0
        self._hold_read_ms = 0
        self._hold_drift_ms = 0

    @property
    def now_ms(self) -> int:
        """The last answer of `read`."""
        return self._now_ms

    @property
    def held(self) -> bool:
        """Whether deadlines wait because the clock has jumped."""
        return self._agreed > 0

    def read(self, wall_ms: int, elapsed_s: float) -> int:
        """Take a reading; the partition's now, epoch ms."""
        elapsed_ms = round(elapsed_s * 1000)
        skew_ms = wall_ms - elapsed_ms
        if self._agreed:
            self._confirm(skew_ms, elapsed_ms)
        elif abs(skew_ms - self._skew_ms) > JUMP_MS:
            self._hold(skew_ms, elapsed_ms)
        else:
            self._skew_ms = skew_ms
        self._now_ms = max(self._now_ms, elapsed_ms + self._skew_ms)
        return self._now_ms

    def _hold(self, skew_ms: int, elapsed_ms: int) -> None:
        log.warning("the clock jumped by %d ms: deadlines wait until it is steady", skew_ms - self._skew_ms)
        self._agreed = 1
        self._hold_began_ms = self._hold_read_ms = elapsed_ms
        self._hold_drift_ms = skew_ms

    def _confirm(self, skew_ms: int, elapsed_ms: int) -> None:
        if elapsed_ms - self._hold_began_ms >= HOLD_MAX_MS:
            self._release(skew_ms, elapsed_ms)
        elif abs(skew_ms - self._hold_drift_ms) > AGREEMENT_MS:
            self._agreed, self._hold_read_ms, self._hold_drift_ms = 1, elapsed_ms, skew_ms
        elif elapsed_ms - self._hold_read_ms >= READING_GAP_MS:
            self._agreed, self._hold_read_ms = self._agreed + 1, elapsed_ms
            if self._agreed == READINGS_AGREED:
                self._release(skew_ms, elapsed_ms)

    def _release(self, skew_ms: int, elapsed_ms: int) -> None:
        log.warning(
            "the clock is believed again after %d ms, moved by %d ms",
            elapsed_ms - self._hold_began_ms,
            skew_ms - self._skew_ms,
        )
        self._agreed = 0
        self._skew_ms = skew_ms

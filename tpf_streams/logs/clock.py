"""The clock a log uses when it is given none."""

from __future__ import annotations

import asyncio
import time

_ELAPSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed_s() -> float:
    """Seconds that also pass while the machine sleeps, where the system can tell."""
    return time.clock_gettime(_ELAPSED)


class SystemClock:
    """Clock of this host."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

"""The clock a log uses when it is given none."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """Clock of this host."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

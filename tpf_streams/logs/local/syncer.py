"""When a write is durable, and when it may be seen.

One sync at a time runs in a thread; turns that are written meanwhile share the next one. On a disk whose sync takes
5 ms eight tasks so commit 1,600 turns a second instead of 200, and the event loop never waits for the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeAlias

SyncMode: TypeAlias = Literal["commit", "interval"]
"""commit: a turn is durable when its commit returns. interval: it survives the process at once, and the machine after
`sync_interval_ms` at most."""


class Syncer:
    """Settles writes in the order in which they were made."""

    def __init__(
        self, sync: Callable[[], None], mode: SyncMode, interval_ms: int, fail: Callable[[BaseException], Exception]
    ):
        self._sync = sync
        self._mode = mode
        self._interval_s = interval_ms / 1000
        self._fail = fail
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tpf-journal-sync")
        self._waiting: list[tuple[asyncio.Future[None], Callable[[], None]]] = []
        self._flying: list[tuple[asyncio.Future[None], Callable[[], None]]] = []
        self._running: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def settle(self, publish: Callable[[], None], *, durable: bool) -> None:
        """Call `publish` and return: at once, or behind the sync that covers the write just made."""
        if self._mode == "interval":
            publish()
            if self._timer is None:
                self._set_timer()
        elif durable or self._running is not None:
            # What need not be durable still waits behind a running sync: offsets become visible in order.
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((future, publish))
            if self._running is None:
                self._start()
            await future
        else:
            publish()

    async def close(self) -> None:
        """Wait for what is under way. The caller syncs once more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._running is not None:
            await asyncio.wait((self._running,))
            await asyncio.sleep(0)
        self._thread.shutdown()

    def _set_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._running is None:
            self._start()
        else:
            # The sync under way may have begun before the newest write, which may be the last one for hours.
            self._set_timer()

    def _start(self) -> None:
        self._flying, self._waiting = self._waiting, []
        self._running = asyncio.get_running_loop().run_in_executor(self._thread, self._sync)
        self._running.add_done_callback(self._done)

    def _done(self, running: asyncio.Future[None]) -> None:
        self._running = None
        error = running.exception()
        flying, self._flying = self._flying, []
        if error is not None:
            self._fail(error)
            # Writes after a failed sync may sit on a hole: none of them may be told as done.
            flying, self._waiting = flying + self._waiting, []
        for future, publish in flying:
            if error is None:
                publish()
            if future.done():
                continue  # its commit was cancelled; the write holds all the same
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(self._fail(error))
        if self._waiting:
            self._start()

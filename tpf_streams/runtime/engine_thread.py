"""The engine in a thread and an event loop of its own.

A user's agent, page or step that blocks the application's loop for twenty seconds must not stop the engine's
heartbeats: its partitions would move to another worker, and come back, and move again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from tpf_streams.engine.clock import first_of
from tpf_streams.engine.owners import Owners
from tpf_streams.errors import TpfError
from tpf_streams.runtime.application import Application
from tpf_streams.runtime.batch import Companion
from tpf_streams.runtime.loops import new_event_loop, spare_the_collector
from tpf_streams.runtime.open_log import ViewableLog

T = TypeVar("T")

log = logging.getLogger(__name__)

STOP_S = 8.0
"""A stop gives up on the engine after this, since a worker has ten seconds for all it does: what is under way then is
settled by whoever opens the partition next."""
READY_POLL_S = 0.02


class EngineStoppedError(TpfError):
    """The engine does not run: not started, stopped, or lost."""

    code = "ENGINE_STOPPED"


@dataclass(frozen=True, slots=True)
class Engine:
    """What runs in the thread. `beside`: what works beside the application once it is open, and never raises. `owners`:
    who has which partition; None on a log that has one worker."""

    log: ViewableLog
    application: Application
    beside: Sequence[Companion] = ()
    owners: Owners | None = None


class EngineThread:
    """Runs one engine. `make` opens its log and builds it, on the engine's own loop.

    Futures for other threads: `opened` when the log is open and its topics are there, `ready` when the group is joined
    and every assigned partition restored, `ended` at the end. All of them carry the failure that ended the engine.
    """

    def __init__(self, make: Callable[[], Coroutine[Any, Any, Engine]]) -> None:
        self.opened: Future[Engine] = Future()
        self.ready: Future[None] = Future()
        self.ended: Future[None] = Future()
        self._make = make
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._work, name="tpf-engine", daemon=True)

    @property
    def is_ready(self) -> bool:
        """Whether it runs, and every partition that this process has now is restored and open."""
        return self.ready.done() and not self.ended.done() and self.opened.result().application.worker.ready

    def start(self) -> None:
        """Returns at once. Once only."""
        self._loop = new_event_loop()
        self._thread.start()

    async def call(self, work: Callable[[Application], Coroutine[Any, Any, T]]) -> T:
        """Run `work` on the engine's loop, from any other. Raises EngineStoppedError, and what `work` raises."""
        if self._loop is None or not self.opened.done() or self.ended.done():
            raise EngineStoppedError("the engine does not run in this process")
        asked = asyncio.run_coroutine_threadsafe(work(self.opened.result().application), self._loop)
        try:
            return await asyncio.wrap_future(asked)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise EngineStoppedError("the engine stopped before it answered") from None

    def ask_to_stop(self) -> None:
        """Begin to stop: turns under way are finished, the group is left. Returns at once."""
        if self._loop is not None and not self.ended.done():
            try:
                self._loop.call_soon_threadsafe(self._stop.set)
            except RuntimeError:
                log.debug("the engine's loop has closed meanwhile")

    async def stop(self, timeout_s: float = STOP_S) -> None:
        """Stop in good order, within `timeout_s`. Idempotent; the engine's own failure is told by `ended`."""
        self.ask_to_stop()
        if self._loop is None or self.ended.done():
            return
        done, _ = await asyncio.wait([asyncio.ensure_future(ended(self.ended))], timeout=timeout_s)
        if not done:
            log.error("the engine did not stop within %.0f s; its successor settles what is under way", timeout_s)

    # In the thread

    def _work(self) -> None:
        failure: BaseException | None = None
        try:
            with asyncio.Runner(loop_factory=self._own_loop) as runner:
                runner.run(self._run())
        except BaseException as error:
            failure = error
        for future in (self.opened, self.ready):
            if not future.done():
                future.set_exception(failure or EngineStoppedError("the engine was stopped before it was ready"))
        if failure is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(failure)

    def _own_loop(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None, "start makes it"
        return self._loop

    async def _run(self) -> None:
        spare_the_collector()
        engine = await self._made()
        if engine is None:
            return
        try:
            self.opened.set_result(engine)
            await first_of(self._stop, engine.application.open())
            if self._stop.is_set():
                await engine.application.close()
            else:
                await self._drive(engine)
        finally:
            await engine.log.close()

    async def _made(self) -> Engine | None:
        """None when it was stopped before: a cluster that does not answer would be waited for otherwise."""
        making = asyncio.ensure_future(self._make())
        await first_of(self._stop, asyncio.wait([making]))
        if not making.done():
            making.cancel()
            await asyncio.wait([making])
        return None if making.cancelled() else making.result()

    async def _drive(self, engine: Engine) -> None:
        work = [self._tell_ready(engine.application), *(companion(self._stop) for companion in engine.beside)]
        beside = [asyncio.ensure_future(each) for each in work]
        try:
            await engine.application.run(self._stop)
        finally:
            self._stop.set()
            for found in await asyncio.gather(*beside, return_exceptions=True):
                if isinstance(found, Exception):
                    log.error("something beside the engine ended early", exc_info=found)

    async def _tell_ready(self, application: Application) -> None:
        while not self._stop.is_set():
            if application.worker.ready:
                self.ready.set_result(None)
                return
            await asyncio.sleep(READY_POLL_S)


async def ended(future: Future[Any]) -> None:
    """Return when it is done, whatever came of it. Cancelling this leaves it alone."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def tell(_: Future[Any]) -> None:
        try:
            loop.call_soon_threadsafe(done.set)
        except RuntimeError:
            log.debug("nobody waits for the engine any more")

    future.add_done_callback(tell)
    await done.wait()

"""A run with an end: submit inputs, follow every execution to its last row, and stop in good order."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any

from tpf_streams.engine.clock import first_of
from tpf_streams.errors import LogError
from tpf_streams.runtime.application import Application
from tpf_streams.runtime.elsewhere import Elsewhere
from tpf_streams.runtime.inputs import Submission
from tpf_streams.runtime.intake import Intake
from tpf_streams.runtime.run_result import RunResult, run_result
from tpf_streams.runtime.run_tally import RunTally
from tpf_streams.runtime.views import LogViews

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 1.0
"""A fact can be lost with a task that is opened anew: the rows are looked at this often besides."""
CLOSE_S = 30.0
PARK_S = 10.0
ASK_S = 2.0
"""A log that does not take a few records in this time is not there: who stops cannot wait for it."""
NEVER_BEGUN_S = 60.0

Companion = Callable[[asyncio.Event], Coroutine[Any, Any, None]]
"""Something that works beside the application until the event is set: a provider, a progress bar."""


class BatchRun:
    """One run over one application. `interrupt` set: end early, with everything stored that was answered for.
    `serves`: others may still ask for executions, so that it ends by the interrupt alone."""

    def __init__(
        self,
        application: Application,
        views: LogViews,
        tally: RunTally,
        pool: Executor,
        *,
        companions: Sequence[Companion] = (),
        park: bool = False,
        elsewhere: Elsewhere | None = None,
        serves: bool = False,
    ) -> None:
        self.application = application
        self.views = views
        self.tally = tally
        self.intake = Intake(application, views, tally)
        self.interrupt = asyncio.Event()
        self._pool = pool
        self._companions = companions
        self._park = park
        self._elsewhere = elsewhere
        self._serves = serves
        self._missing_since: dict[str, float] = {}

    async def run(self, found: Iterator[Submission]) -> RunResult:
        """Run to the end, or to the interrupt. Raises what stops the log."""
        began_s = time.monotonic()
        await first_of(self.interrupt, self._open())
        if self.interrupt.is_set():
            await self.application.close()
            return run_result(self.intake, self.views, self.tally, time.monotonic() - began_s)
        self.tally.opened(self.views.pending_count())
        self.intake.take_up()
        stop = asyncio.Event()
        engine = asyncio.ensure_future(self.application.run(stop))
        beside = [asyncio.ensure_future(companion(stop)) for companion in self._companions]
        try:
            await self._until_done(engine, found)
            if self.interrupt.is_set() and self._park:
                await self._cancel_sessions()
            if self._elsewhere is not None and not self.interrupt.is_set():
                # A partition may have gone meanwhile, and with it the rows that the result is made of. Not when it is
                # to end soon: what is not over has no result, and without its broker the rows would be waited for.
                await self._elsewhere.known()
            return run_result(self.intake, self.views, self.tally, time.monotonic() - began_s)
        finally:
            stop.set()
            for found_wrong in await asyncio.gather(*beside, return_exceptions=True):
                if isinstance(found_wrong, Exception):
                    log.warning("a companion of the run ended early", exc_info=found_wrong)
            await engine

    async def _open(self) -> None:
        await self.application.open()
        if self._elsewhere is not None:
            await self._elsewhere.open()

    async def _until_done(self, engine: asyncio.Future[None], found: Iterator[Submission]) -> None:
        ends: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self._work(found)),
            asyncio.ensure_future(self.interrupt.wait()),
        ]
        try:
            done, _ = await asyncio.wait([engine, *ends], return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            for each in ends:
                each.cancel()
            await asyncio.gather(*ends, return_exceptions=True)

    async def _work(self, found: Iterator[Submission]) -> None:
        await self.intake.submit_all(found, self._pool)
        if self._serves:
            await self.interrupt.wait()
            return
        while self.tally.following:
            self.tally.moved.clear()
            try:
                # Not wait_for: until Python 3.12 it forgets a cancellation that meets the end of its wait.
                async with asyncio.timeout(LOOK_AGAIN_S):
                    await self.tally.moved.wait()
            except TimeoutError:
                self._look_again()
        # A failed execution closes what it had open in bounded turns: leave no interaction behind that says it waits.
        await self._within(CLOSE_S, lambda: not self.intake.concerns(self.views.owing()))

    def _look_again(self) -> None:
        now_s = time.monotonic()
        for execution_id in list(self.tally.following):
            execution = self.views.execution(execution_id)
            if execution is None:
                since = self._missing_since.setdefault(execution_id, now_s)
                if now_s - since > NEVER_BEGUN_S:
                    self.tally.ended(execution_id)
            elif execution.status.terminal:
                self.tally.ended(execution_id)

    async def _cancel_sessions(self) -> None:
        """End live sessions, so that their streams go on by the durable path (contract 0.20)."""
        live = [found for found in self.tally.following if self._is_live(found)]
        try:
            async with asyncio.timeout(ASK_S):
                for execution_id in live:
                    await self.application.cancel_session(execution_id)
        except (LogError, TimeoutError) as error:
            log.warning("live sessions were not ended; they are owed still: %s: %s", type(error).__name__, error)
            return
        await self._within(PARK_S, lambda: not any(self._is_live(found) for found in live))

    def _is_live(self, execution_id: str) -> bool:
        session = self.views.session(execution_id)
        return session is not None and session.live

    @staticmethod
    async def _within(seconds: float, reached: Callable[[], bool]) -> None:
        end_s = time.monotonic() + seconds
        while not reached() and time.monotonic() < end_s:  # noqa: ASYNC110 - rows have no event to wait for
            await asyncio.sleep(0.02)

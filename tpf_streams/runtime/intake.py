"""Giving an application its work: what an earlier run left unfinished, and one execution for each input."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass

from tpf_streams.core.execution import ExecutionRecord
from tpf_streams.core.step import SourceObject
from tpf_streams.runtime.application import Application
from tpf_streams.runtime.inputs import Submission, object_place
from tpf_streams.runtime.run_tally import RunTally
from tpf_streams.runtime.views import LogViews

log = logging.getLogger(__name__)

AT_ONCE = 200
"""Submissions under way: they share their syncs."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An input that became no execution."""

    source: str | None
    code: str
    message: str


class Intake:
    """The executions of one run, in the order in which they were found."""

    def __init__(self, application: Application, views: LogViews, tally: RunTally) -> None:
        self.execution_ids: dict[str, None] = {}
        self.refused: list[Refusal] = []
        self.skipped: list[Refusal] = []
        self.continued = 0
        self.forgotten = 0
        """Objects whose execution has ended and been deleted: they are not worked on again (contract 0.18)."""
        self.settled_before = 0
        """Items that earlier processes settled, of the executions of this run."""
        self._application = application
        self._views = views
        self._tally = tally
        self._owing_before: set[str] = set()
        self._unfinished: dict[tuple[str, ...], ExecutionRecord] = {}

    def take_up(self) -> None:
        """Follow every execution that an earlier run left unfinished, whether its input is named again or not."""
        self._owing_before = self._views.owing()
        for execution in self._views.executions():
            if not execution.status.terminal:
                self._follow(execution.execution_id)
                self.continued += 1
                session = self._views.session(execution.execution_id)
                self.settled_before += 0 if session is None else session.settled
                if execution.source is not None:
                    self._unfinished[object_place(SourceObject(**execution.source))] = execution

    def concerns(self, execution_ids: Iterable[str]) -> bool:
        """Whether one is an execution of this run, or one that earlier runs left with something to close."""
        return any(each in self.execution_ids or each in self._owing_before for each in execution_ids)

    async def submit_all(self, found: Iterator[Submission], pool: Executor) -> None:
        """Submit every input; listing and hashing happen in `pool`, so the pipeline works on the first meanwhile."""
        loop = asyncio.get_running_loop()
        under_way: set[asyncio.Task[None]] = set()
        try:
            while (item := await loop.run_in_executor(pool, next, found, None)) is not None:
                if self._wanted(item):
                    under_way.add(asyncio.ensure_future(self._submit(item)))
                if len(under_way) >= AT_ONCE:
                    done, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        task.result()
            await asyncio.gather(*under_way)
        finally:
            for task in under_way:
                task.cancel()

    def _wanted(self, item: Submission) -> bool:
        """Contract 0.23: while an execution of the same object is under way, other content of it has to wait."""
        source = None if item.source is None else item.source.key
        if item.problem is not None:
            self.refused.append(Refusal(source, "INVALID_INPUT", item.problem))
            return False
        earlier = None if item.source is None else self._unfinished.get(object_place(item.source))
        if earlier is None or item.source is None or (earlier.source or {}).get("etag") == item.source.etag:
            return True
        now = self._views.execution(earlier.execution_id)
        if now is None or now.status.terminal:
            return True
        message = f"its content has changed while execution {earlier.execution_id} works on it; not submitted again"
        self.skipped.append(Refusal(source, "SOURCE_CHANGED", message))
        log.warning("SOURCE_CHANGED: %s: %s", source, message)
        return False

    async def _submit(self, item: Submission) -> None:
        execution_id = self._application.execution_id(item.execution_key)
        stone = self._views.tombstone(execution_id)
        if stone is not None and item.source is not None:
            # Asked for all the same: an object that is still listed is remembered for longer.
            self.forgotten += 1
            await self._application.submit(item.payload, key=item.execution_key, source=item.source)
            return
        if stone is not None:
            execution_id = self._application.execution_id(item.execution_key, life=stone.next_life)
        if execution_id in self.execution_ids:
            return
        self.execution_ids[execution_id] = None
        earlier = self._views.execution(execution_id)
        if earlier is not None and earlier.status.terminal:
            self.settled_before += 0 if earlier.summary is None else earlier.summary.items
            return
        self._tally.follow([execution_id])
        if earlier is None:
            await self._application.submit(item.payload, key=item.execution_key, source=item.source)

    def _follow(self, execution_id: str) -> None:
        self.execution_ids[execution_id] = None
        self._tally.follow([execution_id])

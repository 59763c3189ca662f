"""A worker's look at the source folder, again and again: one execution for each object that is there.

Every worker looks, and may submit what another has submitted: the object's identity gives the execution's id, so the
owner of its partition sees one and the same. What goes wrong is told, and tried again at the next look.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import islice

from tpf_streams.core.execution import ExecutionRecord
from tpf_streams.core.identity import partition_of, route_of
from tpf_streams.core.step import SourceObject
from tpf_streams.dsl.objects import ObjectSourceConfig
from tpf_streams.engine.clock import first_of
from tpf_streams.errors import TpfError
from tpf_streams.runtime.application import Application
from tpf_streams.runtime.inputs import Submission, object_place
from tpf_streams.runtime.views import LogViews

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Submitted:
    """What became of an object: `key` is that of the content it had."""

    key: str
    execution_id: str


class SourceWatch:
    """Looks every `poll.interval`, and takes what it finds in batches of `poll.batchSize`."""

    def __init__(
        self,
        application: Application,
        views: LogViews,
        config: ObjectSourceConfig,
        listing: Callable[[], Iterator[Submission]],
        pool: Executor,
    ) -> None:
        self._application = application
        self._views = views
        self._listing = listing
        self._interval_s = config.poll_interval_ms / 1000
        self._batch_size = config.batch_size
        self._pool = pool
        self._known: dict[tuple[str, ...], _Submitted] = {}
        self._told: set[str] = set()
        self._begun = False

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`. Never raises: a source that cannot be listed today must not end the worker."""
        while not stop.is_set():
            try:
                await first_of(stop, self._look())
            except Exception:
                log.exception("the source was not looked through; it is tried again")
            await first_of(stop, self._application.clock.sleep(self._interval_s))

    async def _look(self) -> None:
        if not self._begun:
            await self._take_up()
            self._begun = True
        await self.poll()

    async def poll(self) -> None:
        """One look: submit what is new. Raises what the listing raises."""
        listed: set[tuple[str, ...]] = set()
        problems: set[str] = set()
        async for batch in self._batches():
            listed.update(object_place(item.source) for item in batch if item.source is not None)
            wanted = [item for item in batch if self._wanted(item, problems)]
            await asyncio.gather(*(self._submit(item) for item in wanted))
        self._told = problems
        # An object that has gone is forgotten, or this would grow with every file that ever came.
        self._known = {place: known for place, known in self._known.items() if place in listed}

    async def _batches(self) -> AsyncIterator[list[Submission]]:
        """Listing and hashing happen in the pool, so that turns go on meanwhile."""
        loop = asyncio.get_running_loop()
        found = self._listing()
        while batch := await loop.run_in_executor(self._pool, lambda: list(islice(found, self._batch_size))):
            yield batch

    async def _take_up(self) -> None:
        """What earlier processes submitted and this worker owns, so that a change of its content is noticed."""
        async for execution in self._views.every("executions", ExecutionRecord):
            if execution.source is not None and not execution.status.terminal:
                place = object_place(SourceObject(**execution.source))
                self._known[place] = _Submitted(execution.execution_key, execution.execution_id)

    def _wanted(self, item: Submission, problems: set[str]) -> bool:
        if item.problem is not None:
            self._tell(f"not submitted: {item.problem}", problems)
            return False
        if item.source is None:
            return False
        known = self._known.get(object_place(item.source))
        if known is None or known.key == item.execution_key:
            return known is None
        return self._has_ended(known, item.source.key, problems)

    def _has_ended(self, earlier: _Submitted, name: str, problems: set[str]) -> bool:
        """Contract 0.23: while an execution of an object is under way, other content of it waits. Only the worker that
        has the execution can tell, and so submits what comes after it."""
        route = route_of(earlier.execution_id)
        if route is None or partition_of(route, self._application.log.partitions) not in self._application.worker.tasks:
            return False
        execution = self._views.execution(earlier.execution_id)
        if execution is not None and execution.status.terminal:
            return True
        message = f"SOURCE_CHANGED: {name}: its content has changed while execution {earlier.execution_id} works on it"
        self._tell(f"{message}; submitted when that has ended", problems)
        return False

    async def _submit(self, item: Submission) -> None:
        if item.source is None:
            return
        execution_id = self._application.execution_id(item.execution_key)
        try:
            if self._views.execution(execution_id) is None:
                await self._application.submit(item.payload, key=item.execution_key, source=item.source)
        except TpfError as error:
            log.warning("%s was not submitted and is tried again: %s", item.source.key, error)
            return
        self._known[object_place(item.source)] = _Submitted(item.execution_key, execution_id)

    def _tell(self, message: str, problems: set[str]) -> None:
        """Once, for as long as it lasts."""
        if message not in self._told and message not in problems:
            log.warning("%s", message)
        problems.add(message)

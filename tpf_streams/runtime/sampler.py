"""What is in use, read now and then on the engine's loop: a scrape comes from another thread, and may touch no row."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from tpf_streams.core.step import AwaitDefinition
from tpf_streams.engine.clock import first_of
from tpf_streams.engine.wire import events_topic
from tpf_streams.logs.kafka import KafkaLog
from tpf_streams.observability.exposition import scrape
from tpf_streams.observability.measures import Measures, Usage
from tpf_streams.observability.metrics import Metrics
from tpf_streams.ports import TopicPartition
from tpf_streams.runtime.application import Application

log = logging.getLogger(__name__)

USE_S = 1.0
FAR_EVERY = 10
"""Of so many looks one goes to the broker, for its ends, and to the disk."""


class Sampler:
    """`run` is a companion of the application. `directory`: of the local store; None for one in memory."""

    def __init__(self, application: Application, measures: Measures, directory: Path | None) -> None:
        self._application = application
        self._measures = measures
        self._directory = directory

    async def run(self, stop: asyncio.Event) -> None:
        looks = 0
        while not stop.is_set():
            try:
                self.look()
                if looks % FAR_EVERY == 0:
                    await self.look_far()
            except Exception:
                # Metrics must not end what they watch; a broker that does not answer is told of by whoever needs it.
                log.debug("a look at what is in use failed", exc_info=True)
            looks += 1
            await first_of(stop, asyncio.sleep(USE_S))

    def look(self) -> None:
        """What this process knows by itself."""
        self._measures.in_use(self._usage())

    async def look_far(self) -> None:
        """Lag and size of the store. Raises LogError."""
        self._measures.behind(await self._events_behind(), await self._application.router.lag())
        if self._directory is not None:
            self._measures.stored(await asyncio.to_thread(size_of, self._directory))

    def _usage(self) -> Usage:
        application = self._application
        definition, worker, kafka = application.definition, application.worker, application.log
        in_flight = streams = 0
        for task in list(worker.tasks.values()):
            for execution_id, session in list(task.performer.sessions.items()):
                session.tell_paused()
                row = task.session(execution_id)
                if row is not None and row.live:
                    in_flight += row.in_flight
                    streams += 1
        restored, remaining = kafka.restore_progress if isinstance(kafka, KafkaLog) else (0, 0)
        steps = [step for step in definition.steps if isinstance(step, AwaitDefinition)]
        return Usage(
            tasks_open=len(worker.tasks),
            tasks_assigned=len(worker.partitions),
            tasks_reopened=worker.reopened,
            window_in_flight=in_flight,
            window_size=streams * definition.window,
            slots_held={step.step_id: application.environment.budgets.held(step.index) for step in steps},
            restored_records=restored,
            restore_remaining_records=remaining,
        )

    async def _events_behind(self) -> int:
        application = self._application
        topic = events_topic(application.definition.application_id)
        ends = await application.log.end_offsets([topic])
        tasks = application.worker.tasks.values()
        return sum(max(0, ends.get(TopicPartition(topic, it.partition), 0) - it.log.position) for it in tasks)


async def scraped(application: Application, metrics: Metrics) -> str:
    """What a scrape shows right after a look at everything. Raises LogError."""
    sampler = Sampler(application, metrics.measures, None)
    sampler.look()
    await sampler.look_far()
    return scrape(metrics.registry, "")[0].decode()


def size_of(directory: Path) -> int:
    """Bytes of the files below a directory; of those that go away meanwhile none."""
    return sum(_sizes(directory))


def _sizes(directory: Path) -> Iterator[int]:
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                yield os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue

"""The engine's thread, started and stopped with a Faust app."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mode import Service
from prometheus_client import CollectorRegistry

from tpf_streams.api import Api
from tpf_streams.api.peers import Peers
from tpf_streams.dsl.load import LoadedPipeline
from tpf_streams.engine.clock import SystemClock
from tpf_streams.engine.owners import Advertised, Owners
from tpf_streams.logs.kafka import KafkaSettings
from tpf_streams.observability.metrics import Metrics
from tpf_streams.runtime.application import Application
from tpf_streams.runtime.batch import Companion
from tpf_streams.runtime.build import build, listing, metrics_of
from tpf_streams.runtime.engine_thread import Engine, EngineStoppedError, EngineThread, ended
from tpf_streams.runtime.facts_feed import FactsFeed
from tpf_streams.runtime.kafka import open_kafka_log
from tpf_streams.runtime.operator import Operator
from tpf_streams.runtime.pending_feed import PendingFeed
from tpf_streams.runtime.sampler import Sampler
from tpf_streams.runtime.source_watch import SourceWatch
from tpf_streams.runtime.step_pool import StepPool
from tpf_streams.runtime.views import Answer, LogViews

T = TypeVar("T")

FEED_S = 1.0


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """What an engine is started with. `file` is where the pipeline is written, `advertised` who it is to others."""

    loaded: LoadedPipeline
    kafka: KafkaSettings
    data_dir: Path
    file: Path
    advertised: Advertised


class EngineService(Service):
    """Started first and stopped last: agents find their topics, and async steps their loop.

    `plan` is asked at the start, when every step has been declared. `count` is given facts by name, now and then.
    """

    def __init__(
        self,
        plan: Callable[[], EnginePlan],
        count: Callable[[str, int], None],
        registry: CollectorRegistry,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.metrics: Metrics | None = None
        """In `registry`, from the start on, unless the settings switch them off."""
        self._plan = plan
        self._count = count
        self._registry = registry
        self._feed = FactsFeed()
        self._pool = StepPool()
        self._thread: EngineThread | None = None
        self._operator: Operator | None = None
        self._ending = False
        self.changes = PendingFeed()
        self.api: Api | None = None
        """Of the pipeline, once it is loaded."""

    @property
    def engine(self) -> Engine | None:
        """The engine once its log is open, until it ends."""
        thread = self._thread
        if thread is None or not thread.opened.done() or thread.ended.done():
            return None
        return thread.opened.result()

    @property
    def is_ready(self) -> bool:
        return self._thread is not None and self._thread.is_ready

    async def call(self, work: Callable[[Application], Coroutine[Any, Any, T]]) -> T:
        """Run `work` on the engine's loop. Raises EngineStoppedError, and what `work` raises."""
        if self._thread is None:
            raise EngineStoppedError("the engine does not run in this process")
        return await self._thread.call(work)

    async def answer(self, command: str, arguments: Mapping[str, Any]) -> Answer:
        """The operator's answer, from the engine's loop. Raises EngineStoppedError, and what the operator raises."""

        async def asked(_: Application) -> Answer:
            assert self._operator is not None, "made before the engine is there to be called"
            return await self._operator.answer(command, arguments)

        return await self.call(asked)

    def serve(self, loaded: LoadedPipeline) -> None:
        """From now on the API knows the pipeline; what its engine would have to answer waits for that."""
        self.metrics = metrics_of(loaded, self._registry)
        self.api = Api(
            self,
            loaded,
            self.changes,
            ready=lambda: self.is_ready,
            partitions=self._open_partitions,
            metrics=None if self.metrics is None else self._registry,
        )

    async def on_start(self) -> None:
        """Until the log is open and its topics are there. Raises what the load and the log raise."""
        plan = self._plan()
        for line in plan.loaded.warnings:
            self.log.warning("%s", line)
        for line in plan.loaded.notes:
            self.log.info("%s", line)
        self.serve(plan.loaded)
        loop = asyncio.get_running_loop()
        self._thread = EngineThread(lambda: self._open(plan, loop))
        self._thread.start()
        await self._reached(self._thread.opened)
        self.add_future(self._watch(self._thread))
        self.add_future(self._keep_feeding())
        self.add_future(self._tell_ready(self._thread))

    async def wait_until_ready(self) -> None:
        """Every assigned partition restored and open, or the service stopped. Raises what ended the engine."""
        if self._thread is not None:
            await self._reached(self._thread.ready)

    def ask_to_stop(self) -> None:
        """Begin to stop, while others of the app still do."""
        self._ending = True
        self.changes.close()
        if self._thread is not None:
            self._thread.ask_to_stop()

    async def on_stop(self) -> None:
        self._ending = True
        if self._thread is not None:
            await self._thread.stop()
        self._pool.shutdown()
        self._hand_over()

    async def _open(self, plan: EnginePlan, step_loop: asyncio.AbstractEventLoop) -> Engine:
        """In the engine's thread."""
        loaded = plan.loaded
        log = await open_kafka_log(loaded, plan.data_dir, plan.kafka)
        try:
            application = build(
                loaded,
                log,
                SystemClock(),
                executor=self._pool,
                tally=self._feed,
                metrics=self.metrics,
                watchers=(self.changes,),
                step_loop=step_loop,
                advertised=plan.advertised,
            )
            tenant = loaded.settings.required_text("pipeline.orchestrator.default-tenant")
            self._operator = Operator(loaded.definition, log, application, tenant)
            beside: list[Companion] = []
            if self.metrics is not None:
                beside.append(Sampler(application, self.metrics.measures, log.directory).run)
            source = loaded.source
            if source is not None and source.poll_enabled:
                views = LogViews(log, loaded.definition)
                found = listing(loaded, source, (), str(plan.file))
                beside.append(SourceWatch(application, views, source, found, self._pool).run)
            owners = Owners(log.partitions)
            await log.follow_owners(owners.told)
            self._meet(plan, owners)
            return Engine(log, application, beside, owners)
        except BaseException:
            await log.close()
            raise

    def _meet(self, plan: EnginePlan, owners: Owners) -> None:
        """Before anything can be answered: a list of this worker's rows alone would look whole."""
        assert self.api is not None, "the API is there when the engine's thread begins"
        self.api.peers = Peers(owners, plan.advertised.worker_id, self.api.limits.answer_s)

    async def _reached(self, state: Future[Any]) -> None:
        """Not raising when the worker is told to stop meanwhile: that is no failure of the start."""
        await ended(state)
        failure = state.exception()
        if failure is not None and not (self._ending and isinstance(failure, EngineStoppedError)):
            raise failure

    async def _tell_ready(self, thread: EngineThread) -> None:
        """At once, and not when the rest of the app is: Faust's own group may wait a minute for a member that died."""
        await ended(thread.ready)
        if thread.ready.exception() is None:
            self.log.info("The engine is ready: %d partitions here", len(self._open_partitions()))

    async def _watch(self, thread: EngineThread) -> None:
        """An engine that ends by itself takes the worker with it: whoever started it starts it anew."""
        await ended(thread.ended)
        if not self._ending:
            await self.crash(thread.ended.exception() or EngineStoppedError("the engine ended by itself"))

    async def _keep_feeding(self) -> None:
        while not self.should_stop:
            await self.sleep(FEED_S)
            self._hand_over()

    def _hand_over(self) -> None:
        for name, count in self._feed.take().items():
            self._count(name, count)

    def _open_partitions(self) -> list[int]:
        engine = self.engine
        return [] if engine is None else list(engine.application.worker.tasks)

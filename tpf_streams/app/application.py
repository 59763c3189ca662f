"""`App`: a Faust app with a pipeline in it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import faust
from faust.types import TopicT
from prometheus_client import CollectorRegistry

from tpf_streams.api.server import LOOPBACK
from tpf_streams.app.boot import EngineBootStrategy
from tpf_streams.app.committed import CommittedTransport, check_scheme
from tpf_streams.app.pipeline import AppPipeline
from tpf_streams.app.settings import engine_settings, security_of, served_at
from tpf_streams.app.topics import AwaitTopics
from tpf_streams.app.views import RowTable
from tpf_streams.core.execution import ExecutionRecord
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.step import Json
from tpf_streams.core.unit import AwaitUnitRecord
from tpf_streams.dsl.assembly import Outline
from tpf_streams.dsl.written import PipelineDocument
from tpf_streams.runtime.advertised import advertised, worker_id
from tpf_streams.runtime.kafka import kafka_settings
from tpf_streams.runtime.views import LogViews
from tpf_streams.worker.service import EnginePlan, EngineService

Step = TypeVar("Step", bound=Callable[..., Any])


class App(faust.App):
    """A Faust app whose worker runs a pipeline.

    `pipeline`: the path of a pipeline.yaml, or nothing for one whose steps are declared here; a mapping then says what
    would stand beside the steps (`sources`, `publish`, `settings`, ...). `settings`: ours by their property names,
    above every other place; `config`: a file of them. Everything else is Faust's: `id`, `broker`, `datadir`,
    `broker_credentials` and `topic_partitions` hold for the engine too. `web_bind` is the loopback here: whoever
    reaches the web server may decide in another's place, so that this must be told (`--web-bind 0.0.0.0`).
    """

    BootStrategy = EngineBootStrategy

    def __init__(
        self,
        id: str,
        *,
        pipeline: str | Path | Mapping[str, Any] | None = None,
        settings: Mapping[str, str] | None = None,
        config: Path | None = None,
        **options: Any,
    ) -> None:
        options.setdefault("web_bind", LOOPBACK)
        super().__init__(id, **options)
        self.metrics_registry = CollectorRegistry()
        """What `/metrics` shows; given to Faust's `setup_prometheus_sensors`, its page shows both."""
        self._pipeline = AppPipeline(id, pipeline, settings or {}, config)
        self._pipeline_topics: dict[str, TopicT] = {}
        self.executions = self._table("executions", ExecutionRecord, LogViews.execution, "execution_id")
        self.units = self._table("await units", AwaitUnitRecord, LogViews.unit, "unit_id")
        self.interactions = self._table("interactions", InteractionRecord, LogViews.interaction, "interaction_id")

    # The pipeline

    def step(self, name: str, **keys: Any) -> Callable[[Step], Step]:
        """Bind a function to a service step of the YAML, or declare the next step of a pipeline without one.

        `keys`: those of a service step, for a declared one (`inline`, `cardinality`, `input`, `output`, ...).
        Raises ValueError.
        """

        def bind(function: Step) -> Step:
            self._pipeline.add_step(name, function, keys)
            return function

        return bind

    def await_step(self, name: str, **keys: Any) -> AwaitTopics:
        """An await step of the YAML, or with `keys` the next step of a pipeline without one: `output`, `timeout`,
        `transport`, and whatever else an await step may say. Raises ValueError."""
        caller = sys._getframe(1)
        self._pipeline.add_await(name, keys, caller.f_code.co_filename, caller.f_lineno)
        return AwaitTopics(name, lambda way: self._topic_of(self._pipeline.topic(self._outline(), name, way)))

    @property
    def outputs(self) -> TopicT:
        """The output topic: `publish.topic`, or else `<id>-outputs`."""
        return self._topic_of(self._outline().output_topic)

    @property
    def document(self) -> Path | PipelineDocument:
        """What `load_pipeline` and a TopologyTestDriver take, together with `functions`."""
        return self._pipeline.written

    @property
    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """The functions bound or declared here, by step name."""
        return self._pipeline.functions

    # The engine

    @cached_property
    def engine_service(self) -> EngineService:
        return EngineService(
            self._plan,
            lambda name, count: self.monitor.count(name, count),
            self.metrics_registry,
            loop=self.loop,
            beacon=self.beacon,
        )

    async def submit(self, payload: Json, *, key: str, tenant: str | None = None) -> str:
        """Ask for an execution; the same key again asks for the same one. -> its id, once that is durable.

        Raises EngineStoppedError where no worker runs in this process, LogError, TenantError.
        """
        return await self.engine_service.call(lambda it: it.submit(payload, key=key, tenant=it.tenancy.tenant(tenant)))

    async def complete(self, envelope: bytes) -> str:
        """Admit a completion (contract 1.2); -> its outcome. Raises EngineStoppedError, LogError, TimeoutError."""
        return await self.engine_service.call(lambda it: it.complete(envelope))

    async def on_started_init_extra_services(self) -> None:
        """The last of the start: the worker is ready when the engine is."""
        await super().on_started_init_extra_services()
        await self.engine_service.wait_until_ready()

    async def on_stop(self) -> None:
        self.engine_service.ask_to_stop()
        await super().on_stop()

    # Inside

    def _outline(self) -> Outline:
        return self._pipeline.outline(self.conf.id)

    def _plan(self) -> EnginePlan:
        """Raises DefinitionError."""
        conf = self.conf
        loaded = self._pipeline.load(engine_settings(conf, self._pipeline.given()))
        kafka = kafka_settings(loaded.settings, loaded.definition.application_id, security_of(conf))
        own = advertised(loaded.settings, worker_id(), served_at(conf))
        return EnginePlan(loaded, kafka, Path(conf.datadir), self._pipeline.path, own)

    def _topic_of(self, name: str) -> TopicT:
        """One object a topic, as Faust wants it. The engine makes it: Faust's defaults would not serve."""
        if name not in self._pipeline_topics:
            self._pipeline_topics[name] = self.topic(name)
        return self._pipeline_topics[name]

    def _table(self, name: str, cls: type[Any], get: Callable[[LogViews, str], Any], key: str) -> RowTable[Any]:
        return RowTable(
            name,
            self._views,
            get,
            lambda views: ((getattr(record, key), record) for record in views.records(name, cls)),
        )

    def _views(self) -> LogViews | None:
        engine = self.engine_service.engine
        return None if engine is None else LogViews(engine.log, engine.application.definition)

    def _new_transport(self) -> Any:
        urls = self.conf.broker_consumer
        check_scheme(urls[0].scheme)
        return CommittedTransport(urls, self)

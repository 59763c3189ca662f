"""From a loaded pipeline to an application: publisher, inputs and policies as its settings say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path, PurePath

from prometheus_client import CollectorRegistry

from tpf_streams.connectors.csv_writer import CsvDialect, CsvLayout
from tpf_streams.connectors.filesystem_publish import OnExisting
from tpf_streams.connectors.filesystem_source import FilesystemSource
from tpf_streams.dsl.keys_objects import Quirks
from tpf_streams.dsl.load import LoadedPipeline
from tpf_streams.dsl.objects import ObjectSourceConfig
from tpf_streams.dsl.settings import Settings
from tpf_streams.dsl.tenancy import Tenancy
from tpf_streams.engine.owners import Advertised
from tpf_streams.engine.retry import RetryPolicy
from tpf_streams.observability.metrics import Metrics
from tpf_streams.ports import Clock, Log, Observer
from tpf_streams.runtime.application import Application
from tpf_streams.runtime.bindings import PipelineBindings
from tpf_streams.runtime.inputs import Submission, check_input_fields, json_submissions, object_submissions
from tpf_streams.runtime.publisher import CsvPublisher, derived_layout
from tpf_streams.runtime.tally import Tally


def build(
    loaded: LoadedPipeline,
    log: Log,
    clock: Clock,
    *,
    output_dir: Path | None = None,
    executor: Executor | None = None,
    tally: Tally | None = None,
    metrics: Metrics | None = None,
    watchers: Sequence[Observer] = (),
    step_loop: asyncio.AbstractEventLoop | None = None,
    advertised: Advertised | None = None,
) -> Application:
    """`output_dir` stands for the publish folder of the pipeline. `executor` None: steps run on the caller's thread.
    `watchers`: observers besides. `step_loop`: where async steps run, None for the loop of the engine. `advertised`: to
    other workers of the log."""
    settings = loaded.settings
    definition = loaded.definition
    return Application(
        definition,
        PipelineBindings(definition, loaded.types, loaded.bindings),
        log,
        clock,
        publisher=publisher_of(loaded, output_dir),
        executor=executor,
        policy=retry_policy(loaded, metrics),
        tally=tally,
        metrics=metrics,
        watchers=watchers,
        tenancy=Tenancy.of(settings),
        deadline_grace_ms=settings.millis("await.deadline-grace"),
        read_time=settings.text("await.arrival-time") == "read",
        lifecycle=writes_lifecycle(settings),
        step_loop=step_loop,
        advertised=advertised,
    )


def writes_lifecycle(settings: Settings) -> bool:
    """Whether what happens to executions is told on the lifecycle topic."""
    return settings.flag("pipeline.telemetry.enabled") and settings.flag("pipeline.telemetry.replay.enabled")


def metrics_of(loaded: LoadedPipeline, registry: CollectorRegistry | None = None) -> Metrics | None:
    """The pipeline's metrics in `registry`, or one of their own; None where its settings switch them off."""
    keys = ("pipeline.telemetry.enabled", "pipeline.telemetry.metrics.enabled")
    return Metrics(loaded.definition, registry or CollectorRegistry()) if all(map(loaded.settings.flag, keys)) else None


def retry_policy(loaded: LoadedPipeline, metrics: Metrics | None = None) -> RetryPolicy:
    settings = loaded.settings
    return RetryPolicy(
        settings.integer("pipeline.defaults.retry-limit"),
        settings.integer("pipeline.defaults.retry-wait-ms"),
        settings.integer("pipeline.defaults.max-backoff"),
        settings.flag("pipeline.defaults.jitter"),
        retried=(lambda: None) if metrics is None else metrics.measures.retried,
    )


def publisher_of(loaded: LoadedPipeline, output_dir: Path | None) -> CsvPublisher | None:
    config = loaded.publish
    if config is None:
        return None
    return CsvPublisher(
        output_dir or config.directory,
        config.key_template,
        layout_of(loaded),
        CsvDialect.REFERENCE if config.quirks is Quirks.REFERENCE else CsvDialect.STANDARD,
        OnExisting(config.on_existing.value),
    )


def layout_of(loaded: LoadedPipeline) -> CsvLayout:
    """The `csv_layout` of the class that stands for the output type, else a column for each declared field."""
    name = loaded.definition.steps[-1].output_type
    own = getattr(loaded.types.model(name), "csv_layout", None)
    if isinstance(own, CsvLayout):
        return own
    return derived_layout(field.name for field in loaded.types.records[name].fields)


def submissions(loaded: LoadedPipeline, inputs: Sequence[str], pipeline_file: str) -> Iterator[Submission]:
    """What `inputs` (files and folders; none: the source's own root) ask for. Raises DefinitionError."""
    if loaded.source is None:
        return json_submissions(inputs, loaded.definition.limits.max_payload_bytes)
    return listing(loaded, loaded.source, inputs, pipeline_file)()


def listing(
    loaded: LoadedPipeline, config: ObjectSourceConfig, inputs: Sequence[str], pipeline_file: str
) -> Callable[[], Iterator[Submission]]:
    """Lists the source, as often as it is called: a file that has not changed since is not hashed again.

    Raises DefinitionError.
    """
    name = loaded.definition.steps[0].input_type
    fields = [field.name for field in loaded.types.records[name].fields]
    check_input_fields(name, fields, pipeline_file)
    template = None if loaded.publish is None else loaded.publish.key_template
    source = _source(config, inputs)
    return lambda: object_submissions(source, config.identity_fields, fields, template)


def _source(config: ObjectSourceConfig, inputs: Sequence[str]) -> FilesystemSource:
    if inputs:
        return FilesystemSource(config.name, inputs, config.include, config.exclude)
    return FilesystemSource(config.name, [config.root], config.include, config.exclude, config.prefix, _above(config))


def _above(config: ObjectSourceConfig) -> str:
    """The folder that the root is written relative to; by parts, since a path forgets the `./` of `./csv`."""
    root = PurePath(config.root)
    count = len(config.directory.parts) - len(root.parts)
    return "" if root.is_absolute() else str(Path(*config.directory.parts[:count]))

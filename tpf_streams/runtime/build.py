"""From a loaded pipeline to an application: publisher, inputs and policies as its settings say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path

from tpf_streams.connectors.csv_writer import CsvDialect, CsvLayout
from tpf_streams.connectors.filesystem_publish import OnExisting
from tpf_streams.connectors.filesystem_source import FilesystemSource
from tpf_streams.dsl.load import LoadedPipeline
from tpf_streams.dsl.objects import ObjectSourceConfig, Quirks
from tpf_streams.engine.retry import RetryPolicy
from tpf_streams.ports import Clock, Log
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
) -> Application:
    """`output_dir` stands for the publish folder of the pipeline. `executor` None: steps run on the caller's thread."""
    settings = loaded.settings
    definition = loaded.definition
    return Application(
        definition,
        PipelineBindings(definition, loaded.types, loaded.bindings),
        log,
        clock,
        publisher=publisher_of(loaded, output_dir),
        executor=executor,
        policy=retry_policy(loaded),
        tally=tally,
        default_tenant=settings.required_text("pipeline.orchestrator.default-tenant"),
        deadline_grace_ms=settings.millis("await.deadline-grace"),
        read_time=settings.text("await.arrival-time") == "read",
    )


def retry_policy(loaded: LoadedPipeline) -> RetryPolicy:
    settings = loaded.settings
    return RetryPolicy(
        settings.integer("pipeline.defaults.retry-limit"),
        settings.integer("pipeline.defaults.retry-wait-ms"),
        settings.integer("pipeline.defaults.max-backoff"),
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
    config = loaded.source
    if config is None:
        return json_submissions(inputs, loaded.definition.limits.max_payload_bytes)
    name = loaded.definition.steps[0].input_type
    fields = [field.name for field in loaded.types.records[name].fields]
    check_input_fields(name, fields, pipeline_file)
    template = None if loaded.publish is None else loaded.publish.key_template
    return object_submissions(_source(config, inputs), config.identity_fields, fields, template)


def _source(config: ObjectSourceConfig, inputs: Sequence[str]) -> FilesystemSource:
    if inputs:
        return FilesystemSource(config.name, inputs, config.include, config.exclude)
    base = str(config.directory)[: -len(config.root)] if str(config.directory).endswith(config.root) else ""
    return FilesystemSource(config.name, [config.root], config.include, config.exclude, config.prefix, base)

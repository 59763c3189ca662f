"""`tpf-streams validate`: everything that can be said about a pipeline before it runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.table import Table

from tpf_streams.cli.console import out, told
from tpf_streams.cli.options import Config, Overrides, Pipeline, overrides_of
from tpf_streams.core.step import AnyStep, AwaitDefinition, Cardinality, PipelineDefinition
from tpf_streams.dsl.load import LoadedPipeline, load_pipeline
from tpf_streams.runtime.loading import unsupported_transports
from tpf_streams.runtime.operator import topics_of


def validate(pipeline: Pipeline, config: Config = None, overrides: Overrides = None) -> None:
    """Check a pipeline, its settings and its callables; exit 2 and file:line: key: reason for each problem.

    The resume token secret need not be there.

    [bold]Examples[/bold]

        tpf-streams validate topologies/csv_payments/pipeline.yaml

        tpf-streams validate pipeline.yaml --config production.properties --set pipeline.max-concurrency=250
    """
    with told():
        loaded = load_pipeline(
            pipeline, settings_overrides=overrides_of(overrides), config=config, require_secret=False
        )
        show(pipeline, loaded)


def show(pipeline: Path, loaded: LoadedPipeline) -> None:
    """A readable summary on stdout."""
    definition = loaded.definition
    out.print(f"{pipeline}: valid", style="green", markup=False)
    out.print(f"application {definition.application_id}, pipeline {definition.pipeline_id}", markup=False)
    out.print(_steps(definition))
    for line in (*_types(loaded), *_ends(loaded), *_settings(loaded), *_remarks(loaded)):
        out.print(line, markup=False, soft_wrap=True)


def _steps(definition: PipelineDefinition) -> Table:
    table = Table(title="Steps", title_justify="left")
    for name in ("#", "step", "input → output", "by"):
        table.add_column(name, overflow="fold")
    for step in definition.steps:
        table.add_row(str(step.index), step.name, _types_of(step), _by(step))
    return table


def _types_of(step: AnyStep) -> str:
    text = f"{step.input_type} → {step.output_type}"
    return text if step.cardinality is Cardinality.ONE_TO_ONE else f"{text}, {step.cardinality.value}"


def _by(step: AnyStep) -> str:
    """What does the work: a callable, or a transport and how long it is waited for."""
    if isinstance(step, AwaitDefinition):
        path = "live" if step.transport.live else "durable"
        return f"await {step.transport.type} ({path}), {step.timeout_ms / 1000:g} s, {step.correlation.value}"
    return f"{step.service or 'bound by name'}{' (inline)' if step.inline else ''}"


def _types(loaded: LoadedPipeline) -> Iterator[str]:
    yield f"types: {', '.join([*loaded.types.records, *loaded.types.unions]) or 'none declared'}"


def _ends(loaded: LoadedPipeline) -> Iterator[str]:
    yield f"topics: {', '.join(topics_of(loaded.definition))}"
    if loaded.source is not None:
        yield f"source: {loaded.source.name}, files of {loaded.source.root}"
    if loaded.publish is not None:
        yield f"publish: {loaded.publish.name}, {loaded.publish.key_template} in {loaded.publish.root}"


def _settings(loaded: LoadedPipeline) -> Iterator[str]:
    for key, value, where in loaded.settings.shown():
        if where != "default":
            yield f"setting: {key} = {value} ({where})"


def _remarks(loaded: LoadedPipeline) -> Iterator[str]:
    for note in loaded.notes:
        yield f"note: {note}"
    for line in unsupported_transports(loaded.definition):
        yield f"note: {line}"
    for warning in loaded.warnings:
        yield f"warning: {warning}"

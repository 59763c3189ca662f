"""From pipeline.yaml, settings and step callables to what the machine runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tpf_streams.core.step import PipelineDefinition, StepDefinition
from tpf_streams.dsl.assembly import Outline, assemble, outline, service_step
from tpf_streams.dsl.bindings import Signature, StepBinding, finish_binding, prepare
from tpf_streams.dsl.completion import Boundary, BoundaryBuilder
from tpf_streams.dsl.defaults import defaults_of
from tpf_streams.dsl.imports import Importer
from tpf_streams.dsl.objects import Endpoint, ObjectPublishConfig, ObjectSourceConfig
from tpf_streams.dsl.policy import check
from tpf_streams.dsl.reading import Places, Reading, read_pipeline
from tpf_streams.dsl.report import Default, Report
from tpf_streams.dsl.routing import Stop, Way, route
from tpf_streams.dsl.settings import Settings
from tpf_streams.dsl.shapes import is_record_class
from tpf_streams.dsl.types import TypeRegistry
from tpf_streams.dsl.written import PipelineDocument, from_file

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LoadedPipeline:
    """A pipeline that may start. `notes`: every key that is accepted and does nothing, and what to know at start."""

    definition: PipelineDefinition
    bindings: Mapping[int, StepBinding]
    types: TypeRegistry
    source: ObjectSourceConfig | None
    publish: ObjectPublishConfig | None
    settings: Settings
    notes: list[str]
    warnings: list[str]
    defaults: list[Default]
    """What was left out and holds all the same."""


def load_pipeline(
    pipeline: Path | str | PipelineDocument,
    *,
    settings_overrides: Mapping[str, str] = _NOTHING,
    config: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    require_secret: bool = True,
    functions: Mapping[str, Callable[..., Any]] = _NOTHING,
) -> LoadedPipeline:
    """Load and check everything about one pipeline, given by its file or as a document.

    `functions`: callables by step name, used before a step's `service`. `require_secret=False`: for `validate` on a
    machine that does not have the secret. Raises DefinitionError with every problem found.
    """
    report = Report()
    document = _document(pipeline, report)
    path, importer = document.path, Importer(document.path)
    places = Places(settings_overrides, config, environ)
    reading = _read(document, places, report, importer)
    check(reading.settings, reading.steps, report, str(path), require_secret)
    ways, bound, boundaries = _connect(reading, functions, importer, document.objects, report)
    report.raise_problems()
    definition = assemble(reading, ways, boundaries)
    report.raise_problems()
    bindings = {
        index: finish_binding(step, reading.types, function, signature, ways[index].kinds)
        for index, (step, function, signature) in bound.items()
    }
    return LoadedPipeline(
        definition,
        bindings,
        reading.types,
        reading.source,
        reading.publish,
        reading.settings,
        report.notes,
        report.warnings,
        defaults_of(definition, reading.settings, report.defaults, str(path)),
    )


def read_outline(
    pipeline: Path | str | PipelineDocument,
    *,
    settings_overrides: Mapping[str, str] = _NOTHING,
    config: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Outline:
    """What can be known before the callables are. Raises DefinitionError for a file that cannot be read at all."""
    report = Report()
    document = _document(pipeline, report)
    places = Places(settings_overrides, config, environ)
    reading = _read(document, places, report, Importer(document.path))
    return outline(reading, tuple(report.problems))


def _document(pipeline: Path | str | PipelineDocument, report: Report) -> PipelineDocument:
    return pipeline if isinstance(pipeline, PipelineDocument) else from_file(Path(pipeline), report)


def _read(document: PipelineDocument, places: Places, report: Report, importer: Importer) -> Reading:
    return read_pipeline(
        document, places, report, lambda types, text: _declare_class(types, text, document.objects, importer)
    )


def _declare_class(types: TypeRegistry, text: str, objects: Mapping[str, Any], importer: Importer) -> str:
    """Declare what a Python class shows, under its name, or the union of several, parted by `|`. Raises ValueError."""
    names = [_declare_one(types, part, objects, importer) for part in text.split("|")]
    return names[0] if len(names) == 1 else types.declare_union(names)


def _declare_one(types: TypeRegistry, text: str, objects: Mapping[str, Any], importer: Importer) -> str:
    cls = objects.get(text) or importer.find(text)
    if not is_record_class(cls):
        raise ValueError(f"{text} is neither a pydantic model nor a dataclass")
    return types.declare(cls)


_Bound = tuple[StepDefinition, Callable[..., Any], Signature]


def _connect(
    reading: Reading,
    functions: Mapping[str, Callable[..., Any]],
    importer: Importer,
    objects: Mapping[str, Any],
    report: Report,
) -> tuple[list[Way], dict[int, _Bound], dict[int, Boundary]]:
    """Follow the types from step to step and bind classes and callables, as far as the file could be read."""
    services = [step for step in reading.steps if step.awaits is None]
    for name in functions:
        if name not in [step.name for step in services]:
            report.problem(reading.root.file, 0, name, "a callable is given for it, and no service step has this name")
    if not reading.connected:
        return [], {}, {}
    ways = _route(reading)
    _bind_endpoint(reading.input, reading.steps[0].input_type, reading.types, importer)
    _bind_endpoint(reading.output, reading.steps[-1].output_type, reading.types, importer)
    bound: dict[int, _Bound] = {}
    for parsed in services:
        step = service_step(parsed, ways[parsed.index], last=parsed is reading.steps[-1])
        try:
            function = functions.get(step.name) or _imported(step, importer)
            bound[step.index] = (step, function, prepare(step, reading.types, function))
        except ValueError as error:
            parsed.section.problem("service", str(error))
    builders = {
        step.index: BoundaryBuilder(
            step.awaits.boundary,
            (step.input_type, step.output_type),
            reading.types,
            lambda text: objects.get(text) or importer.find(text),
            reading.wire_prefix,
        )
        for step in reading.steps
        if step.awaits is not None
    }
    told = len(report.problems)
    _check_classes(reading)
    if len(report.problems) > told:
        return ways, bound, {}  # no converter can be built of a class that does not fit
    return ways, bound, {index: builder.build() for index, builder in builders.items()}


def _route(reading: Reading) -> list[Way]:
    last = len(reading.steps) - 1
    stops = [
        Stop(
            it.name,
            it.input_type,
            it.output_type,
            it.awaits is not None,
            it.index == last,
            it.accepts,
            it.cardinality.joins,
        )
        for it in reading.steps
    ]
    return route(stops, reading.types, lambda at, key, text: reading.steps[at].section.problem(key, text))


def _bind_endpoint(endpoint: Endpoint | None, type_name: str, types: TypeRegistry, importer: Importer) -> None:
    """Let the class that `emits` or `consumes` names stand for the type of the step beside it."""
    if endpoint is None:
        return
    section = endpoint.section
    if endpoint.type_name is not None and endpoint.type_name != type_name:
        section.problem("typeName", f"the step beside it has type {type_name}")
    if endpoint.class_path is not None and ":" not in endpoint.class_path:
        section.note("type", f"accepted and unused: no Python class; the type is {type_name}")
    elif endpoint.class_path is not None and type_name in types.records:
        try:
            types.bind(type_name, importer.find(endpoint.class_path))
        except ValueError as error:
            section.problem("type", str(error))


def _imported(step: StepDefinition, importer: Importer) -> Callable[..., Any]:
    if step.service is None:
        raise ValueError("missing: package.module:name of a callable, or bind one to the step's name")
    found: Callable[..., Any] = importer.find(step.service)
    return found


def _check_classes(reading: Reading) -> None:
    """Build every codec now: a class that does not fit its type is a problem of the load, not of an item."""
    for step in reading.steps:
        for side, name in (("input", step.input_type), ("output", step.output_type)):
            try:
                reading.types.converter(name)
                reading.types.encoder(name)
            except ValueError as error:
                step.section.problem(side, f"{name}: {error}")

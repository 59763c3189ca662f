"""From pipeline.yaml, settings and step callables to what the machine runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tpf_streams.core.step import AnyStep, AwaitDefinition, Cardinality, PipelineDefinition, StepDefinition
from tpf_streams.dsl.assembly import assemble, build_steps
from tpf_streams.dsl.bindings import Signature, StepBinding, finish_binding, prepare
from tpf_streams.dsl.declarations import VERSIONS, read_types
from tpf_streams.dsl.document import ListNode, MapNode, TextNode, parse_yaml, read_text
from tpf_streams.dsl.imports import Importer
from tpf_streams.dsl.layers import Given, Rank, from_environ, from_file, from_node, from_overrides
from tpf_streams.dsl.naming import kebab_case
from tpf_streams.dsl.objects import (
    Endpoint,
    ObjectPublishConfig,
    ObjectSourceConfig,
    publish_topic,
    read_endpoint,
    read_publish,
    read_source,
)
from tpf_streams.dsl.policy import check
from tpf_streams.dsl.report import Report, shown
from tpf_streams.dsl.routing import Stop, Way, route
from tpf_streams.dsl.section import Section
from tpf_streams.dsl.settings import Settings, resolve
from tpf_streams.dsl.shapes import is_record_class, record_of
from tpf_streams.dsl.steps import ParsedStep, read_step
from tpf_streams.dsl.type_names import TypeNames
from tpf_streams.dsl.types import TypeRegistry
from tpf_streams.errors import DefinitionError

PROPERTIES = "application.properties"
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_UNUSED_ROOT_KEYS = {
    "basePackage": "it names Java packages; types go by their declared names",
    "runtimeLayout": "one process runs the whole pipeline",
    "aspects": "aspects of the reference do not exist here",
    "contract": "there is no contract check between releases",
}
_ROOT_SETTINGS = {
    "transport": "pipeline.transport",
    "platform": "pipeline.platform",
    "onItemFailure": "onItemFailure",
}


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


def load_pipeline(
    path: Path | str,
    *,
    settings_overrides: Mapping[str, str] = _NOTHING,
    config: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    require_secret: bool = True,
    functions: Mapping[str, Callable[..., Any]] = _NOTHING,
) -> LoadedPipeline:
    """Load and check everything about one pipeline.

    `functions`: callables by step name, used before a step's `service`. `require_secret=False`: for `validate` on a
    machine that does not have the secret. Raises DefinitionError with every problem found.
    """
    return _Loader(Path(path), environ, functions).load(settings_overrides, config, require_secret)


def unsupported_shapes(definition: PipelineDefinition) -> list[str]:
    """Shapes that load and validate and do not run yet, one line each."""
    found: list[str] = []
    for step in definition.steps:
        if isinstance(step, AwaitDefinition) and step.cardinality is not Cardinality.ONE_TO_ONE:
            found.append(f"step {step.name!r}: {step.cardinality} await steps do not run yet")
        elif step.cardinality in (Cardinality.MANY_TO_ONE, Cardinality.MANY_TO_MANY):
            found.append(f"step {step.name!r}: {step.cardinality} steps do not run yet")
    return found


class _Loader:
    """One load: the phases in order, each reporting and going on, so that the last line can tell everything."""

    def __init__(self, path: Path, environ: Mapping[str, str], functions: Mapping[str, Callable[..., Any]]) -> None:
        self.path = path
        self.file = str(path)
        self.environ = environ
        self.functions = functions
        self.report = Report()
        self.importer = Importer(path)

    def load(self, overrides: Mapping[str, str], config: Path | None, require_secret: bool) -> LoadedPipeline:
        node = parse_yaml(read_text(self.path, self.file), self.file, self.report)
        root = Section(self.report, self.file, node, "", 1)
        app_name = root.text("appName", required=True) or ""
        if app_name and not kebab_case(app_name):
            root.problem("appName", "needs a letter or digit")
        settings = self._settings(root, app_name, overrides, config)
        types = read_types(root, self._version(root))
        source_end = read_endpoint(root, "input", "from", "emits", "subscription")
        publish_end = read_endpoint(root, "output", "to", "consumes", "checkpoint")
        source = read_source(root, source_end, settings, self.path.parent)
        publish = read_publish(root, publish_end, settings, self.path.parent)
        names = TypeNames(types, lambda text: self._declare_class(types, text))
        steps = self._steps(root, names, settings)
        for key, why in _UNUSED_ROOT_KEYS.items():
            root.unused(key, why)
        root.finish()
        check(settings, steps, self.report, self.file, require_secret)
        self.report.raise_problems()
        return self._assemble(
            root, app_name, settings, types, steps, (source, source_end), (publish, publish_end), names
        )

    # Phases

    def _version(self, root: Section) -> int:
        text = root.text("version", required=True)
        for version in VERSIONS:
            if text == str(version):
                return version
        if text is not None:
            root.problem("version", f"{shown(text)}: allowed are {', '.join(map(str, VERSIONS))}")
        return VERSIONS[-1]

    def _settings(self, root: Section, app_name: str, overrides: Mapping[str, str], config: Path | None) -> Settings:
        layers: list[Given] = self._pipeline_layer(root)
        beside = self.path.parent / PROPERTIES
        chosen = config or (beside if beside.is_file() else None)
        if chosen is not None:
            try:
                layers += from_file(chosen, self.report)
            except DefinitionError as error:
                self.report.problems += error.problems
        layers += from_environ(self.environ, self.report)
        layers += from_overrides(overrides)
        return resolve(layers, kebab_case(app_name), self.environ, self.report)

    def _pipeline_layer(self, root: Section) -> list[Given]:
        """`settings:`, and the settings that have a place of their own in the file."""
        section = root.section("settings")
        layers = from_node(section.node, self.file, Rank.PIPELINE, self.report, "") if section else []
        for key, setting in _ROOT_SETTINGS.items():
            text = root.text(key)
            if text is not None:
                layers.append(Given(setting, text, Rank.PIPELINE, self.file, root.line_of(key), key))
        publish = root.section("publish")
        entry = publish_topic(publish) if publish else None
        if entry is not None and isinstance(entry.node, TextNode):
            layers.append(Given("publish.topic", entry.node.text, Rank.PIPELINE, self.file, entry.line))
        return layers

    def _steps(self, root: Section, names: TypeNames, settings: Settings) -> list[ParsedStep]:
        node = root.value("steps", required=True)
        if not isinstance(node, ListNode) or not node.items:
            if node is not None:
                root.problem("steps", "must be a list of at least one step")
            return []
        steps: list[ParsedStep] = []
        for index, item in enumerate(node.items):
            key = f"steps[{index}]"
            if not isinstance(item, MapNode):
                self.report.problem(self.file, item.line, key, "must be a mapping of keys to values")
                continue
            section = Section(self.report, self.file, item, key, item.line)
            steps.append(read_step(section, index, names, settings))
        _check_order(steps)
        return steps

    def _declare_class(self, types: TypeRegistry, text: str) -> str:
        """Declare the type that a Python class shows, under its name. Raises ValueError."""
        cls = self.importer.find(text)
        if not is_record_class(cls):
            raise ValueError(f"{text} is neither a pydantic model nor a dataclass")
        return record_of(cls, types)

    def _assemble(
        self,
        root: Section,
        app_name: str,
        settings: Settings,
        types: TypeRegistry,
        steps: Sequence[ParsedStep],
        source: tuple[ObjectSourceConfig | None, Endpoint | None],
        publish: tuple[ObjectPublishConfig | None, Endpoint | None],
        names: TypeNames,
    ) -> LoadedPipeline:
        ways = self._route(steps, types)
        self._bind_endpoint(source[1], steps[0].input_type, types)
        self._bind_endpoint(publish[1], steps[-1].output_type, types)
        built = build_steps(steps, ways)
        signatures = self._prepare(built, steps, types)
        self._check_classes(root, built, types)
        self.report.raise_problems()
        definition = assemble(
            app_name,
            settings,
            [self._with_types(step, types) for step in built],
            source[0],
            publish[0],
            self.report,
        )
        self.report.raise_problems()
        bindings = {
            index: finish_binding(step, types, function, signature, ways[index].kinds)
            for index, (step, function, signature) in signatures.items()
        }
        notes = self.report.notes + [f"{self.file}: {line}" for line in unsupported_shapes(definition)]
        return LoadedPipeline(
            definition,
            bindings,
            types,
            source[0],
            publish[0],
            settings,
            notes,
            self.report.warnings,
        )

    def _route(self, steps: Sequence[ParsedStep], types: TypeRegistry) -> list[Way]:
        last = len(steps) - 1
        stops = [
            Stop(it.name, it.input_type, it.output_type, it.awaits is not None, it.index == last, it.accepts)
            for it in steps
        ]
        return route(stops, types, lambda at, key, text: steps[at].section.problem(key, text))

    def _bind_endpoint(self, endpoint: Endpoint | None, type_name: str, types: TypeRegistry) -> None:
        if endpoint is None:
            return
        section = endpoint.section
        if endpoint.type_name is not None and endpoint.type_name != type_name:
            section.problem("typeName", f"the step beside it has type {type_name}")
        if endpoint.class_path is not None and ":" not in endpoint.class_path:
            section.note("type", f"accepted and unused: no Python class; the type is {type_name}")
        elif endpoint.class_path is not None and type_name in types.records:
            try:
                types.bind(type_name, self.importer.find(endpoint.class_path))
            except ValueError as error:
                section.problem("type", str(error))

    def _prepare(
        self, built: Sequence[AnyStep], steps: Sequence[ParsedStep], types: TypeRegistry
    ) -> dict[int, tuple[StepDefinition, Callable[..., Any], Signature]]:
        found: dict[int, tuple[StepDefinition, Callable[..., Any], Signature]] = {}
        services = [step for step in built if isinstance(step, StepDefinition)]
        for name in self.functions:
            if name not in [step.name for step in services]:
                self.report.problem(self.file, 0, name, "a callable is given for it, and no service step has this name")
        for step in services:
            try:
                function = self._function(step)
                found[step.index] = (step, function, prepare(step, types, function))
            except ValueError as error:
                steps[step.index].section.problem("service", str(error))
        return found

    def _function(self, step: StepDefinition) -> Callable[..., Any]:
        function = self.functions.get(step.name)
        if function is not None:
            return function
        if step.service is None:
            raise ValueError("missing: package.module:name of a callable, or bind one to the step's name")
        found: Callable[..., Any] = self.importer.find(step.service)
        return found

    def _check_classes(self, root: Section, built: Sequence[AnyStep], types: TypeRegistry) -> None:
        """Build every codec now: a class that does not fit its type is a problem of the load, not of an item."""
        for name in dict.fromkeys(name for step in built for name in (step.input_type, step.output_type)):
            try:
                types.converter(name)
                types.encoder(name)
            except ValueError as error:
                root.problem("types", f"{name}: {error}")

    def _with_types(self, step: AnyStep, types: TypeRegistry) -> AnyStep:
        """What an await step needs of its types: its converter, the arms it can get, which fields are amounts."""
        if not isinstance(step, AwaitDefinition):
            return step
        union, record = types.unions.get(step.output_type), types.records.get(step.input_type)
        return replace(
            step,
            convert=types.converter(step.output_type),
            arms=tuple(union.arms) if union else (),
            decimal_fields=frozenset(it.name for it in record.fields if it.type == "decimal")
            if record
            else frozenset(),
        )


def _check_order(steps: Sequence[ParsedStep]) -> None:
    """Step ids tell steps apart on the wire, and only the last step may be terminal."""
    seen: dict[str, ParsedStep] = {}
    for step in steps:
        if step.terminal and step is not steps[-1]:
            step.section.problem("terminal", "only the last step is terminal")
        if step.step_id and step.step_id in seen:
            message = f"its id {step.step_id} is that of step {seen[step.step_id].name!r} already"
            step.section.problem("name", message)
        seen.setdefault(step.step_id, step)

"""The first half of a load: what pipeline.yaml and the settings say, each part checked by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tpf_streams.dsl.declarations import read_types
from tpf_streams.dsl.document import ListNode, MapNode
from tpf_streams.dsl.keys_root import ROOT, VERSIONS
from tpf_streams.dsl.layers import Given, Rank, from_environ, from_file, from_node, from_overrides
from tpf_streams.dsl.naming import kebab_case
from tpf_streams.dsl.objects import (
    Endpoint,
    ObjectPublishConfig,
    ObjectSourceConfig,
    read_endpoint,
    read_publish,
    read_source,
)
from tpf_streams.dsl.report import Report
from tpf_streams.dsl.section import Section, table_of
from tpf_streams.dsl.settings import Settings, resolve
from tpf_streams.dsl.steps import ParsedStep, read_step
from tpf_streams.dsl.type_names import TypeNames
from tpf_streams.dsl.types import TypeRegistry
from tpf_streams.dsl.written import PipelineDocument
from tpf_streams.errors import DefinitionError

PROPERTIES = "application.properties"


@dataclass(frozen=True, slots=True)
class Places:
    """Where settings may come from, beside the pipeline file."""

    overrides: Mapping[str, str]
    config: Path | None
    environ: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reading:
    """A pipeline file as read. What could not be read is absent here and a problem in the report."""

    root: Section
    app_name: str
    settings: Settings
    types: TypeRegistry
    steps: list[ParsedStep]
    input: Endpoint | None
    output: Endpoint | None
    source: ObjectSourceConfig | None
    publish: ObjectPublishConfig | None
    wire_prefix: str = ""
    """Before the names of declared types in requests."""

    @property
    def connected(self) -> bool:
        """Whether every step could be read and has its types, so that types can be followed from step to step."""
        return bool(self.steps) and all(step.input_type and step.output_type for step in self.steps)


def read_pipeline(
    document: PipelineDocument, places: Places, report: Report, declare_class: Callable[[TypeRegistry, str], str]
) -> Reading:
    """Read everything there is. `declare_class` declares the type behind `package.module:Class`, or raises ValueError.

    Every problem goes to `report`.
    """
    path = document.path
    root = Section(report, str(path), document.root, ROOT)
    app_name = root.text("appName") or ""
    if app_name and not kebab_case(app_name):
        root.problem("appName", "needs a letter or digit")
    layers = _pipeline_layer(root) + _outer_layers(path, places, report)
    settings = resolve(layers, kebab_case(app_name), places.environ, report)
    version = _version(root)
    types = read_types(root, version)
    first = read_endpoint(root, "input", "from", "emits", "subscription")
    last = read_endpoint(root, "output", "to", "consumes", "checkpoint")
    source = read_source(root, first, settings, path.parent)
    publish = read_publish(root, last, settings, path.parent)
    names = TypeNames(types, lambda text: declare_class(types, text))
    steps = _steps(root, names, settings)
    prefix = _wire_prefix(root, version)
    root.finish()
    return Reading(root, app_name, settings, types, steps, first, last, source, publish, prefix)


def _wire_prefix(root: Section, version: int) -> str:
    """Requests name the types as the reference's generated contract does (contract 1.1), where a package is given."""
    package = root.text("basePackage")
    if package is None:
        return ""
    if version < 3:
        root.note("basePackage", "accepted and unused: it names Java packages; types go by their declared names")
        return ""
    prefix = f"{package}.grpc.PipelineTypes$"
    root.note("basePackage", f"requests name their types {prefix}<type>; here they go by their declared names")
    return prefix


def _version(root: Section) -> int:
    return int(root.word("version") or VERSIONS[-1])


def _outer_layers(path: Path, places: Places, report: Report) -> list[Given]:
    layers: list[Given] = []
    beside = path.parent / PROPERTIES
    chosen = places.config or (beside if beside.is_file() else None)
    if chosen is not None:
        try:
            layers += from_file(chosen, report)
        except DefinitionError as error:
            report.problems += error.problems
    return layers + from_environ(places.environ, report) + from_overrides(places.overrides)


def _pipeline_layer(root: Section) -> list[Given]:
    """`settings:`, and the settings that have a place of their own in the file."""
    section = root.section("settings")
    layers = from_node(section.node, root.file, Rank.PIPELINE, root.report) if section else []
    for place in (root, root.section("publish")):
        layers += _settings_in_place(place) if place else []
    return layers


def _settings_in_place(section: Section) -> list[Given]:
    """What the table of keys calls by the name of a setting."""
    found = [(name, key.setting, section.text(name)) for name, key in section.table.keys.items() if key.setting]
    return [
        Given(setting, text, Rank.PIPELINE, section.file, section.line_of(name), section.key(name))
        for name, setting, text in found
        if text is not None
    ]


def _steps(root: Section, names: TypeNames, settings: Settings) -> list[ParsedStep]:
    node = root.value("steps")
    if not isinstance(node, ListNode) or not node.items:
        if node is not None:
            root.problem("steps", "must be a list of at least one step")
        return []
    steps: list[ParsedStep] = []
    for index, item in enumerate(node.items):
        key = f"steps[{index}]"
        if isinstance(item, MapNode):
            section = Section(root.report, root.file, item, table_of(ROOT.keys["steps"], item), key, item.line)
            steps.append(read_step(section, index, names, settings))
        else:
            root.report.problem(root.file, item.line, key, "must be a mapping of keys to values")
    _check_order(steps)
    return steps if len(steps) == len(node.items) else []


def _check_order(steps: list[ParsedStep]) -> None:
    """Step ids tell steps apart on the wire, and only the last step may be terminal."""
    seen: dict[str, ParsedStep] = {}
    for step in steps:
        if step.terminal and step is not steps[-1]:
            step.section.problem("terminal", "only the last step is terminal")
        if step.step_id and step.step_id in seen:
            message = f"its id {step.step_id} is that of step {seen[step.step_id].name!r} already"
            step.section.problem("name", message)
        seen.setdefault(step.step_id, step)

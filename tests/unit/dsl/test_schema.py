"""The JSON Schema of pipeline.yaml: it accepts what loads, and sees what a schema can see of what does not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from tpf_streams.dsl.document import ListNode, MapNode, Node, parse_yaml
from tpf_streams.dsl.report import Report
from tpf_streams.dsl.schema import pipeline_schema, schema_text
from tpf_streams.dsl.settings_table import SETTINGS
from tpf_streams.errors import DefinitionError

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
GOOD = [*sorted((HERE / "data").glob("*.yaml")), *sorted(ROOT.glob("topologies/*/pipeline.yaml"))]
VALIDATOR = Draft7Validator(pipeline_schema())

NOT_SEEN = {
    "accepts", "await-in-sync-mode", "await-on-one-arm", "callables", "duplicate-keys", "durations-absurd",
    "secret-missing", "settings-twice", "steps-that-do-not-fit", "two-terminal-steps",
    "transport-types", "type-chain", "types-within-themselves",
}  # fmt: skip
"""Broken only in how their parts fit together, or in what YAML has read already when a schema looks."""


def as_editors_see(node: Node) -> Any:
    """Plain values, by the core schema of YAML 1.2."""
    if isinstance(node, MapNode):
        return {name: as_editors_see(entry.node) for name, entry in node.entries.items()}
    if isinstance(node, ListNode):
        return [as_editors_see(item) for item in node.items]
    if not node.plain:
        return node.text
    if node.is_null:
        return None
    if node.text.lower() in ("true", "false"):
        return node.text.lower() == "true"
    if re.fullmatch(r"[-+]?[0-9]+", node.text):
        return int(node.text)
    if re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", node.text):
        return float(node.text)
    return node.text


def complaints(text: str) -> list[str]:
    value = as_editors_see(parse_yaml(text, "p.yaml", Report()))
    return [f"{it.json_path}: {it.message}" for it in VALIDATOR.iter_errors(value)]


def test_it_is_a_schema_and_plain_json():
    Draft7Validator.check_schema(json.loads(schema_text()))


@pytest.mark.parametrize("path", GOOD, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_it_accepts_what_loads(path):
    assert complaints(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", sorted((HERE / "broken").glob("*.yaml")), ids=lambda path: path.stem)
def test_it_sees_what_a_schema_can_see(path):
    try:
        found = complaints(path.read_bytes().decode())
    except (UnicodeDecodeError, DefinitionError):
        return  # no YAML at all, which editors tell without a schema
    assert bool(found) is (path.stem not in NOT_SEEN), found


def pipeline(settings: str) -> str:
    text = (HERE / "data" / "fraud-check.kafka.yaml").read_text(encoding="utf-8")
    return f"{text}\nsettings:\n{settings}\n"


@pytest.mark.parametrize("setting", [it for it in SETTINGS.values() if it.default is not None], ids=lambda it: it.key)
def test_every_setting_may_be_written_dotted_or_nested(setting):
    given = f'"{setting.default}"' if ":" in str(setting.default) else setting.default
    words = setting.key.split(".")
    nested = "\n".join("  " * (depth + 1) + f"{word}:" for depth, word in enumerate(words)) + f" {given}"
    dotted = f"  {setting.key}: {given}"
    refused = setting.status.value == "refused"
    assert bool(complaints(pipeline(dotted))) is refused
    assert bool(complaints(pipeline(nested))) is refused
    assert complaints(pipeline(f"  {setting.key}: ${{SOME_VARIABLE}}")) == [] or refused


@pytest.mark.parametrize(
    ("settings", "seen"),
    [
        ("  pipeline.orchestrator: {mode: SYNC}", False),
        ("  quarkus.http.port: 8080", False),
        ("  quarkus: {http: {port: 8080}}", False),
        ("  pipeline.orchestrator: {dynamo.region: x, worker: {max-in-flight: 1}}", False),
        ("  fraud-check.provider.rate: 7", False),
        ("  pipeline: {paralelism: AUTO}", True),
        ("  pipeline: {handoff: {bindings: {}}}", True),
        ("  sync: sometimes", True),
        ("  topology.partitions: 5000", True),
    ],
)
def test_settings(settings, seen):
    assert bool(complaints(pipeline(settings))) is seen

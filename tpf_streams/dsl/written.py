"""The document of a pipeline, wherever it was written: a YAML file, or Python. One reading for both follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from tpf_streams.dsl.document import Entry, ListNode, MapNode, Node, TextNode, parse_yaml, read_text
from tpf_streams.dsl.report import Report


@dataclass(frozen=True, slots=True)
class PipelineDocument:
    """`path`: the file that it stands in, YAML or Python; folders and settings files are relative to its folder.
    `objects`: what texts in it stand for, classes and functions that no import might find."""

    path: Path
    root: MapNode
    objects: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Placed:
    """A piece of a Python document, with the line that wrote it: problems name it."""

    value: Mapping[str, Any]
    line: int


def from_file(path: Path, report: Report) -> PipelineDocument:
    """Raises DefinitionError for a file that is no YAML mapping."""
    return PipelineDocument(path, parse_yaml(read_text(path, str(path)), str(path), report))


def from_python(path: Path, root: Mapping[str, Any], objects: Mapping[str, Any]) -> PipelineDocument:
    """The document that nested dicts, lists and plain values say. Raises TypeError for anything else."""
    node = _node(root, 1)
    assert isinstance(node, MapNode)
    return PipelineDocument(path, node, objects)


def _node(value: Any, line: int) -> Node:
    if isinstance(value, Placed):
        return _node(value.value, value.line)
    if isinstance(value, Mapping):
        entries = {_text(key): Entry(_line(inner, line), _node(inner, line)) for key, inner in value.items()}
        return MapNode(entries, line, 1 + len(entries))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        items = tuple(_node(inner, line) for inner in value)
        return ListNode(items, line, 1 + len(items))
    return TextNode(_text(value), line, plain=value is None)


def _line(value: Any, line: int) -> int:
    return value.line if isinstance(value, Placed) else line


def _text(value: Any) -> str:
    """As YAML's author would have written it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return _text(value.value)
    if isinstance(value, str | int | Path):
        return str(value)
    raise TypeError(
        f"a {type(value).__name__}: a pipeline is written in texts, whole numbers, truth values, dicts and lists"
    )

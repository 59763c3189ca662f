"""Reads YAML into plain nodes that know their line.

A scalar stays the text its author wrote: `no` is not false and `1:30` is not 90, because each key says itself what it
wants. Made from the parser's events and not from PyYAML's constructors, so no tag can build anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import yaml

from tpf_streams.dsl.report import Report, shown
from tpf_streams.errors import DefinitionError, Problem

MAX_BYTES = 256 * 1024
"""Thousands of lines, and read in half a second: the parser is plain Python."""
MAX_DEPTH = 32
MAX_NODES = 10_000
"""Nodes after aliases are followed: a page of nested anchors can stand for billions."""

MERGE = "<<"
"""The key of YAML 1.1 that takes the keys of other mappings in."""
_PLAIN_TAGS = {"tag:yaml.org,2002:str", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map", "!"}


@dataclass(frozen=True, slots=True)
class TextNode:
    """A scalar as written. `plain`: without quotes, so `null` and an empty value mean that there is none."""

    text: str
    line: int
    plain: bool
    size: int = 1

    @property
    def is_null(self) -> bool:
        return self.plain and self.text in ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class ListNode:
    items: tuple[Node, ...]
    line: int
    size: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a mapping: the line of the key, and its value."""

    line: int
    node: Node


@dataclass(frozen=True, slots=True)
class MapNode:
    entries: dict[str, Entry]
    line: int
    size: int


Node: TypeAlias = TextNode | ListNode | MapNode


def read_text(path: Path, shown_as: str) -> str:
    """The text of a small UTF-8 file. Raises DefinitionError: unreadable, too large, not UTF-8."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise _refusal(shown_as, 0, f"cannot be read: {error.strerror or type(error).__name__}") from error
    if len(raw) > MAX_BYTES:
        raise _refusal(shown_as, 1, f"larger than {MAX_BYTES} bytes, the most that is read")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _refusal(shown_as, line, "not UTF-8") from error


def parse_yaml(text: str, shown_as: str, report: Report) -> MapNode:
    """The root mapping of the one document in `text`. Repeated keys go to `report`; reading goes on.

    Raises DefinitionError: not YAML, more or less than one document, not a mapping, a tag, too deep, too many nodes.
    """
    root = _Builder(shown_as, report).document(_events(text, shown_as))
    if not isinstance(root, MapNode):
        raise _refusal(shown_as, root.line, "the file must be one mapping of keys to values")
    return root


def _events(text: str, shown_as: str) -> Iterator[yaml.Event]:
    """What the parser sees, its errors as DefinitionError."""
    parser: yaml.SafeLoader | None = None
    try:
        parser = yaml.SafeLoader(text)
        while parser.check_event():
            event: yaml.Event = parser.get_event()  # type: ignore[no-untyped-call]
            yield event
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _refusal(shown_as, line, "a control character, which YAML does not allow") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _refusal(shown_as, mark.line + 1 if mark else 1, f"not YAML: {error.problem}{_hint(error)}") from error
    except (ValueError, OverflowError) as error:  # of chr(), for an escape like \UFFFFFFFF
        line = parser.line + 1 if parser else 1
        raise _refusal(shown_as, line, "not YAML: an escape that stands for no character") from error
    finally:
        if parser is not None:
            parser.dispose()


def _hint(error: yaml.MarkedYAMLError) -> str:
    return "; indent with blanks, not tabs" if "'\\t'" in str(error.problem) else ""


def _refusal(file: str, line: int, message: str) -> DefinitionError:
    return DefinitionError([Problem(file, line, "file", message)])


def _is_text(value: str) -> bool:
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


class _Builder:
    """Builds nodes from parser events, counting what aliases multiply."""

    def __init__(self, file: str, report: Report) -> None:
        self._file = file
        self._report = report
        self._anchors: dict[str, Node] = {}
        self._events: Iterator[yaml.Event] = iter(())
        self._built = 0

    def document(self, events: Iterator[yaml.Event]) -> Node:
        self._events = events
        root: Node | None = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    raise _refusal(self._file, _line(event), "a second document; one is wanted")
                root = self._node(next(events), 0)
        if root is None or (isinstance(root, TextNode) and root.is_null):
            raise _refusal(self._file, 1, "the file is empty")
        return root

    def _node(self, event: yaml.Event, depth: int) -> Node:
        line = _line(event)
        if depth > MAX_DEPTH:
            raise _refusal(self._file, line, f"nested more than {MAX_DEPTH} deep")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, line)
        node = self._fresh(event, line, depth)
        anchor = getattr(event, "anchor", None)
        if anchor is not None:
            self._anchors[anchor] = node
        return node

    def _fresh(self, event: yaml.Event, line: int, depth: int) -> Node:
        tag = getattr(event, "tag", None)
        if tag is not None and tag not in _PLAIN_TAGS:
            raise _refusal(self._file, line, f"tag {shown(tag)}: tags are not allowed, write the plain value")
        self._count(1, line)
        if isinstance(event, yaml.ScalarEvent):
            if not _is_text(event.value):
                raise _refusal(self._file, line, "half of a surrogate pair, which no UTF-8 text can hold")
            return TextNode(event.value, line, event.style is None and tag is None)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(line, depth)
        return self._map(line, depth)

    def _alias(self, event: yaml.AliasEvent, line: int) -> Node:
        anchor = event.anchor or ""
        node = self._anchors.get(anchor)
        if node is None:  # also one that stands inside the very node it names
            raise _refusal(self._file, line, f"alias {shown('*' + anchor)}: no such anchor before it")
        self._count(node.size, line)
        return node

    def _list(self, line: int, depth: int) -> ListNode:
        items: list[Node] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, depth + 1))
        return ListNode(tuple(items), line, 1 + sum(item.size for item in items))

    def _map(self, line: int, depth: int) -> MapNode:
        entries: dict[str, Entry] = {}
        size = 1
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            value = self._node(next(self._events), depth + 1)
            if not isinstance(key, TextNode):
                raise _refusal(self._file, key.line, "a key must be one word, not a list or a mapping")
            if key.text in entries:
                first = entries[key.text].line
                message = f"written twice, first in line {first}; keep one"
                self._report.problem(self._file, _line(event), key.text, message)
                continue
            entries[key.text] = Entry(_line(event), value)
            size += key.size + value.size
        merge = entries.pop(MERGE, None)
        return MapNode(self._taken_in(merge) | entries if merge else entries, line, size)

    def _taken_in(self, merge: Entry) -> dict[str, Entry]:
        """What `<<` brings, from one mapping or a list of them; of one key the first that has it counts."""
        found = merge.node.items if isinstance(merge.node, ListNode) else (merge.node,)
        taken: dict[str, Entry] = {}
        for node in found:
            if isinstance(node, MapNode):
                taken = node.entries | taken
            else:
                self._report.problem(self._file, merge.line, MERGE, "takes in a mapping, as *name, or a list of them")
        return taken

    def _count(self, nodes: int, line: int) -> None:
        self._built += nodes
        if self._built > MAX_NODES:
            raise _refusal(self._file, line, f"more than {MAX_NODES} values, aliases followed")

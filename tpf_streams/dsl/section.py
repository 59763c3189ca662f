"""Reads one mapping of a pipeline file key by key.

Every reading method reports what is wrong and goes on with None or the default, so that one load finds all problems.
`finish` reports keys that nobody asked for: nothing is accepted and then ignored (contract 0.19).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import TypeVar

from tpf_streams.dsl.document import ListNode, MapNode, Node, TextNode
from tpf_streams.dsl.durations import parse_duration_ms
from tpf_streams.dsl.report import Report, one_of, shown, suggestion

EnumT = TypeVar("EnumT", bound=StrEnum)


class Section:
    """A cursor over one mapping. `line` is where it was opened, for what is missing in it."""

    def __init__(self, report: Report, file: str, node: MapNode, path: str, line: int) -> None:
        self.report = report
        self.file = file
        self.node = node
        self.path = path
        self.line = line
        self._known: list[str] = []

    # Where

    def key(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def line_of(self, name: str) -> int:
        entry = self.node.entries.get(name)
        return entry.line if entry else self.line

    def problem(self, name: str, message: str) -> None:
        self.report.problem(self.file, self.line_of(name), self.key(name), message)

    def note(self, name: str, message: str) -> None:
        self.report.notes.append(f"{self.file}:{self.line_of(name)}: {self.key(name)}: {message}")

    def has(self, name: str) -> bool:
        """Whether the key is there at all. Asking makes it a known key."""
        self._known.append(name)
        return name in self.node.entries

    # What

    def value(self, name: str, *, required: bool = False) -> Node | None:
        self._known.append(name)
        entry = self.node.entries.get(name)
        if entry is None:
            if required:
                self.problem(name, "missing, and required")
            return None
        if isinstance(entry.node, TextNode) and entry.node.is_null:
            self.problem(name, "empty; give it a value or leave the key out")
            return None
        return entry.node

    def text(self, name: str, *, required: bool = False) -> str | None:
        """A non-blank text, blanks around it cut."""
        node = self.value(name, required=required)
        if node is None:
            return None
        if not isinstance(node, TextNode):
            self.problem(name, "must be one text")
            return None
        if not node.text.strip():
            self.problem(name, "must not be blank")
            return None
        return node.text.strip()

    def raw_text(self, name: str) -> str | None:
        """A text as written, which may be empty when it is quoted."""
        node = self.value(name)
        if node is not None and not isinstance(node, TextNode):
            self.problem(name, "must be one text")
            return None
        return node.text if node is not None else None

    def flag(self, name: str) -> bool | None:
        text = self.text(name)
        if text is None:
            return None
        if text not in ("true", "false"):
            self.problem(name, f"{shown(text)}: true or false is wanted")
            return None
        return text == "true"

    def integer(self, name: str, minimum: int, maximum: int) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 20 and minimum <= int(text) <= maximum):
            self.problem(name, f"{shown(text)}: a whole number from {minimum} to {maximum} is wanted")
            return None
        return int(text)

    def duration_ms(self, name: str, *, required: bool = False) -> int | None:
        """A positive ISO-8601 duration, in milliseconds."""
        text = self.text(name, required=required)
        if text is None:
            return None
        try:
            millis = parse_duration_ms(text)
        except ValueError as error:
            self.problem(name, str(error))
            return None
        if millis <= 0:
            self.problem(name, f"{shown(text)}: must be longer than nothing, as PT5M")
            return None
        return millis

    def choice(self, name: str, allowed: type[EnumT]) -> EnumT | None:
        text = self.text(name)
        if text is None:
            return None
        for member in allowed:
            if member.value == text:
                return member
        names = [member.value for member in allowed]
        self.problem(name, f"{shown(text)}: allowed are {one_of(names)}.{suggestion(text, names)}")
        return None

    def word(self, name: str, allowed: Iterable[str], *, required: bool = False) -> str | None:
        """One of a few texts, whatever its case."""
        text = self.text(name, required=required)
        if text is None:
            return None
        names = list(allowed)
        for known in names:
            if known.lower() == text.lower():
                return known
        self.problem(name, f"{shown(text)}: allowed are {one_of(names)}.{suggestion(text, names)}")
        return None

    def texts(self, name: str) -> list[str] | None:
        """A list of non-blank texts, none twice."""
        node = self.value(name)
        if node is None:
            return None
        if not isinstance(node, ListNode) or not all(isinstance(item, TextNode) for item in node.items):
            self.problem(name, "must be a list of texts, as [a, b]")
            return None
        texts = [item.text.strip() for item in node.items if isinstance(item, TextNode)]
        if not texts or not all(texts) or len(set(texts)) != len(texts):
            self.problem(name, "must name at least one, none of them blank or twice")
            return None
        return texts

    def section(self, name: str, *, required: bool = False) -> Section | None:
        node = self.value(name, required=required)
        if node is None:
            return None
        if not isinstance(node, MapNode):
            self.problem(name, "must be a mapping of keys to values")
            return None
        return Section(self.report, self.file, node, self.key(name), self.line_of(name))

    def sections(self) -> Iterator[tuple[str, Section]]:
        """Every key as a mapping of its own; the keys are names that the author chose."""
        for name in self.node.entries:
            child = self.section(name)
            if child is not None:
                yield name, child

    # Leftovers

    def unused(self, name: str, why: str) -> None:
        """A key of the reference that is accepted and does nothing here."""
        if self.has(name):
            self.note(name, f"accepted and unused: {why}")

    def forbid(self, name: str, why: str) -> None:
        if self.has(name):
            self.problem(name, why)

    def finish(self) -> None:
        known = list(dict.fromkeys(self._known))
        for name in self.node.entries:
            if name not in known:
                hint = suggestion(name, known) or f" Known here: {one_of(known)}."
                self.problem(name, f"unknown key.{hint}")

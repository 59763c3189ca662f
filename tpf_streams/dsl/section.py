"""Reads one mapping of a pipeline file by its table of keys.

Every reading method reports what is wrong and goes on with None or the default, so that one load finds all problems.
`finish` tells what the table says of the keys that nobody reads: noted, refused or unknown; and which defaults hold.
Nothing is accepted and then ignored (contract 0.19).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TypeVar

from tpf_streams.dsl.document import ListNode, MapNode, Node, TextNode
from tpf_streams.dsl.durations import parse_duration_ms, written
from tpf_streams.dsl.keys import Key, Kind, Table
from tpf_streams.dsl.report import Default, Report, one_of, printable, shown, suggestion
from tpf_streams.dsl.setting import Status

_NO_KEYS = Table()
EnumT = TypeVar("EnumT", bound=StrEnum)


def table_of(key: Key, node: MapNode) -> Table:
    """The keys of `node`, which is the value of `key` or one of its items."""
    if key.variants is None:
        return key.table or _NO_KEYS
    entry = node.entries.get(key.variants.by)
    return key.variants.table(entry.node.text.strip() if entry and isinstance(entry.node, TextNode) else None)


class Section:
    """A cursor over one mapping. `line` is where it was opened, for what is missing in it."""

    def __init__(self, report: Report, file: str, node: MapNode, table: Table, path: str = "", line: int = 1) -> None:
        self.report = report
        self.file = file
        self.node = node
        self.table = table
        self.path = path
        self.line = line

    # Where

    def key(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def line_of(self, name: str) -> int:
        entry = self.node.entries.get(name)
        return entry.line if entry else self.line

    def problem(self, name: str, message: str) -> None:
        self.report.problem(self.file, self.line_of(name), self.key(name), message)

    def note(self, name: str, message: str) -> None:
        self.report.notes.append(printable(f"{self.file}:{self.line_of(name)}: {self.key(name)}: {message}"))

    def has(self, name: str) -> bool:
        """Whether the key is there at all."""
        self.table.key(name)
        return name in self.node.entries

    # What

    def value(self, name: str) -> Node | None:
        """The node of a key that has a value; one that is required and missing is reported."""
        key, entry = self.table.key(name), self.node.entries.get(name)
        if entry is None:
            if key.required:
                self.problem(name, key.missing)
            return None
        if isinstance(entry.node, TextNode) and entry.node.is_null:
            self.problem(name, "empty; give it a value or leave the key out")
            return None
        return entry.node

    def text(self, name: str) -> str | None:
        """A non-blank text, blanks around it cut; the default where the key is left out."""
        text = self._text(name)
        return self.table.key(name).default if text is None and not self.has(name) else text

    def _text(self, name: str) -> str | None:
        node = self.value(name)
        if node is None:
            return None
        if not isinstance(node, TextNode):
            self.problem(name, "must be one text")
            return None
        if not node.text.strip():
            self.problem(name, "must not be blank")
            return None
        return node.text.strip()

    def raw_text(self, name: str) -> str:
        """A text as written, which may be empty when it is quoted."""
        node = self.value(name)
        if node is not None and not isinstance(node, TextNode):
            self.problem(name, "must be one text")
            return ""
        return node.text if node is not None else self.table.key(name).default or ""

    def flag(self, name: str) -> bool | None:
        text = self.text(name)
        if text is None:
            return None
        if text not in ("true", "false"):
            self.problem(name, f"{shown(text)}: true or false is wanted")
            return None
        return text == "true"

    def integer(self, name: str) -> int | None:
        key, text = self.table.key(name), self.text(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 20 and key.minimum <= int(text) <= key.maximum):
            self.problem(name, f"{shown(text)}: a whole number from {key.minimum} to {key.maximum} is wanted")
            return None
        return int(text)

    def duration_ms(self, name: str) -> int | None:
        """A positive ISO-8601 duration, in milliseconds."""
        key, text = self.table.key(name), self.text(name)
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
        if key.maximum and millis > key.maximum:
            self.problem(name, f"{shown(text)}: at most {written(key.maximum)} is allowed")
            return None
        return millis

    def word(self, name: str) -> str | None:
        """One of a few texts, as the table writes it."""
        key, text = self.table.key(name), self.text(name)
        if text is None:
            return None
        for known in key.choices:
            if known == text or (not key.exact and known.lower() == text.lower()):
                return str(known)
        self.problem(name, f"{shown(text)}: allowed are {one_of(key.choices)}.{suggestion(text, key.choices)}")
        return None

    def choice(self, name: str, allowed: type[EnumT]) -> EnumT | None:
        word = self.word(name)
        return None if word is None else allowed(word)

    def texts(self, name: str) -> list[str] | None:
        """A list of non-blank texts, none twice."""
        node = self.value(name)
        if node is None:
            default = self.table.key(name).default
            return default.split(", ") if default and not self.has(name) else None
        if not isinstance(node, ListNode) or not all(isinstance(it, TextNode) and not it.is_null for it in node.items):
            self.problem(name, "must be a list of texts, as [a, b]")
            return None
        texts = [item.text.strip() for item in node.items if isinstance(item, TextNode)]
        if not texts or not all(texts) or len(set(texts)) != len(texts):
            self.problem(name, "must name at least one, none of them blank or twice")
            return None
        return texts

    def section(self, name: str) -> Section | None:
        """A mapping, None where it is left out or is none."""
        node = self.value(name)
        if node is None:
            return None
        if not isinstance(node, MapNode):
            self.problem(name, "must be a mapping of keys to values")
            return None
        return self._inner(name, node)

    def inner(self, name: str) -> Section:
        """As `section`; where the mapping is left out, an empty one: its defaults hold."""
        return self.section(name) or self._inner(name, MapNode({}, self.line_of(name), 1))

    def _inner(self, name: str, node: MapNode) -> Section:
        table = table_of(self.table.key(name), node)
        return Section(self.report, self.file, node, table, self.key(name), self.line_of(name))

    def sections(self) -> Iterator[tuple[str, Section]]:
        """Every mapping under a name that the author chose."""
        for name in self.node.entries:
            child = self.section(name) if name not in self.table.keys else None
            if child is not None:
                yield name, child

    # The rest

    def finish(self) -> None:
        """To be called when all is read."""
        for name in self.node.entries:
            if name in self.table.keys:
                self._judge(name, self.table.keys[name])
            elif self.table.each is None:
                hint = suggestion(name, self.table.known) or f" Known here: {one_of(self.table.known)}."
                self.problem(name, f"unknown key.{hint}")
        for group in self.table.one_of:
            first, *more = [name for name in group if name in self.node.entries] or [""]
            for name in more:
                self.problem(name, f"{first} says it already; keep one")
        for name, key in self.table.keys.items():
            if key.default is not None and name not in self.node.entries:
                self.report.defaults.append(Default(self.key(name), key.default, f"{self.file}:{self.line}"))

    def _judge(self, name: str, key: Key) -> None:
        if key.status is Status.REFUSED:
            self.problem(name, key.why)
        elif key.status is Status.NOTED:
            self.note(name, f"accepted and unused: {key.why}")
            if key.kind is Kind.INTEGER:
                self.integer(name)

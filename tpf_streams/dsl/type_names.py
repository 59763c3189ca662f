"""From what a step writes as its type to a declared type."""

from __future__ import annotations

from collections.abc import Callable

from tpf_streams.dsl.report import one_of, shown, suggestion
from tpf_streams.dsl.scalars import SCALARS
from tpf_streams.dsl.section import Section
from tpf_streams.dsl.types import TypeRegistry


class TypeNames:
    """Resolves `input` and `output` of steps. `load_class` imports `package.module:Class` and declares its type.

    It raises ValueError saying why it cannot.
    """

    def __init__(self, types: TypeRegistry, load_class: Callable[[str], str]) -> None:
        self.types = types
        self._load_class = load_class

    def read(self, section: Section, side: str) -> str:
        """The type of `input` or `inputTypeName` (or of output alike); empty where that was reported as wrong."""
        other = f"{side}TypeName"
        short, long = section.text(side), section.text(other)
        if short is None and long is None:
            if not section.has(side) and not section.has(other):
                section.problem(side, f"missing, and required: {side} or {other}")
            return ""
        found = {key: self.resolve(section, key, text) for key, text in ((side, short), (other, long)) if text}
        if len(set(found.values())) > 1 and all(found.values()):
            section.problem(other, f"differs from {side}; keep one")
        return next(iter(found.values()))

    def resolve(self, section: Section, key: str, text: str) -> str:
        if text in self.types:
            return text
        if ":" in text:
            return self._from_class(section, key, text)
        last = text.replace("$", ".").rpartition(".")[2]
        if last != text and last in self.types:
            section.note(key, f"read as the declared type {last}")
            return last
        if text in SCALARS:
            section.problem(key, f"{shown(text)} is a scalar; a step takes a type with fields, or a union")
            return ""
        names = self.types.names
        section.problem(
            key,
            f"{shown(text)} is no declared type: allowed are {one_of(names)}, or a class as package.module:Class."
            f"{suggestion(text, names)}",
        )
        return ""

    def _from_class(self, section: Section, key: str, text: str) -> str:
        try:
            return self._load_class(text)
        except ValueError as error:
            section.problem(key, str(error))
            return ""

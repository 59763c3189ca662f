"""The types a pipeline file declares, and what stands for them in Python.

A value travels between steps as an instance of a Python class that stands for a record type: one that the author bound
by annotating a step, or a generated frozen pydantic model. A union has no instance of its own: a value of it is an
instance of one arm's class, and its JSON is `{"<arm>": {...}}` (contract 1.5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tpf_streams.core.step import Json
from tpf_streams.dsl.codecs import Codecs
from tpf_streams.dsl.outgoing import outgoing
from tpf_streams.dsl.scalars import Mismatch
from tpf_streams.dsl.shapes import RecordType, Shape, UnionType, generate, record_of, shape_of
from tpf_streams.errors import PayloadError


@dataclass(frozen=True, slots=True)
class TypeUse:
    """What a class stands for."""

    type_name: str
    shape: Shape


class TypeRegistry:
    """All types of one pipeline. Bind classes first, then ask for converters: those are built once and kept."""

    def __init__(
        self,
        records: Iterable[RecordType] = (),
        unions: Iterable[UnionType] = (),
        *,
        int64_as_text: bool = True,
    ) -> None:
        self.records = {record.name: record for record in records}
        self.unions = {union.name: union for union in unions}
        self._primary: dict[str, type] = {}
        self._uses: dict[type, TypeUse] = {}
        self._inherited: dict[type, TypeUse | None] = {}
        self._codecs = Codecs(self, int64_as_text)
        self._encoders: dict[str, Callable[[object], Json]] = {}

    # Names

    def __contains__(self, name: object) -> bool:
        return name in self.records or name in self.unions

    @property
    def names(self) -> list[str]:
        return [*self.records, *self.unions]

    def concrete(self, name: str) -> tuple[str, ...]:
        """The record types a value of `name` can be: the arms' types in order, or the type itself."""
        union = self.unions.get(name)
        return tuple(union.arms.values()) if union else (name,)

    # Classes

    def add(self, record: RecordType) -> None:
        self.records[record.name] = record

    def declare(self, cls: type) -> str:
        """Declare the record type that a class shows, with those inside it, and bind it; -> its name.

        Raises ValueError: no pydantic model or dataclass, a field that no declared type is like, a name taken already.
        """
        return record_of(cls, self)

    def declare_union(self, names: Sequence[str]) -> str:
        """Declare the union of declared record types; -> its name. An arm is called as its type, in camel case."""
        name = "Or".join(names)
        self.unions.setdefault(name, UnionType(name, {kind[:1].lower() + kind[1:]: kind for kind in names}))
        return name

    def bind(self, name: str, cls: type) -> None:
        """Let `cls` stand for record type `name`; the first one bound is what converters make.

        Raises ValueError: the class lacks a declared field, needs one that is not declared, or stands for another type.
        """
        use = self._uses.get(cls)
        if use is not None:
            if use.type_name != name:
                raise ValueError(f"{cls.__qualname__} stands for {use.type_name} already; use a class of its own")
            return
        self._inherited.clear()
        self._uses[cls] = TypeUse(name, shape_of(cls, self.records[name]))
        self._primary.setdefault(name, cls)

    def model(self, name: str) -> type:
        """The class that stands for record type `name`, generated at first need. Raises KeyError: no such type."""
        cls = self._primary.get(name)
        if cls is None:
            record = self.records[name]
            nested = {field.type: self._annotation(field.type) for field in record.fields if field.type in self}
            cls = generate(record, nested)
            self.bind(name, cls)
        return cls

    def _annotation(self, name: str) -> Any:
        found: Any = self.model(self.concrete(name)[0])
        for other in self.concrete(name)[1:]:
            found = found | self.model(other)
        return found

    def shape(self, cls: type) -> Shape:
        """How the class, or its nearest bound base, lies over its type. Raises KeyError: neither is bound."""
        use = self._use(cls)
        if use is None:
            raise KeyError(cls)
        return use.shape

    def bound_to(self, cls: type) -> str | None:
        """The record type that this very class was bound to."""
        use = self._uses.get(cls)
        return use.type_name if use else None

    def type_of(self, value: object) -> str | None:
        """The record type that the class of `value`, or its nearest bound base, stands for."""
        use = self._uses.get(type(value)) or self._use(type(value))
        return use.type_name if use else None

    def _use(self, cls: type) -> TypeUse | None:
        use = self._uses.get(cls)
        if use is not None:
            return use
        if cls not in self._inherited:
            self._inherited[cls] = next((self._uses[base] for base in cls.__mro__ if base in self._uses), None)
        return self._inherited[cls]

    def arm_of(self, value: object, union: str) -> str | None:
        """The arm of `union` that `value` is, or None: `union` is no union, or `value` none of its arms."""
        if union not in self.unions:
            return None
        return self.unions[union].arm_of_type.get(self.type_of(value) or "")

    # JSON

    def converter(self, name: str) -> Callable[[Json], object]:
        """A function from plain JSON to an instance. It raises PayloadError, which names fields and never values.

        An instance is returned as it is; a string that begins with `{` or `[` is read as JSON; unknown fields are
        ignored; a missing one is an error, because absent money must not read as zero (ProtoJSON would say default).
        """
        self._known(name)
        return self._reading(name, self._codecs.reader(name))

    def converter_to(self, name: str, cls: type) -> Callable[[Json], object]:
        """Like `converter`, for a bound class other than the first of record type `name`."""
        return self._reading(name, self._codecs.record_reader(name, cls))

    def encoder(self, name: str) -> Callable[[object], Json]:
        """A function from an instance to plain JSON: decimals as plain strings, a union under its arm.

        It raises PayloadError where the value does not fit the declared type.
        """
        found = self._encoders.get(name)
        if found is None:
            self._known(name)
            found = self._encoders[name] = refusing(
                self._codecs.writer(name),
                lambda value: f"Failed to normalize await payload from {type(value).__name__}",
            )
        return found

    def to_json(self, value: object, name: str | None = None) -> Json:
        """Plain JSON of `value`, as declared type `name` or else as what its class stands for.

        Only with the name of a union is the arm kept. Raises PayloadError.
        """
        if name is None:
            name = self.type_of(value)
            if name is None:
                return outgoing(value)
        return self.encoder(name)(value)

    def _reading(self, name: str, codec: Callable[[Any], Any]) -> Callable[[Json], object]:
        return refusing(codec, lambda _: f"Failed converting await payload to {name}")

    def _known(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)


def refusing(codec: Callable[[Any], Any], failed: Callable[[Any], str]) -> Callable[[Any], Any]:
    """`codec`, its mismatches as PayloadError in the words of contract 1.5."""

    def convert(value: Any) -> Any:
        try:
            return codec(value)
        except Mismatch as mismatch:
            where = f"{mismatch.path}: " if mismatch.path else ""
            raise PayloadError(f"{failed(value)}: {where}{mismatch.reason}") from None

    return convert

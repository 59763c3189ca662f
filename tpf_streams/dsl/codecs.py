"""Readers and writers of whole values, put together once and then called per item.

The hot path of the package: one loop over a plan, no annotations, no reflection. A class's own constructor runs after
the plan has checked every field, so that a declared type is checked alike whatever class stands for it.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from tpf_streams.core.json_policy import parse_json
from tpf_streams.core.step import Json
from tpf_streams.dsl.quick import SCALARS as QUICK_SCALARS
from tpf_streams.dsl.quick import QuickSchema, as_plan, quick, record
from tpf_streams.dsl.scalars import SCALARS, Codec, Mismatch, write_int64_text
from tpf_streams.dsl.shapes import Shape, ShapeField, record_classes
from tpf_streams.errors import JsonPolicyError

if TYPE_CHECKING:
    from tpf_streams.dsl.types import TypeRegistry

EMBEDDED_MAX = 3 * 1024 * 1024
"""Bytes of JSON inside a JSON string: no more than an aggregate payload may have (contract 0.6)."""


class Codecs:
    """Builds and keeps the codecs of one registry."""

    def __init__(self, types: TypeRegistry, int64_as_text: bool) -> None:
        self._types = types
        self._int64_as_text = int64_as_text
        self._readers: dict[tuple[str, type], Codec] = {}
        self._quick: dict[tuple[str, type], QuickSchema] = {}
        self._writers: dict[tuple[str, type], Codec] = {}

    # Reading

    def reader(self, name: str) -> Codec:
        if name in self._types.unions:
            return self._union_reader(name, {})
        return self.record_reader(name, self._types.model(name))

    def record_reader(self, name: str, cls: type) -> Codec:
        found = self._readers.get((name, cls))
        if found is None:
            shape = self._types.shape(cls)
            plan = _record_reader(shape, self._field_reader)
            schema = self._quick[name, cls] = record(shape, self._field_schema)
            found = self._readers[name, cls] = quick(schema, plan)
        return found

    def _field_schema(self, shaped: ShapeField) -> QuickSchema:
        """Of a field whose reader has been built."""
        kind = shaped.spec.type
        classes = record_classes(shaped.annotation)
        if kind in QUICK_SCALARS:
            return QUICK_SCALARS[kind]
        if kind in self._types.records and len(classes) == 1:
            return self._quick[kind, classes[0]]
        return as_plan(self._field_reader(shaped))

    def _union_reader(self, name: str, classes: dict[str, type]) -> Codec:
        """`classes`: record type -> class to make where an annotation asks for another than the registry's."""
        union = self._types.unions[name]
        arms = {
            arm: self.record_reader(kind, classes.get(kind) or self._types.model(kind))
            for arm, kind in union.arms.items()
        }
        return _union_reader(arms, tuple(classes.get(it) or self._types.model(it) for it in union.arms.values()))

    def _field_reader(self, shaped: ShapeField) -> Codec:
        kind = shaped.spec.type
        if kind in SCALARS:
            return SCALARS[kind].read
        classes = {self._bound(cls, kind): cls for cls in record_classes(shaped.annotation)}
        if kind in self._types.unions:
            return self._union_reader(kind, classes)
        if classes:
            return self.record_reader(kind, classes[kind])
        read, write = self.reader(kind), self.writer(kind)  # annotated as dict or Any: checked, and left as JSON
        return lambda value: write(read(value))

    def _bound(self, cls: type, kind: str) -> str:
        """The record type that the class of a nested field stands for; binds it when it is new."""
        concrete = self._types.concrete(kind)
        known = self._types.bound_to(cls)
        if known in concrete:
            return known
        wanted = concrete[0] if len(concrete) == 1 else cls.__name__
        if wanted not in concrete:
            raise ValueError(f"{cls.__qualname__} is no arm of {kind}; name it as one of {', '.join(concrete)}")
        self._types.bind(wanted, cls)
        return wanted

    # Writing

    def writer(self, name: str) -> Codec:
        if name in self._types.unions:
            return self._union_writer(name)
        return self._record_writer(name)

    def _record_writer(self, name: str) -> Codec:
        """Any class that stands for `name` is taken; its plan is found by the class of the value."""
        plans: dict[type, Codec] = {}

        def write(value: object) -> Json:
            plan = plans.get(type(value))
            if plan is None:
                if self._types.type_of(value) != name:
                    raise Mismatch(f"a value of class {type(value).__name__} does not stand for {name}")
                plan = plans[type(value)] = self._class_writer(name, type(value))
            return plan(value)

        return write

    def _union_writer(self, name: str) -> Codec:
        union = self._types.unions[name]
        writers = {kind: (arm, self._record_writer(kind)) for arm, kind in union.arms.items()}
        type_of = self._types.type_of

        def write(value: object) -> Json:
            found = writers.get(type_of(value) or "")
            if found is None:
                raise Mismatch(f"a value of class {type(value).__name__} is no arm of {name}")
            arm, plan = found
            try:
                return {arm: plan(value)}
            except Mismatch as mismatch:
                raise mismatch.inside(arm) from None

        return write

    def _class_writer(self, name: str, cls: type) -> Codec:
        found = self._writers.get((name, cls))
        if found is None:
            found = _record_writer(self._types.shape(cls), self._field_writer)
            self._writers[name, cls] = found
        return found

    def _field_writer(self, shaped: ShapeField) -> Codec:
        kind = shaped.spec.type
        if kind == "int64" and self._int64_as_text:
            return write_int64_text
        if kind in SCALARS:
            return SCALARS[kind].write
        read, write = self.reader(kind), self.writer(kind)
        return lambda value: write(read(value) if isinstance(value, dict) else value)


def _record_reader(shape: Shape, field_reader: Callable[[ShapeField], Codec]) -> Codec:
    plan = [(it.spec.name, it.key, field_reader(it)) for it in shape.fields if not it.spec.optional]
    optional = [(it.spec.name, it.key, field_reader(it)) for it in shape.fields if it.spec.optional]
    cls, construct = shape.cls, shape.construct

    def read(value: Json) -> object:
        if type(value) is not dict:
            if isinstance(value, cls):
                return value
            value = _embedded(value)
        values: dict[str, Any] = {}
        name = ""
        try:
            for name, key, codec in plan:
                values[key] = codec(value[name])
            for name, key, codec in optional:
                if value.get(name) is not None:
                    values[key] = codec(value[name])
        except KeyError:
            raise Mismatch("missing", name) from None
        except Mismatch as mismatch:
            raise mismatch.inside(name) from None
        try:
            return construct(values)
        except ValidationError as error:
            raise _refused(error, shape) from None

    return read


def _refused(error: ValidationError, shape: Shape) -> Mismatch:
    """What the class itself refuses, without its message: that may hold the value."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    names = {it.key: it.spec.name for it in shape.fields}
    where = str(first["loc"][0]) if first["loc"] else ""
    return Mismatch(f"refused by {shape.cls.__qualname__} ({first['type']})", names.get(where, ""))


def _embedded(value: Json) -> dict[str, Json]:
    """An object that came as a string of JSON (contract 1.5)."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            value = parse_json(value.encode(), EMBEDDED_MAX)
        except (JsonPolicyError, UnicodeEncodeError):
            raise Mismatch("a string that begins like JSON and is not") from None
    if not isinstance(value, dict):
        raise Mismatch("an object is wanted")
    return value


def _union_reader(arms: dict[str, Codec], classes: tuple[type, ...]) -> Codec:
    wanted = f"one of {', '.join(arms)} is wanted as the key"

    def read(value: Json) -> object:
        if type(value) is not dict:
            if isinstance(value, classes):
                return value
            value = _embedded(value)
        found = [arm for arm in value if arm in arms]
        if len(found) != 1:
            raise Mismatch(wanted if not found else f"more than one arm: {', '.join(sorted(found))}")
        arm = found[0]
        try:
            return arms[arm](value[arm])
        except Mismatch as mismatch:
            raise mismatch.inside(arm) from None

    return read


def _record_writer(shape: Shape, field_writer: Callable[[ShapeField], Codec]) -> Codec:
    plan = [(it.spec.name, attrgetter(it.attribute), field_writer(it), it.spec.optional) for it in shape.fields]

    def write(value: object) -> Json:
        written: dict[str, Json] = {}
        name = ""
        try:
            for name, get, codec, optional in plan:
                found = get(value)
                if found is not None:
                    written[name] = codec(found)
                elif not optional:
                    raise Mismatch("must not be null")
        except Mismatch as mismatch:
            raise mismatch.inside(name) from None
        return written

    return write

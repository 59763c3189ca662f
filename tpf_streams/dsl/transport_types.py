"""A type as a provider speaks it: a declared type, a scalar, a Python class, or a protobuf message.

The payload is held against it first, and only then against the step's own type (requirements, completion
representation): so a dead letter tells a broken answer from one that does not fit the pipeline.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, PydanticUserError, ValidationError

from tpf_streams.core.json_policy import parse_json
from tpf_streams.core.step import Json
from tpf_streams.dsl.codecs import EMBEDDED_MAX
from tpf_streams.dsl.outgoing import adapter, outgoing
from tpf_streams.dsl.protobuf import is_message_class, message_name, reader
from tpf_streams.dsl.protobuf_fit import misfits
from tpf_streams.dsl.scalars import SCALARS, Codec, Mismatch
from tpf_streams.dsl.types import TypeRegistry, refusing
from tpf_streams.errors import JsonPolicyError


@dataclass(frozen=True, slots=True)
class TransportType:
    """`name` is told to providers. `read`: plain JSON -> a value of `cls` (None: of a declared type, whatever class
    stands for it); `write`: back to plain JSON. Both raise PayloadError. `misfits(name, whole)`: why no value of the
    declared type of that name can come of it, or with `whole` become it."""

    name: str
    cls: type | None
    read: Callable[[Json], Any]
    write: Callable[[Any], Json]
    misfits: Callable[[str, bool], Iterable[str]]


def declared(types: TypeRegistry, name: str, wire_name: str) -> TransportType:
    def misfits_of(other: str, whole: bool) -> Iterator[str]:
        return _declared_misfits(types, *((other, name) if whole else (name, other)))

    return TransportType(wire_name, None, types.converter(name), types.encoder(name), misfits_of)


def _declared_misfits(types: TypeRegistry, source: str, target: str) -> Iterator[str]:
    """Why the JSON of one declared type is not that of another. A `string` may turn out to be anything."""
    one, other = types.unions.get(source), types.unions.get(target)
    if source == target:
        return
    if (one is None) != (other is None):
        yield f"{source} is no {target}"
    elif one is not None and other is not None:
        for arm, kind in one.arms.items():
            if arm in other.arms:
                yield from _declared_misfits(types, kind, other.arms[arm])
            else:
                yield f"{source} has the arm {arm}, and {target} has none"
    else:
        given = {field.name: field.type for field in types.records[source].fields}
        for field in types.records[target].fields:
            kind = given.get(field.name, "")
            if kind in types and field.type in types:
                yield from _declared_misfits(types, kind, field.type)
            elif kind not in ("string", field.type) and not (kind == "" and field.optional):
                yield f"{target} wants {field.name} ({field.type}): {source} has {kind or 'none'}"


def scalar(name: str) -> TransportType:
    kind = SCALARS[name]
    return TransportType(
        name,
        kind.python,
        refusing(kind.read, lambda _: f"Failed converting await payload to {name}"),
        refusing(kind.write, lambda value: f"Failed to normalize await payload from {type(value).__name__}"),
        lambda other, whole: (f"{name} is no {other}",),
    )


def is_transport_class(cls: object) -> bool:
    """Whether values of `cls` can be read from JSON and written to it: a message, a pydantic model, a dataclass."""
    return is_message_class(cls) or (
        isinstance(cls, type) and (issubclass(cls, BaseModel) or dataclasses.is_dataclass(cls))
    )


def of_class(types: TypeRegistry, cls: Any) -> TransportType:
    """The type that a class of `is_transport_class` is."""
    if is_message_class(cls):
        name = message_name(cls)
        codec: Codec = reader(cls)
    else:
        name = f"{cls.__module__}.{cls.__qualname__}"
        codec = _class_reader(cls)

    def read(value: Any) -> Any:
        return value if isinstance(value, cls) else codec(_unwrapped(value))

    def misfits_of(other: str, whole: bool) -> Iterator[str]:
        if is_message_class(cls):
            return misfits(types, other, cls.DESCRIPTOR, whole=whole)
        return _class_misfits(types, other, cls)

    return TransportType(
        name, cls, refusing(read, lambda _: f"Failed converting await payload to {name}"), outgoing, misfits_of
    )


def _unwrapped(value: Json) -> Json:
    """JSON that came inside a string (contract 1.5)."""
    if type(value) is str and value[:1] in ("{", "["):
        try:
            return parse_json(value.encode(), EMBEDDED_MAX)
        except (JsonPolicyError, UnicodeEncodeError):
            raise Mismatch("a string that begins like JSON and is not") from None
    return value


def _class_reader(cls: type) -> Codec:
    validate, known = adapter(cls).validator.validate_python, _field_names(cls)

    def read(value: Json) -> object:
        try:
            return validate(value)
        except ValidationError as error:
            # Without its message, and of its place no more than a field of the class: both may hold what was sent.
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = str(first["loc"][0]) if first["loc"] else ""
            raise Mismatch(f"refused ({first['type']})", where if where in known else "") from None

    return read


def _field_names(cls: Any) -> frozenset[str]:
    if not issubclass(cls, BaseModel):
        return frozenset(field.name for field in dataclasses.fields(cls))
    aliases = (info.validation_alias or info.alias for info in cls.model_fields.values())
    return frozenset([*cls.model_fields, *(it for it in aliases if isinstance(it, str))])


def _class_misfits(types: TypeRegistry, name: str, cls: type) -> Iterator[str]:
    """What can be seen from the class: required fields that it lacks, and decimals that it would take for floats."""
    record = types.records.get(name)
    try:
        shown = adapter(cls).json_schema(mode="serialization").get("properties")
    except PydanticUserError:
        return  # a field that JSON Schema cannot describe; the answers will show
    if record is None or shown is None:
        return
    for field in record.fields:
        if field.name not in shown and not field.optional:
            yield f"{cls.__qualname__} has no field {field.name}"
        elif field.type == "decimal" and shown.get(field.name, {}).get("type") == "number":
            yield f"{cls.__qualname__}.{field.name} is a float, and {field.name} a decimal: its digits would be lost"

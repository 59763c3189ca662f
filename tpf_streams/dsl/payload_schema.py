"""The JSON Schema (draft 2020-12) of a declared type as it travels: for forms, and for programs that check before they
send. It says what a codec takes, as far as a schema can: a calendar day that does not exist passes here and not there.
"""

from __future__ import annotations

from typing import Any

from tpf_streams.core.step import AwaitDefinition, PipelineDefinition
from tpf_streams.dsl.scalars import DECIMAL_CHARS_MAX, INT32, INT64
from tpf_streams.dsl.shapes import FieldSpec, RecordType, UnionType
from tpf_streams.dsl.types import TypeRegistry

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"

_REAL = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$"}]}
_SCALARS: dict[str, Schema] = {
    "string": {"type": "string"},
    "decimal": {
        "anyOf": [
            {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$", "maxLength": DECIMAL_CHARS_MAX},
            {"type": "integer"},
        ]
    },
    "uuid": {"type": "string", "format": "uuid"},
    "timestamp": {"type": "string", "format": "date-time"},
    "datetime": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d"},
    "date": {"type": "string", "format": "date"},
    "duration": {"type": "string", "format": "duration"},
    "currency": {"type": "string", "pattern": "^[A-Za-z]{3}$"},
    "uri": {"type": "string", "minLength": 1},
    "path": {"type": "string"},
    "boolean": {"type": "boolean"},
    "int32": {"type": "integer", "minimum": INT32[0], "maximum": INT32[1]},
    "int64": {
        "anyOf": [
            {"type": "integer", "minimum": INT64[0], "maximum": INT64[1]},
            {"type": "string", "pattern": "^-?(0|[1-9][0-9]{0,18})$"},
        ]
    },
    "float": _REAL,
    "double": _REAL,
    "bytes": {"type": "string", "contentEncoding": "base64"},
}


def type_schema(types: TypeRegistry, name: str) -> Schema:
    """Of a declared type, with the types inside it under `$defs`. A union is one object per arm, under its name."""
    inside: dict[str, Schema] = {}
    found = _named(types, name, inside)
    return {"$schema": DIALECT, "title": name, **found, **({"$defs": inside} if inside else {})}


def input_schema(types: TypeRegistry, definition: PipelineDefinition) -> Schema:
    """Of what an execution is begun with."""
    found = type_schema(types, definition.steps[0].input_type)
    return _list_of(found) if definition.takes_list_input else found


def completion_schema(types: TypeRegistry, step: AwaitDefinition) -> Schema:
    """Of the `responsePayload` that a step takes. Where its provider speaks a class of its own, that says no more here
    than its name: what the class refuses is told when it comes."""
    if step.completion is not None and not (declared := _declared(types, step.completion.transport_type)):
        return {"$schema": DIALECT, "title": step.completion.transport_type}
    elif step.completion is not None:
        return type_schema(types, declared)
    found = type_schema(types, step.output_type)
    return _list_of(found) if step.expands else found


def _declared(types: TypeRegistry, wire_name: str) -> str:
    """The declared type that a provider calls by its longer name (contract 1.1), or an empty text."""
    return next((it for it in types.names if wire_name == it or wire_name.endswith(f"${it}")), "")


def _list_of(found: Schema) -> Schema:
    inside = found.pop("$defs", None)
    listed = {"$schema": found.pop("$schema"), "title": found["title"], "type": "array", "items": found}
    return {**listed, "$defs": inside} if inside else listed


def _named(types: TypeRegistry, name: str, inside: dict[str, Schema]) -> Schema:
    union = types.unions.get(name)
    return _record(types, types.records[name], inside) if union is None else _union(types, union, inside)


def _union(types: TypeRegistry, union: UnionType, inside: dict[str, Schema]) -> Schema:
    return {"oneOf": [_arm(types, arm, kind, inside) for arm, kind in union.arms.items()]}


def _arm(types: TypeRegistry, arm: str, kind: str, inside: dict[str, Schema]) -> Schema:
    """Closed: with a second key it would be two answers."""
    return {
        "title": arm,
        "type": "object",
        "properties": {arm: _reference(types, kind, inside)},
        "required": [arm],
        "additionalProperties": False,
    }


def _record(types: TypeRegistry, record: RecordType, inside: dict[str, Schema]) -> Schema:
    required = [field.name for field in record.fields if not field.optional]
    properties = {field.name: _field(types, field, inside) for field in record.fields}
    found: Schema = {"type": "object", "properties": properties}
    return {**found, "required": required} if required else found


def _field(types: TypeRegistry, field: FieldSpec, inside: dict[str, Schema]) -> Schema:
    found = dict(_SCALARS[field.type]) if field.type in _SCALARS else _reference(types, field.type, inside)
    return {"anyOf": [found, {"type": "null"}]} if field.optional else found


def _reference(types: TypeRegistry, name: str, inside: dict[str, Schema]) -> Schema:
    if name not in inside:
        inside[name] = {}  # a type may hold itself
        inside[name] = _named(types, name, inside)
    return {"$ref": f"#/$defs/{name}"}

"""Whether a message can carry a declared type, field by field: told at start, and not by the first answer that is lost.

Fields meet by their JSON name. A union is a message with a `oneof`, an arm to a field (contract 1.5).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tpf_streams.dsl.protobuf import kind_of
from tpf_streams.dsl.shapes import FieldSpec
from tpf_streams.dsl.types import TypeRegistry

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_TEXT = frozenset({"string", "google.protobuf.StringValue"})
_INT32 = frozenset({"int32", "google.protobuf.Int32Value"})
_INT64 = _INT32 | {"int64", "uint32", "google.protobuf.Int64Value", "google.protobuf.UInt32Value"}
_FLOAT = frozenset({"float", "google.protobuf.FloatValue"})
CARRIES = {
    "string": _TEXT | {"enum"},
    "timestamp": _TEXT | {"google.protobuf.Timestamp"},
    "datetime": _TEXT | {"google.protobuf.Timestamp"},
    "boolean": frozenset({"bool", "google.protobuf.BoolValue"}),
    "int32": _INT32,
    "int64": _INT64,
    "float": _FLOAT,
    "double": _FLOAT | {"double", "google.protobuf.DoubleValue"},
    "bytes": frozenset({"bytes", "google.protobuf.BytesValue"}),
}
"""Scalar -> what carries it without loss. All others are texts alone: a decimal in a `double` has lost its digits."""


def misfits(types: TypeRegistry, name: str, message: Descriptor, *, whole: bool) -> Iterator[str]:
    """Why `message` cannot carry values of declared type `name`. `whole`: optional fields need a place too, as they do
    in what is sent."""
    fields = {field.json_name: field for field in message.fields}
    union = types.unions.get(name)
    if union is not None:
        specs = [FieldSpec(arm, kind) for arm, kind in union.arms.items()]
    else:
        specs = [it for it in types.records[name].fields if whole or not it.optional or it.name in fields]
    for spec in specs:
        field = fields.get(spec.name)
        if field is None:
            yield f"{message.full_name} has no field with the JSON name {spec.name}"
        elif union is not None and field.containing_oneof is None:
            yield f"{message.full_name}.{field.name} is an arm of {name}, and in no oneof"
        else:
            yield from _field(types, spec, field, whole=whole)


def _field(types: TypeRegistry, spec: FieldSpec, field: FieldDescriptor, *, whole: bool) -> Iterator[str]:
    where = field.full_name
    if field.is_repeated:
        yield f"{where} is repeated, and {spec.name} ({spec.type}) is not"
    elif spec.type in types and field.message_type is not None:
        yield from misfits(types, spec.type, field.message_type, whole=whole)
    elif kind_of(field) not in CARRIES.get(spec.type, frozenset() if spec.type in types else _TEXT):
        yield f"{where} is {kind_of(field)}, which cannot carry {spec.name} ({spec.type})"

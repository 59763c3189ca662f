"""Protobuf messages as transport types: ProtoJSON in and out (contract 1.5).

The library is an extra (`tpf_streams[protobuf]`); a class of a message cannot be without it, so nothing here imports it
before there is one.

The library's own reader takes what a bank must not: `[]` or a text for a message gives an empty one, of two spellings
of a field the last wins, and an unknown enum value becomes the first of the enum. So what comes is held against the
descriptor before the library reads it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from tpf_streams.core.step import Json
from tpf_streams.dsl.scalars import DECIMAL_CHARS_MAX, Mismatch

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import Message

INSTALL = "protobuf messages need the extra: pip install 'tpf_streams[protobuf]'"
WELL_KNOWN = "google.protobuf."
"""Messages of this package have a JSON form of their own, and the library alone reads it."""

_INTEGERS = frozenset({"int32", "int64", "uint32", "uint64"})
_REALS = frozenset({"float", "double"})
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,19})")
_REAL = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?|-?Infinity|NaN")
_FIELD = re.compile(r"Failed to parse (\w+)")


def is_message(value: object) -> bool:
    found = sys.modules.get("google.protobuf.message")
    return found is not None and isinstance(value, found.Message)


def is_message_class(cls: object) -> bool:
    found = sys.modules.get("google.protobuf.message")
    return found is not None and isinstance(cls, type) and issubclass(cls, found.Message)


def message_name(cls: type[Message]) -> str:
    """`package.Message`, as its .proto file says: the same in every language."""
    return cls.DESCRIPTOR.full_name


def to_json(message: Message) -> Json:
    """ProtoJSON as plain JSON. A field without presence is there with its default, because its absence says that."""
    from google.protobuf import json_format

    found: Json = json_format.MessageToDict(message, always_print_fields_with_no_presence=True)
    return found


def reader(cls: type[Message]) -> Callable[[Json], Message]:
    """Plain JSON -> a message; unknown fields are ignored. Raises Mismatch, which names fields and never values."""
    from google.protobuf import json_format

    descriptor: Descriptor = cls.DESCRIPTOR  # type: ignore[assignment]

    def read(value: Json) -> Message:
        _check(value, descriptor)
        message = cls()
        try:
            json_format.ParseDict(value, message, ignore_unknown_fields=True)
        except json_format.Error as error:
            # Its words may hold the value; the name of the field may be told.
            found = _FIELD.match(str(error))
            raise Mismatch(f"no ProtoJSON of {descriptor.full_name}", found[1] if found else "") from None
        if not message.IsInitialized():  # proto2 alone has required fields
            raise Mismatch(f"a required field of {descriptor.full_name} is missing")
        return message

    return read


def _check(value: Json, descriptor: Descriptor) -> None:
    if descriptor.full_name.startswith(WELL_KNOWN):
        return
    if not isinstance(value, dict):
        raise Mismatch("an object is wanted")
    for field in descriptor.fields:
        names = {field.json_name, field.name} & value.keys()
        if len(names) > 1:
            raise Mismatch(f"{field.json_name} and {field.name} are one field", field.json_name)
        found = value[names.pop()] if names else None
        if found is None:
            continue
        try:
            _check_field(found, field)
        except Mismatch as mismatch:
            raise mismatch.inside(field.json_name) from None


def _check_field(value: Json, field: FieldDescriptor) -> None:
    if not field.is_repeated:
        _check_one(value, field)
    elif field.message_type is not None and field.message_type.GetOptions().map_entry:
        if not isinstance(value, dict):
            raise Mismatch("an object is wanted")
        for item in value.values():
            _check_one(item, field.message_type.fields_by_name["value"])
    elif not isinstance(value, list):
        raise Mismatch("a list is wanted")
    else:
        for item in value:
            _check_one(item, field)


def _check_one(value: Json, field: FieldDescriptor) -> None:
    kind = kind_of(field)
    if field.message_type is not None:
        _check(value, field.message_type)
    elif field.enum_type is not None:
        _check_enum(value, field)
    elif kind in _INTEGERS and type(value) is str and _INTEGER.fullmatch(value) is None:
        raise Mismatch(f"an {kind} is wanted")
    elif kind in _REALS and type(value) is str and (len(value) > DECIMAL_CHARS_MAX or _REAL.fullmatch(value) is None):
        raise Mismatch("a number is wanted")


def _check_enum(value: Json, field: FieldDescriptor) -> None:
    assert field.enum_type is not None
    known = field.enum_type.values_by_name if isinstance(value, str) else field.enum_type.values_by_number
    if isinstance(value, bool) or not isinstance(value, str | int) or value not in known:
        raise Mismatch(f"a value of {field.enum_type.full_name} is wanted")


def kind_of(field: FieldDescriptor) -> str:
    """What a field holds, in one word for all its encodings: `sint64` and `sfixed64` are `int64` too."""
    if field.message_type is not None:
        return field.message_type.full_name
    return _KINDS[field.type]


_KINDS: dict[int, str] = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "uint64", 7: "uint32", 8: "bool", 9: "string",
    12: "bytes", 13: "uint32", 14: "enum", 15: "int32", 16: "int64", 17: "int32", 18: "int64",
}  # fmt: skip
"""By the numbers of descriptor.proto, which are part of its wire format."""

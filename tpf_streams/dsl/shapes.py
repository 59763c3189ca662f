"""How Python classes and declared record types lie over each other.

A declared field `csvId` is the attribute with the alias `csvId`, or named `csvId`, or named `csv_id`.
"""

from __future__ import annotations

import dataclasses
import keyword
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic.fields import FieldInfo

from tpf_streams.dsl.naming import snake_case
from tpf_streams.dsl.scalars import SCALARS

if TYPE_CHECKING:
    from tpf_streams.dsl.types import TypeRegistry


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A declared field. `optional`: may be absent or null, and is then None."""

    name: str
    type: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class RecordType:
    name: str
    fields: tuple[FieldSpec, ...]


@dataclass(frozen=True, slots=True)
class UnionType:
    """`arms`: discriminator -> record type; no type is in it twice, so that an instance tells its arm."""

    name: str
    arms: Mapping[str, str]
    arm_of_type: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "arm_of_type", {kind: arm for arm, kind in self.arms.items()})


@dataclass(frozen=True, slots=True)
class ShapeField:
    """One declared field in a class: the key its constructor takes, its attribute, and what its annotation says."""

    spec: FieldSpec
    key: str
    attribute: str
    annotation: Any


@dataclass(frozen=True, slots=True)
class Shape:
    """`construct` makes an instance from a dict of constructor keys. It raises what the class raises."""

    cls: type
    fields: tuple[ShapeField, ...]
    construct: Callable[[dict[str, Any]], object]


@dataclass(frozen=True, slots=True)
class _Member:
    """A field of a class, whatever kind of class it is."""

    attribute: str
    key: str
    aliases: frozenset[str]
    annotation: Any
    required: bool


def is_record_class(cls: object) -> bool:
    """Whether `cls` can stand for a record type: a pydantic model or a dataclass."""
    return isinstance(cls, type) and (issubclass(cls, BaseModel) or dataclasses.is_dataclass(cls))


def shape_of(cls: type, record: RecordType) -> Shape:
    """Lay `record` over `cls`. Raises ValueError naming the field that does not fit."""
    members = _members(cls)
    fields = tuple(_matched(cls, spec, members) for spec in record.fields)
    taken = {found.attribute for found in fields}
    for member in members:
        if member.required and member.attribute not in taken:
            raise ValueError(f"{cls.__qualname__} needs {member.key}, which type {record.name} does not declare")
    return Shape(cls, fields, _constructor(cls))


def _matched(cls: type, spec: FieldSpec, members: list[_Member]) -> ShapeField:
    member = _member_for(spec.name, members)
    if member is None:
        raise ValueError(f"{cls.__qualname__} has no field {spec.name} (or {snake_case(spec.name)})")
    if spec.type == "decimal" and _bare(member.annotation) in (float, int):
        raise ValueError(f"{cls.__qualname__}.{member.attribute}: a decimal must be Decimal or str, not a float")
    if spec.optional and member.required:
        raise ValueError(f"{cls.__qualname__}.{member.attribute}: the field is optional, so give it a default")
    return ShapeField(spec, member.key, member.attribute, member.annotation)


def _member_for(name: str, members: list[_Member]) -> _Member | None:
    """By alias before attribute before snake case: one class may have both `aB` and `a_b`."""
    by_alias = [member for member in members if name in member.aliases]
    by_name = [member for member in members if member.attribute == name]
    words = snake_case(name)
    by_words = [member for member in members if member.attribute == words]
    return next(iter(by_alias + by_name + by_words), None)


def _members(cls: type) -> list[_Member]:
    if issubclass(cls, BaseModel):
        return [_model_member(name, info) for name, info in cls.model_fields.items()]
    if not dataclasses.is_dataclass(cls):
        raise ValueError(f"{cls.__qualname__} is neither a pydantic model nor a dataclass")
    hints = typing.get_type_hints(cls, include_extras=True)
    return [
        _Member(it.name, it.name, frozenset(), hints[it.name], _is_required(it))
        for it in dataclasses.fields(cls)
        if it.init
    ]


def _is_required(member: dataclasses.Field[Any]) -> bool:
    return member.default is dataclasses.MISSING and member.default_factory is dataclasses.MISSING


def _model_member(name: str, info: FieldInfo) -> _Member:
    alias = info.validation_alias or info.alias
    if isinstance(alias, AliasChoices):
        alias = next((choice for choice in alias.choices if isinstance(choice, str)), None)
    key = alias if isinstance(alias, str) else name
    aliases = frozenset({key, info.serialization_alias or key} - {name})
    return _Member(name, key, aliases, info.annotation, info.is_required())


def _constructor(cls: type) -> Callable[[dict[str, Any]], object]:
    if issubclass(cls, BaseModel):
        return cls.__pydantic_validator__.validate_python
    return TypeAdapter(cls).validator.validate_python


def _bare(annotation: Any) -> Any:
    """`annotation` without Annotated and `| None`."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _bare(typing.get_args(annotation)[0])
    members = [it for it in union_members(annotation) if it is not type(None)]
    return members[0] if len(members) == 1 else annotation


def union_members(annotation: Any) -> tuple[Any, ...]:
    """`A | B` -> (A, B); anything else -> itself alone."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


def record_classes(annotation: Any) -> list[type]:
    """The classes in `annotation` that can stand for record types."""
    bare = _bare(annotation)
    return [_bare(member) for member in union_members(bare) if is_record_class(_bare(member))]


def generate(record: RecordType, nested: Mapping[str, Any]) -> type[BaseModel]:
    """A frozen pydantic model of `record`; attributes in snake case, JSON names as declared."""
    fields: dict[str, Any] = {}
    for spec in record.fields:
        kind = nested[spec.type] if spec.type in nested else SCALARS[spec.type].python
        default: Any = None if spec.optional else ...
        annotation = kind | None if spec.optional else kind
        fields[_attribute(spec.name, fields)] = (annotation, Field(default, alias=spec.name))
    config = ConfigDict(frozen=True, populate_by_name=True, protected_namespaces=())
    model: type[BaseModel] = create_model(record.name, __config__=config, __module__=__name__, **fields)
    return model


def _attribute(name: str, taken: Mapping[str, Any]) -> str:
    """A free attribute: `json` and `copy` are methods of every model, `class` is a keyword."""
    found = snake_case(name)
    while keyword.iskeyword(found) or hasattr(BaseModel, found) or found in taken:
        found += "_"
    return found


def record_of(cls: type, types: TypeRegistry) -> str:
    """Declare the record type that `cls` shows, and those inside it; the name of it.

    Raises ValueError: an annotation that no declared type has, or a name that is declared otherwise.
    """
    known = types.bound_to(cls)
    if known is not None:
        return known
    if cls.__name__ in types:
        raise ValueError(f"{cls.__name__} is declared in the file already; name it as the type, without its module")
    specs = tuple(_spec(cls, member, types) for member in _members(cls))
    types.add(RecordType(cls.__name__, specs))
    types.bind(cls.__name__, cls)
    return cls.__name__


def _spec(cls: type, member: _Member, types: TypeRegistry) -> FieldSpec:
    bare = _bare(member.annotation)
    optional = not member.required or type(None) in union_members(member.annotation)
    if is_record_class(bare):
        return FieldSpec(member.key, record_of(bare, types), optional)
    kind = _SCALAR_OF.get(bare) if isinstance(bare, type) else None
    if kind is None:
        raise ValueError(f"{cls.__qualname__}.{member.attribute}: no declared type is like {bare}")
    return FieldSpec(member.key, kind, optional)


_SCALAR_OF: Mapping[type, str] = {
    str: "string",
    Decimal: "decimal",
    UUID: "uuid",
    datetime: "datetime",
    date: "date",
    timedelta: "duration",
    bool: "boolean",
    int: "int64",
    float: "double",
    bytes: "bytes",
    Path: "path",
    PurePath: "path",
    PurePosixPath: "path",
}

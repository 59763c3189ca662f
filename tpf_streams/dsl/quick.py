"""The usual values, read faster: pydantic's compiled validators in the place of the plan's loop in `codecs`.

A quick reader takes what is spelled as most values are, and makes of it what the plan would (tests hold the two
together). All else it leaves to the plan, which alone decides what is right and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pydantic_core import CoreSchema, SchemaValidator, ValidationError
from pydantic_core.core_schema import (
    TypedDictField,
    bool_schema,
    chain_schema,
    decimal_schema,
    int_schema,
    no_info_after_validator_function,
    no_info_plain_validator_function,
    nullable_schema,
    str_schema,
    typed_dict_field,
    typed_dict_schema,
    union_schema,
)

from tpf_streams.dsl.scalars import DECIMAL_CHARS_MAX, INT32, INT64, Codec, Mismatch
from tpf_streams.dsl.shapes import Shape, ShapeField

QuickSchema: TypeAlias = CoreSchema


def _text(pattern: str | None = None, chars: int | None = None) -> CoreSchema:
    return str_schema(strict=True, pattern=pattern, max_length=chars)


def _integer(bounds: tuple[int, int], *, strict: bool) -> CoreSchema:
    return int_schema(strict=strict, ge=bounds[0], le=bounds[1])


SCALARS: Mapping[str, QuickSchema] = {
    "string": str_schema(strict=True, min_length=0),
    "decimal": chain_schema([_text(r"^-?[0-9]+(?:\.[0-9]+)?$", DECIMAL_CHARS_MAX), decimal_schema()]),
    "uuid": _text(r"^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"),
    "currency": _text(r"^[A-Za-z]{3}$"),
    "path": _text(r"^[^\x00]*$"),
    "boolean": bool_schema(strict=True),
    "int32": _integer(INT32, strict=True),
    "int64": union_schema(
        [
            chain_schema([_text(r"^-?(?:0|[1-9][0-9]{0,18})$"), _integer(INT64, strict=False)]),
            _integer(INT64, strict=True),
        ],
        mode="left_to_right",
    ),
}
"""Those that are worth it; the others are read as the plan reads them. A `string` may have any
length, and is asked for it all the same: else nobody looks at its characters, and a lone surrogate passes."""


def as_plan(codec: Codec) -> QuickSchema:
    """A field that the plan's own codec reads."""
    return no_info_plain_validator_function(codec)


def record(shape: Shape, schema_of: Callable[[ShapeField], QuickSchema]) -> QuickSchema:
    fields, construct = {it.key: _field(it, schema_of(it)) for it in shape.fields}, shape.construct
    if any(it.spec.optional for it in shape.fields):

        def construct(values: dict[str, Any]) -> object:
            """An optional field that is null is not there: the class has its own default."""
            return shape.construct({key: value for key, value in values.items() if value is not None})

    return no_info_after_validator_function(construct, typed_dict_schema(fields, strict=True))


def _field(shaped: ShapeField, schema: QuickSchema) -> TypedDictField:
    spec = shaped.spec
    if spec.optional:
        return typed_dict_field(nullable_schema(schema), required=False, validation_alias=spec.name)
    return typed_dict_field(schema, required=True, validation_alias=spec.name)


def quick(schema: QuickSchema, plan: Codec) -> Codec:
    """`plan`, tried only where the schema does not hold."""
    validate = SchemaValidator(schema).validate_python

    def read(value: Any) -> object:
        try:
            return validate(value)
        except (ValidationError, Mismatch):
            return plan(value)

    return read

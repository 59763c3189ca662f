"""Any value that leaves for a provider, as plain JSON (contract 1.5)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import date, time, timedelta
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import Any
from uuid import UUID

from pydantic import AnyUrl, BaseModel, TypeAdapter
from pydantic_core import PydanticSerializationError, to_jsonable_python

from tpf_streams.core.json_policy import normalise
from tpf_streams.core.step import Json
from tpf_streams.dsl.protobuf import is_message, to_json
from tpf_streams.errors import PayloadError

_TEXTS = (UUID, date, time, timedelta, AnyUrl, bytes)
"""What pydantic has a text for. A set has no JSON: its order is another in each process."""


def outgoing(value: object) -> Json:
    """Null, texts, numbers and truth values as they are; a protobuf message as ProtoJSON; of models, dataclasses, maps
    and lists the JSON tree. Decimals become texts.

    Raises PayloadError for what is none of these; it names the class and never the value.
    """
    return normalise(_tree(value))


def _tree(value: object) -> Any:
    """Texts, numbers, maps and lists, down to the leaves; numbers are left to `normalise`."""
    if is_message(value):
        return to_json(value)  # type: ignore[arg-type]
    if isinstance(value, BaseModel) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        return _tree(_fields(value))
    if isinstance(value, Mapping):
        return {key: _tree(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_tree(item) for item in value]
    if isinstance(value, Enum):
        return _tree(value.value)
    if isinstance(value, PurePath):
        return value.as_posix()
    if isinstance(value, _TEXTS):
        return _written(value, to_jsonable_python)
    return value


def _fields(value: object) -> Any:
    """As Python values, because pydantic's own JSON writes a small decimal with an exponent. Optional fields that are
    None are left out: for a declared type absent and null are one, and of the arms of a union only one may be there."""
    dump = adapter(type(value)).dump_python  # type: ignore[arg-type]
    return _written(value, lambda it: dump(it, by_alias=True, exclude_none=True, warnings=False))


def _written(value: object, write: Callable[[Any], Any]) -> Any:
    try:
        return write(value)
    except (PydanticSerializationError, ValueError, TypeError) as error:
        raise PayloadError(f"Failed to normalize await payload from {type(value).__name__}") from error


@lru_cache(maxsize=256)
def adapter(cls: type) -> TypeAdapter[Any]:
    return TypeAdapter(cls)

"""`dataclasses.replace` for rows, which a turn calls several times an item: 2.5 us where that one takes 8."""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeVar

R = TypeVar("R")


@lru_cache(maxsize=64)
def _values(cls: Any) -> attrgetter[Any]:
    return attrgetter(*(field.name for field in fields(cls)))


def replace(record: R, **changes: Any) -> R:
    """A copy of a row (`core/frozen.py`) with some fields changed. Raises AttributeError for a field it has not."""
    cls: Any = type(record)
    made: R = cls(*_values(cls)(record))
    for name, value in changes.items():
        setattr(made, name, value)
    return made

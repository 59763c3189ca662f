"""`dataclasses.replace` for rows, which a turn calls several times an item: 1.5 us where that one takes 6."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

from tpf_streams.core.frozen import copier_of

R = TypeVar("R")

_copier_of = lru_cache(maxsize=64)(copier_of)


def replace(record: R, **changes: Any) -> R:
    """A copy of a row (`core/frozen.py`) with some fields changed. Raises AttributeError for a field it has not."""
    cls: Any = type(record)
    made: R = _copier_of(cls)(record)
    for name, value in changes.items():
        setattr(made, name, value)
    return made

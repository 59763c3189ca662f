"""`@frozen`: a slotted dataclass that no code may change, held so by the type checker and not at run time.

A frozen dataclass sets each field through `object.__setattr__`: a row of 25 fields takes 5.6 us to make where a plain
slotted one takes 0.6, and an item makes forty such objects on its way (seen: 25 % of the whole). mypy refuses an
assignment to a field all the same.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(Field, field))
def frozen(cls: type[T]) -> type[T]:
    """Fields, equality and hash as of `dataclass(frozen=True, slots=True)`."""
    return dataclass(slots=True, unsafe_hash=True)(cls)

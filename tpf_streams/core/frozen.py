"""`@frozen`: a slotted dataclass that no code may change, held so by the type checker and not at run time.

A frozen dataclass sets each field through `object.__setattr__`: a row of 25 fields takes 5.6 us to make where a plain
slotted one takes 0.6, and an item makes forty such objects on its way (seen: 25 % of the whole). mypy refuses an
assignment to a field all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(Field, field))
def frozen(cls: type[T]) -> type[T]:
    """Fields, equality and hash as of `dataclass(frozen=True, slots=True)`."""
    return dataclass(slots=True, unsafe_hash=True)(cls)


def values_of(cls: type[T]) -> Callable[[T], tuple[Any, ...]]:
    """A function from an instance of a dataclass to the values of its fields in order.

    Generated, as `dataclass` generates `__init__`: `attrgetter` takes 0.54 us for 25 fields where named ones take 0.22.
    """
    values: Callable[[T], tuple[Any, ...]] = eval(f"lambda record: ({_named(cls)})")
    return values


def copier_of(cls: type[T]) -> Callable[[T], T]:
    """A function that copies an instance of a dataclass, generated likewise."""
    copy: Callable[[T], T] = eval(f"lambda record: cls({_named(cls)})", {"cls": cls})
    return copy


def _named(cls: Any) -> str:
    return "".join(f"record.{it.name}, " for it in fields(cls))

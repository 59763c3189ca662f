"""What one key of pipeline.yaml is. Reading, the JSON Schema and the documentation all follow these definitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

from tpf_streams.dsl.setting import Status

NAME = "[A-Za-z][A-Za-z0-9_]*"
"""Of types and their fields."""


class Kind(StrEnum):
    """How a value is written. The words stand in the documentation."""

    TEXT = "text"
    RAW_TEXT = "text, which may be empty"
    FLAG = "true or false"
    INTEGER = "whole number"
    DURATION = "ISO-8601 duration"
    CHOICE = "one of"
    TEXTS = "list of texts"
    MAPPING = "mapping"
    STEPS = "list of steps"
    FIELDS = "list of [name, type] or [name, type, optional]"
    ARM = "type, or {type: type}"
    SETTINGS = "settings"
    ANY = "anything"


@dataclass(frozen=True, slots=True)
class Key:
    """One key. `default`: what holds where it is left out, as it would be written; `setting`: whose value holds then.

    `missing`: what is said of a required key that is not there. `why`: of a noted or refused one. `table`: the keys of
    a mapping; `variants`: where they depend on the key `by` beside them, the tables by its value.
    """

    kind: Kind
    help: str
    required: bool = False
    missing: str = "missing, and required"
    default: str | None = None
    setting: str = ""
    choices: tuple[str, ...] = ()
    exact: bool = False
    """Whether a choice is told from others by case."""
    minimum: int = 0
    maximum: int = 0
    status: Status = Status.HONOURED
    why: str = ""
    table: Table | None = None
    variants: Variants | None = None

    @property
    def allowed(self) -> str:
        """For the documentation."""
        if self.choices:
            return " | ".join(self.choices)
        if self.kind is Kind.INTEGER:
            return f"{self.minimum} to {self.maximum}"
        return self.kind.value


@dataclass(frozen=True, slots=True)
class Table:
    """The keys of one mapping. `each`: what every other key is, where their names are free, by the pattern `names`.

    `some_of`: groups of which at least one key must be there; `one_of`: groups of which at most one may.
    """

    keys: Mapping[str, Key] = field(default_factory=dict)
    each: Key | None = None
    names: str = ""
    some_of: tuple[tuple[str, ...], ...] = ()
    one_of: tuple[tuple[str, ...], ...] = ()

    def key(self, name: str) -> Key:
        """Raises KeyError for a name that stands in no table: a slip of ours, not of the author."""
        found = self.keys.get(name) or self.each
        if found is None:
            raise KeyError(f"no key {name} in the table of keys")
        return found

    @property
    def known(self) -> list[str]:
        """What an author may write here; what is refused would be no help."""
        return [name for name, key in self.keys.items() if key.status is not Status.REFUSED]


@dataclass(frozen=True, slots=True)
class Variants:
    """Tables that the value of the key `by` chooses between, in any case. `otherwise`: where it is left out."""

    by: str
    tables: Mapping[str, Table]
    otherwise: str | None = None

    def table(self, value: str | None) -> Table:
        """The table that `value` chooses; the first one where it chooses none, which whoever reads `by` tells."""
        wanted = (self.otherwise or "" if value is None else value).lower()
        found = (table for name, table in self.tables.items() if name.lower() == wanted)
        return next(found, next(iter(self.tables.values())))


text = partial(Key, Kind.TEXT)
flag = partial(Key, Kind.FLAG)
duration = partial(Key, Kind.DURATION)
integer = partial(Key, Kind.INTEGER)
texts = partial(Key, Kind.TEXTS)
choice = partial(Key, Kind.CHOICE)
mapping = partial(Key, Kind.MAPPING)


def unused(why: str) -> Key:
    """A key of the reference that is accepted, does nothing here, and is told at start (contract 0.24)."""
    return Key(Kind.ANY, "Accepted, without effect here.", status=Status.NOTED, why=why)


def refused(why: str) -> Key:
    return Key(Kind.ANY, "Refused.", status=Status.REFUSED, why=why)

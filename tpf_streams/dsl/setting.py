"""What one setting is: its type, bounds and fate; and how its text becomes a value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from tpf_streams.dsl.durations import parse_duration_ms, written
from tpf_streams.dsl.naming import snake_case
from tpf_streams.dsl.report import one_of, shown, suggestion

Value: TypeAlias = str | int | float | bool | tuple[str, ...] | None


class Kind(StrEnum):
    TEXT = "text"
    SECRET = "secret"
    SECRETS = "secrets"
    TEXTS = "list"
    FLAG = "true or false"
    INTEGER = "integer"
    NUMBER = "number"
    DURATION = "duration"
    CHOICE = "one of"


class Status(StrEnum):
    """`NOTED`: accepted, does nothing here, and the start-up notes say so."""

    HONOURED = "honoured"
    NOTED = "noted"
    REFUSED = "refused"


class SecretText(str):
    """A secret, which shows itself only to who asks for its characters."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table. `default`, as text, is read like any other value; None: there is none.

    `minimum` and `maximum` are in the unit of the value, milliseconds for a duration. `refused`: value -> why, and what
    does the job here. `why`: for a noted or wholly refused key. `place`: where else in pipeline.yaml it may stand.
    """

    key: str
    kind: Kind
    help: str
    default: str | None = None
    minimum: int = 0
    maximum: int = 2**53
    choices: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    status: Status = Status.HONOURED
    why: str = ""
    place: str = ""

    @property
    def secret(self) -> bool:
        return self.kind in (Kind.SECRET, Kind.SECRETS)

    @property
    def leaves_choice(self) -> bool:
        """With one value allowed there is nothing to read: saying no to the others is all there is to honour."""
        return not (len(self.choices) == 1 or (self.kind is Kind.FLAG and "true" in self.refused))

    @property
    def env_names(self) -> tuple[str, ...]:
        """Upper case, dots and dashes as underscores. Our short names get a prefix: `SYNC` would be anybody's."""
        words = "_".join(snake_case(part) for part in self.key.split(".")).upper()
        plain = re.sub(r"[^A-Za-z0-9]", "_", self.key).upper()
        if self.key.startswith(("pipeline.", "tpf.")):
            return (plain,)
        return (f"TPF_{words}", *((plain,) if "." in self.key else ()))

    def parse(self, text: str) -> Value:
        """The value of `text`. Raises ValueError saying what is allowed; a secret is never repeated."""
        text = text.strip() if not self.secret else text
        refusal = next((why for value, why in self.refused.items() if value.lower() == text.lower()), None)
        if refusal is not None:
            raise ValueError(f"{shown(text)} is refused: {refusal}")
        match self.kind:
            case Kind.FLAG:
                return _flag(text)
            case Kind.INTEGER:
                return _integer(self, text)
            case Kind.NUMBER:
                return _number(self, text)
            case Kind.DURATION:
                return _duration(self, text)
            case Kind.CHOICE:
                return _choice(self, text)
            case Kind.TEXTS | Kind.SECRETS:
                return _texts(self, text)
            case Kind.SECRET:
                return SecretText(text)
            case Kind.TEXT:
                return text

    def bounds(self) -> str:
        """What is allowed, for the table in the documentation."""
        if self.choices:
            return " | ".join(self.choices)
        if self.kind in (Kind.INTEGER, Kind.NUMBER):
            return f"{self.minimum} to {self.maximum}" if self.maximum < 2**53 else f"{self.minimum} or more"
        if self.kind is Kind.DURATION and self.maximum < 2**53:
            return f"{self.minimum} to {self.maximum} ms"
        return self.kind.value


@dataclass(frozen=True, slots=True)
class Family:
    """Keys that share a beginning and a fate. `judged`: their last words -> the setting that judges such a value."""

    prefix: str
    status: Status
    why: str
    judged: Mapping[str, str] = field(default_factory=dict)


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{shown(text)}: true or false is wanted")
    return text.lower() == "true"


def _integer(setting: Setting, text: str) -> int:
    if re.fullmatch(r"-?[0-9]{1,18}", text) is None or not setting.minimum <= int(text) <= setting.maximum:
        raise ValueError(f"{shown(text)}: a whole number is wanted, {setting.bounds()}")
    return int(text)


def _number(setting: Setting, text: str) -> float:
    found = float(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) else -1.0
    if not setting.minimum <= found <= setting.maximum:
        raise ValueError(f"{shown(text)}: a number is wanted, {setting.bounds()}")
    return found


def _duration(setting: Setting, text: str) -> int:
    millis = parse_duration_ms(text)
    if not setting.minimum <= millis <= setting.maximum:
        raise ValueError(f"{shown(text)}: {written(setting.minimum)} to {written(setting.maximum)} is allowed")
    return millis


def _choice(setting: Setting, text: str) -> str:
    for choice in setting.choices:
        if choice.lower() == text.lower():
            return choice
    hint = suggestion(text, setting.choices)
    raise ValueError(f"{shown(text)}: allowed are {one_of(setting.choices)}.{hint}")


def _texts(setting: Setting, text: str) -> tuple[str, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise ValueError("an empty entry; values parted by commas are wanted")
    return tuple(SecretText(part) for part in parts) if setting.secret else tuple(parts)

"""What a simulated provider is told, and the rule by which it refuses and stays silent (contract 12.3)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from math import floor
from typing import Any

KEYS = ("correlation", "none", "constant")
BURST_MAX = 10_000


@dataclass(frozen=True, slots=True)
class ProviderOptions:
    """Probabilities are 0 to 1. Raises ValueError for a value out of bounds, naming it as `--simulate-provider` does.

    reject: answers that refuse. timeout: requests that never get one. delay_ms: from reading to answering.
    permits_per_second: answers a second, None for any number. duplicates: answers that are sent twice.
    key: what keys an answer: the correlation id, nothing, or one word for all. seed: chooses which are sent twice.
    burst: how many answers leave together; fewer do when the first of them has waited a second.
    """

    reject: float = 0.0
    timeout: float = 0.0
    delay_ms: int = 0
    permits_per_second: float | None = None
    duplicates: float = 0.0
    key: str = "correlation"
    seed: int = 0
    burst: int = 1

    def __post_init__(self) -> None:
        for name in ("reject", "timeout", "duplicates"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)}: a probability from 0 to 1 is wanted")
        if self.delay_ms < 0:
            raise ValueError(f"delay-ms={self.delay_ms}: milliseconds from 0 are wanted")
        if self.permits_per_second is not None and not 0 < self.permits_per_second < float("inf"):
            raise ValueError(f"permits-per-second={self.permits_per_second}: a number above 0 is wanted")
        if self.key not in KEYS:
            raise ValueError(f"key={self.key}: allowed are {', '.join(KEYS)}")
        if not 1 <= self.burst <= BURST_MAX:
            raise ValueError(f"burst={self.burst}: 1 to {BURST_MAX} is wanted")


_READ: dict[str, Callable[[str], object]] = {
    "reject": float,
    "timeout": float,
    "delay-ms": int,
    "permits-per-second": float,
    "duplicates": float,
    "key": str,
    "seed": int,
    "burst": int,
}
assert [name.replace("-", "_") for name in _READ] == [field.name for field in fields(ProviderOptions)]


def parse_provider_spec(text: str) -> ProviderOptions:
    """`reject=0.08,delay-ms=5` -> options; a blank text is the defaults. Raises ValueError with the words to show."""
    found: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not sign or name not in _READ:
            raise ValueError(f"{part!r}: name=value is wanted, with one of {', '.join(_READ)}")
        field = name.replace("-", "_")
        if field in found:
            raise ValueError(f"{name} is given twice")
        try:
            found[field] = _READ[name](value)
        except ValueError:
            kind = "whole number" if _READ[name] is int else "number"
            raise ValueError(f"{name}={value}: a {kind} is wanted") from None
    return ProviderOptions(**found)


def load_answer(steps: str) -> tuple[Callable[..., Any], str]:
    """`answer` and `ACTOR` of the module `provider` beside the module `steps` of a pipeline's callables.

    Raises ValueError when there is none.
    """
    name = ".".join([*steps.split(".")[:-1], "provider"])
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        raise ValueError(
            f"there is no module {name} with a function answer(request, options); it stands beside {steps}"
        ) from None
    answer = getattr(module, "answer", None)
    if not callable(answer):
        raise ValueError(f"{name} has no function answer(request, options)")
    return answer, str(getattr(module, "ACTOR", "simulated-provider"))


def ten_thousandths(probability: float) -> int:
    """`probability` as the rule counts it: half rounds up."""
    return floor(probability * 10_000 + 0.5)


def falls(value: str, salt: str, probability: float) -> bool:
    """The reference's simulation rule: whether `value` is among the share `probability` that `salt` names."""
    if probability <= 0:
        return False
    if probability >= 1:
        return True
    mixed = (31 * (31 + java_hash(value)) + java_hash(salt)) & 0xFFFFFFFF
    return mixed % 10_000 < ten_thousandths(probability)


@lru_cache(maxsize=1024)
def java_hash(text: str) -> int:
    """Java's String.hashCode, as an unsigned 32-bit number."""
    result = 0
    for unit in _utf16(text):
        result = (result * 31 + unit) & 0xFFFFFFFF
    return result


def _utf16(text: str) -> Iterable[int]:
    if text.isascii():
        return text.encode()
    units = text.encode("utf-16-be", "surrogatepass")
    return [high << 8 | low for high, low in zip(units[::2], units[1::2], strict=True)]

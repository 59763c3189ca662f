"""What the random histories share: a chooser that is a seed, and the way a difference is told."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Difference(AssertionError):
    """Core and model say different things of the same history; `str` shows the last steps of it."""


class History:
    """One random history: every choice comes from its seed, every step is noted."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self._steps: list[str] = []

    def one(self, choices: Sequence[T]) -> T:
        return self.random.choice(choices)

    def often(self, usual: T, rare: Sequence[T], share: float = 0.75) -> T:
        """Mostly `usual`: a history of nothing but nonsense sees little."""
        return usual if self.random.random() < share else self.random.choice(rare)

    def note(self, step: str) -> None:
        self._steps.append(step)

    def same(self, what: str, core: object, model: object) -> None:
        if core != model:
            steps = "\n  ".join(self._steps[-25:])
            raise Difference(f"seed {self.seed}, {what}:\n core  {core}\n model {model}\nafter\n  {steps}")

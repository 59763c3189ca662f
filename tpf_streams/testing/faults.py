"""Faults on purpose: commits that fail, by a seed or at will, and steps that raise before they work.

    plan = FaultPlan(seed=7, not_held=0.05, held=0.05)
    log = MemoryLog(clock=clock, faults=plan)
    ...
    plan.stop()          # and now everything has to come right
    assert plan.struck   # what has happened: (fault, partition)

To the task both faults look the same, as they do in life: `commit` raised, and nobody says whether the turn holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import wraps
from random import Random
from typing import ParamSpec, TypeVar

from tpf_streams.errors import LogError, RetryableError
from tpf_streams.ports import Turn

P = ParamSpec("P")
R = TypeVar("R")


class CommitFault(StrEnum):
    """What becomes of the turn whose commit raises."""

    NOT_HELD = "not_held"
    """Nothing of it is there."""
    HELD = "held"
    """All of it is there."""


class CommitUnknownError(LogError):
    """A commit whose outcome the caller is not told."""

    code = "COMMIT_UNKNOWN"

    def __init__(self, fault: CommitFault, partition: int) -> None:
        super().__init__(f"the commit of partition {partition} was lost from sight")
        self.fault = fault
        self.partition = partition


class FaultPlan:
    """`faults` of a `MemoryLog`: which commits raise, and whether they hold all the same.

    `not_held`, `held`: probabilities a commit. `at`: the n-th commit from 1 on, counted over all partitions.
    `most`: faults by chance after which there are no more. The same seed and the same commits give the same faults.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        not_held: float = 0.0,
        held: float = 0.0,
        at: Mapping[int, CommitFault] | None = None,
        most: int | None = None,
    ) -> None:
        self.struck: list[tuple[CommitFault, int]] = []
        self.commits = 0
        self._rng = Random(seed)
        self._not_held, self._held = not_held, held
        self._at = dict(at or {})
        self._most = most
        self._armed: dict[int, CommitFault] = {}
        self._pending: CommitFault | None = None

    @property
    def counts(self) -> dict[CommitFault, int]:
        """How often each fault has struck."""
        return dict(Counter(fault for fault, _ in self.struck))

    def arm(self, fault: CommitFault, partition: int) -> None:
        """The next commit of `partition` raises."""
        self._armed[partition] = fault

    def armed(self, partition: int) -> CommitFault | None:
        return self._armed.get(partition)

    def stop(self) -> None:
        """No more faults."""
        self._not_held = self._held = 0.0
        self._at.clear()
        self._armed.clear()

    def before(self, partition: int, turn: Turn) -> None:
        """Called by the log before the turn is applied. Raises CommitUnknownError."""
        self.commits += 1
        self._pending = self._next(partition)
        if self._pending is CommitFault.NOT_HELD:
            self._strike(CommitFault.NOT_HELD, partition)

    def after(self, partition: int, turn: Turn) -> None:
        """Called by the log when the turn holds. Raises CommitUnknownError."""
        if self._pending is CommitFault.HELD:
            self._strike(CommitFault.HELD, partition)

    def _next(self, partition: int) -> CommitFault | None:
        chance = self._rng.random()
        armed = self._armed.pop(partition, None) or self._at.pop(self.commits, None)
        if armed is not None or (self._most is not None and len(self.struck) >= self._most):
            return armed
        if chance < self._not_held:
            return CommitFault.NOT_HELD
        return CommitFault.HELD if chance < self._not_held + self._held else None

    def _strike(self, fault: CommitFault, partition: int) -> None:
        self._pending = None
        self.struck.append((fault, partition))
        raise CommitUnknownError(fault, partition)


def raising(function: Callable[P, R], times: int, error: Exception | None = None) -> Callable[P, R]:
    """`function`, a step say, that raises in its first `times` calls: `error`, or a RetryableError."""
    left = times

    @wraps(function)
    def step(*args: P.args, **kwargs: P.kwargs) -> R:
        nonlocal left
        if left > 0:
            left -= 1
            raise error or RetryableError(f"{getattr(function, '__name__', 'the step')} fails on purpose")
        return function(*args, **kwargs)

    return step

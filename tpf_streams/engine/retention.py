"""When to look for what has been kept long enough (contract 0.18)."""

from __future__ import annotations

from dataclasses import dataclass

from tpf_streams.core.retention import LOOK_AGAIN_MS
from tpf_streams.core.state import State
from tpf_streams.core.step import Limits


@dataclass(slots=True)
class Retention:
    """Asks the store only when something may be due, for a busy task has hundreds of turns a second."""

    soonest_ms: int
    """What is noted from now on is not due before."""
    look_ms: int = 0

    @classmethod
    def of(cls, limits: Limits) -> Retention:
        return cls(min(limits.execution_ttl_ms, limits.identity_ttl_ms, LOOK_AGAIN_MS))

    def due(self, state: State, *, held: bool) -> bool:
        """Whether there is something to delete. `held`: the clock jumped and is not believed yet; days of a wrong date
        would delete what cannot be got back."""
        if held or state.now_ms < self.look_ms:
            return False
        first = state.first_retention_ms()
        if first is not None and first < state.now_ms:
            return True
        later = state.now_ms + self.soonest_ms
        self.look_ms = later if first is None else min(later, first + 1)
        return False

    def put_off(self, now_ms: int) -> None:
        """Deciding it raised. Tried again at once it would raise again, in every turn."""
        self.look_ms = now_ms + LOOK_AGAIN_MS

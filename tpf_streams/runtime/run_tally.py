"""The tally of one run: besides counts, what is in flight and which executions have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from tpf_streams.core.effects import Fact
from tpf_streams.runtime.tally import Tally

_ENDED = "execution.terminal.total"


class RunTally(Tally):
    """Follows the executions it is told of; `moved` is set when one has ended.

    `in_flight`: interactions open now, as far as this process has seen.

    Facts come after the commit that made them true, and slots are given back after that, so `in_flight_max` is never
    above what the window and the budget allow.
    """

    def __init__(self) -> None:
        super().__init__()
        self.in_flight_max = 0
        self.following: set[str] = set()
        self.moved = asyncio.Event()
        self._open_before = 0

    @property
    def in_flight(self) -> int:
        ended = self["completion.admitted.total"] + self["interaction.ended.total"]
        return max(0, self._open_before + self["interaction.created.total"] - ended)

    @property
    def settled(self) -> int:
        """Answers admitted so far."""
        return self["completion.admitted.total"]

    def opened(self, open_interactions: int) -> None:
        """What an earlier process left open."""
        self._open_before = self.in_flight_max = open_interactions

    def follow(self, execution_ids: Iterable[str]) -> None:
        self.following.update(execution_ids)

    def ended(self, execution_id: str) -> None:
        self.following.discard(execution_id)
        self.moved.set()

    def observe(self, facts: Sequence[Fact]) -> None:
        super().observe(facts)
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        for fact in facts:
            if fact.name == _ENDED:
                self.ended(str(fact.ids.get("executionId")))

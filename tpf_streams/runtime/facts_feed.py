"""Counts of facts on their way from the engine's thread to whoever keeps metrics in another."""

from __future__ import annotations

from collections import Counter

from tpf_streams.runtime.tally import Tally

PREFIX = "tpf.await."


class FactsFeed(Tally):
    """The engine's thread counts, another one takes. A copy of a counter is made in one step, so no lock is needed."""

    def __init__(self) -> None:
        super().__init__()
        self._taken: Counter[str] = Counter()

    def take(self) -> Counter[str]:
        """What has been counted since the last call, by full name (contract 10.1)."""
        counted = self.facts.copy()
        new = counted - self._taken
        self._taken = counted
        return Counter({PREFIX + name: count for name, count in new.items()})

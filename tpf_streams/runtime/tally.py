"""Counting facts: what `run` reports and tests compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tpf_streams.core.effects import Fact
from tpf_streams.ports import Observer


class Observers:
    """Several observers in one."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def observe(self, facts: Sequence[Fact]) -> None:
        for observer in self._observers:
            observer.observe(facts)


class Tally:
    """Observer. Facts by name, and drops by reason; of this process, since it began."""

    def __init__(self) -> None:
        self.facts: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()

    def observe(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            self.facts[fact.name] += fact.count
            if fact.name == "completion.dropped.total":
                self.dropped[fact.labels.get("reason", "unknown")] += fact.count

    def __getitem__(self, name: str) -> int:
        """The count of a fact, by its name with or without `tpf.await.` (contract 10.1)."""
        return self.facts[name.removeprefix("tpf.await.")]

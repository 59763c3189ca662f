"""The metrics of one application: an Observer of its facts, and what a scrape reads.

A scrape comes from another thread than the facts; every value has a lock of its own, so neither waits for the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram

from tpf_streams.core.effects import Fact
from tpf_streams.core.step import PipelineDefinition
from tpf_streams.observability.catalogue import (
    COUNTERS,
    HISTOGRAMS,
    LABELS,
    LATENCY_MS,
    SLOT_OUTCOME,
    SLOT_OUTCOMES,
    FactCounter,
    FactHistogram,
    metric_name,
)
from tpf_streams.observability.labels import LabelValues
from tpf_streams.observability.measures import Measures

M = TypeVar("M", Counter, Histogram)


class Metrics:
    """Counts facts into `registry`. Never raises for what a fact says."""

    def __init__(self, definition: PipelineDefinition, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._values = LabelValues(definition)
        self._counters = {spec.fact: self._counter(spec) for spec in COUNTERS}
        self.measures = Measures(definition, registry)
        self._outcomes = self._counter(SLOT_OUTCOME)
        self._histograms = {spec.fact: self._histogram(spec) for spec in HISTOGRAMS}

    def observe(self, facts: Sequence[Fact]) -> None:
        """Count a turn's facts: those of one name and labels at once, for an item of a stream has seven of them."""
        counted: dict[tuple[str, int], int] = {}
        values: dict[tuple[str, int], list[float]] = {}
        labels: dict[int, Mapping[str, str]] = {}
        for fact in facts:
            # A step's facts share its labels, so that identity tells them apart well enough while `facts` holds them.
            key = fact.name, id(fact.labels) if fact.labels else 0
            if key in counted:
                counted[key] += fact.count
            else:
                counted[key] = fact.count
                labels[key[1]] = fact.labels
            timed = self._histograms.get(fact.name)
            if timed is not None:
                values.setdefault(key, []).append(timed.value(fact))
        for (name, place), count in counted.items():
            self._count(name, labels[place], count)
        for (name, place), found in values.items():
            self._histograms[name].add(labels[place], found)

    def _count(self, name: str, labels: Mapping[str, str], count: int) -> None:
        outcome = SLOT_OUTCOMES.get(name)
        if outcome is not None and labels.get("step_id") in self._values.budgeted:
            self._outcomes.add({**labels, "outcome": outcome}, count)
        counter = self._counters.get(name)
        if counter is not None:
            counter.add(labels, count)
        elif outcome is None:
            self._unlisted(name).add(labels, count)

    def _counter(self, spec: FactCounter) -> _FactCounter:
        made = Counter(spec.name, spec.help, [LABELS[name] for name in spec.labels], registry=self.registry)
        return _FactCounter(spec, made, self._values)

    def _histogram(self, spec: FactHistogram) -> _FactHistogram:
        labels = [LABELS[name] for name in spec.labels]
        made = Histogram(spec.name, spec.help, labels, registry=self.registry, buckets=LATENCY_MS)
        return _FactHistogram(spec, made, self._values)

    def _unlisted(self, name: str) -> _FactCounter:
        """A fact that has no place in the catalogue yet is counted all the same, without labels."""
        found = self._counters[name] = self._counter(FactCounter(name, f"Facts of {metric_name(name)}."))
        return found


class _Series(Generic[M]):
    """The series of one metric, found by the labels of a fact. Those of a step's own labels are found at once: a turn
    may hold one item, and then nothing is left to be added up."""

    def __init__(self, spec: FactCounter | FactHistogram, metric: M, values: LabelValues) -> None:
        self._spec = spec
        self._metric: M = metric
        self._values = values
        self._found: dict[int, M] = {}

    def __getitem__(self, labels: Mapping[str, str]) -> M:
        found = self._found.get(id(labels))
        if found is None:
            values = self._values.of(self._spec.labels, {**self._spec.constant, **labels})
            found = self._metric.labels(*values) if values else self._metric
            if id(labels) in self._values.shared:
                self._found[id(labels)] = found
        return found


class _FactCounter:
    """One counter of facts."""

    def __init__(self, spec: FactCounter, counter: Counter, values: LabelValues) -> None:
        self._series = _Series(spec, counter, values)
        if "status" in spec.constant:
            for step in values.steps:
                self.add({"step_id": step}, 0)  # so that a rate has a zero to begin at

    def add(self, labels: Mapping[str, str], count: int) -> None:
        self._series[labels].inc(count)


class _FactHistogram:
    """One histogram, of a value in the facts of one name."""

    def __init__(self, spec: FactHistogram, histogram: Histogram, values: LabelValues) -> None:
        self._series = _Series(spec, histogram, values)
        self._name = spec.value

    def value(self, fact: Fact) -> float:
        """In milliseconds; 0 where the fact has none."""
        found = fact.ids.get(self._name)
        return found if isinstance(found, int | float) else 0

    def add(self, labels: Mapping[str, str], found: Iterable[float]) -> None:
        observe = self._series[labels].observe
        for value in found:
            if value > 0:
                observe(value)

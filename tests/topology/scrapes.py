"""A scrape, read by the client library's own parser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

_PREFIX = "tpf.await."


def prometheus_name(name: str) -> str:
    """`tpf.await.a.b`, or a fact's name without the prefix, as a scrape has it."""
    return (_PREFIX + name.removeprefix(_PREFIX)).replace(".", "_")


def told(facts: Mapping[str, int]) -> Counter[str]:
    """Counts of facts by their names in a scrape, where every step has a budget. Those of slots are outcomes there, and
    so is the taking of one."""
    counts = Counter({name.removeprefix(_PREFIX): count for name, count in facts.items()})
    slots = {name: count for name, count in counts.items() if name.startswith("slot.")}
    counts["admission.outcomes.total"] = counts["interaction.created.total"] + sum(slots.values())
    return +Counter({prometheus_name(name): count for name, count in counts.items() if name not in slots})


class Scrape:
    """`families`: by the name in a scrape; a counter's without `_total`."""

    def __init__(self, text: str) -> None:
        self.families: Mapping[str, Metric] = {family.name: family for family in text_string_to_metric_families(text)}
        self._samples: dict[str, list[Sample]] = {}
        for family in self.families.values():
            for sample in family.samples:
                self._samples.setdefault(sample.name, []).append(sample)

    def samples(self, name: str) -> list[Sample]:
        return self._samples.get(prometheus_name(name), [])

    def total(self, name: str, **labels: str) -> float:
        """The sum over all series of a counter that have these labels."""
        wanted = {prometheus_name(label) if label != "le" else label: value for label, value in labels.items()}
        return sum(it.value for it in self.samples(name) if wanted.items() <= it.labels.items())

    def value(self, name: str) -> float:
        """The sum over all series of a name as it stands in the scrape."""
        return sum(it.value for it in self._samples[name])

    def facts(self) -> Counter[str]:
        """Every counter by its fact's name, where it counted any."""
        counters = [it for it in self._samples if it.startswith(prometheus_name("")) and it.endswith("_total")]
        return +Counter({name: int(sum(it.value for it in self._samples[name])) for name in counters})

    def labels(self, name: str) -> list[dict[str, str]]:
        return [it.labels for it in self.samples(name) if it.value]

    def quantile(self, name: str, share: float) -> float:
        """As Prometheus reckons it: evenly spread in the bucket where the share lies."""
        buckets = self._buckets(name)
        wanted, below, low = share * buckets[-1][1], 0.0, 0.0
        for bound, count in buckets:
            if count >= wanted:
                return low + (bound - low) * (wanted - below) / (count - below)
            low, below = bound, count
        raise AssertionError("an empty histogram")

    def overflow_share(self, name: str) -> float:
        buckets = self._buckets(name)
        return 1 - buckets[-2][1] / buckets[-1][1]

    def _buckets(self, name: str) -> list[tuple[float, float]]:
        counts: Counter[float] = Counter()
        for sample in self.samples(f"{name}.bucket"):
            counts[float(sample.labels["le"])] += int(sample.value)
        return sorted(counts.items())

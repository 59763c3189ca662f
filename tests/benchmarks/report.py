"""The arithmetic of the benchmarks, and the tables they print. Nothing here measures."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from math import ceil
from typing import Any

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Sample:
    """One run. Latency: from the append of an answer to the return of the commit that settles it."""

    items_per_s: float
    cpu_us: float
    p50_ms: float
    p99_ms: float
    peak_mib: float

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Sample:
        """From what a child process reports."""
        items = found["items"]
        latency_ms = found["latency_ms"]
        return cls(
            items / found["seconds"],
            found["cpu_s"] / items * 1e6,
            latency_ms["p50"],
            latency_ms["p99"],
            found["peak_bytes"] / MIB,
        )


def medians(samples: Sequence[Sample]) -> Sample:
    """Each figure's own median; they need not come from one run."""
    return Sample(*(statistics.median(column) for column in zip(*map(astuple, samples), strict=True)))


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all values do not exceed (nearest rank). Raises ValueError without values."""
    if not values:
        raise ValueError("nothing was measured")
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


def latencies_s(appended_s: Sequence[float], settled_s: Mapping[int, float]) -> list[float]:
    """How long each answer waited. `appended_s` by the answer's offset, `settled_s` for offset.

    Raises ValueError when they do not match: a figure that leaves answers out is no figure.
    """
    missing = len(appended_s) - len(settled_s)
    if missing or not all(0 <= offset < len(appended_s) for offset in settled_s):
        raise ValueError(f"{len(appended_s)} answers were appended, {len(settled_s)} were settled")
    found = [settled_s[offset] - moment for offset, moment in enumerate(appended_s)]
    if any(wait < 0 for wait in found):
        raise ValueError("an answer was settled before it was appended")
    return found


def latency_summary(waits_s: Sequence[float]) -> dict[str, float]:
    return {"p50": percentile(waits_s, 0.5) * 1e3, "p99": percentile(waits_s, 0.99) * 1e3, "max": max(waits_s) * 1e3}


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells under a first row of headings: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(_cell, row, widths, range(len(row)))) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def _cell(text: str, width: int, column: int) -> str:
    return text.ljust(width) if column == 0 else text.rjust(width)


def verdict(what: str, holds: bool) -> str:
    return f"{'yes' if holds else 'NO '}  {what}"

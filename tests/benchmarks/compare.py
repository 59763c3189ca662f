"""Ours beside the bare loop: the same work, in turn, so that a busy moment of the machine hits both."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.benchmarks.measure import run_child
from tests.benchmarks.payments import write_payments
from tests.benchmarks.report import Sample, medians, table
from tests.benchmarks.work import Work

AT_LEAST_PER_S, AIM_PER_S = 3_000, 8_000

_UNITS = (
    ("items/s", ",.0f"),
    ("CPU µs an item", ",.0f"),
    ("p50 ms", ",.1f"),
    ("p99 ms", ",.1f"),
    ("peak RSS MiB", ",.0f"),
)


def compare(rows: int, runs: int, directory: Path) -> dict[str, Any]:
    """Count the work once, then run ours and bare in turn. Prints as it goes; the figures for JSON."""
    payments = write_payments(directory / "payments.csv", rows)
    like = directory / "work.json"
    counted = _ours(payments, rows, directory, "work")["work"]
    like.write_text(json.dumps(counted))
    bare_counted = _bare(payments, rows, directory, like, "--count")["work"]
    found: dict[str, list[dict[str, Any]]] = {"ours": [], "bare": []}
    loads = [os.getloadavg()]
    for number in range(runs):
        found["ours"].append(_ours(payments, rows, directory, "latency"))
        found["bare"].append(_bare(payments, rows, directory, like))
        loads.append(os.getloadavg())
        rates = ", ".join(f"{name} {Sample.of(its[-1]).items_per_s:,.0f}" for name, its in found.items())
        print(f"run {number + 1} of {runs}: {rates} items/s, load {loads[-1][0]:.1f}", file=sys.stderr)
    samples = {name: [Sample.of(it) for it in its] for name, its in found.items()}
    middle = {name: medians(its) for name, its in samples.items()}
    _print(rows, samples, middle, loads)
    _print_work(rows, {"ours": counted, "bare": bare_counted})
    return {
        "rows": rows,
        "runs": {name: [_plain(it) for it in its] for name, its in samples.items()},
        "medians": {name: _plain(it) for name, it in middle.items()},
        "ratio": middle["ours"].items_per_s / middle["bare"].items_per_s,
        "reported_items_per_s": [it["result"]["items_per_s"] for it in found["ours"]],
        "work": {"ours": counted, "bare": bare_counted},
        "load": [loads[0], loads[-1]],
    }


def _ours(payments: Path, rows: int, directory: Path, hear: str) -> dict[str, Any]:
    with TemporaryDirectory(dir=directory) as work:
        found = run_child("ours", payments, "--work", work, "--hear", hear)
    result = found["result"]
    if result["completed"] != rows or result["executions"] != {"SUCCEEDED": 1}:
        sys.exit(f"ours did not do its work: {result}")
    return found


def _bare(payments: Path, rows: int, directory: Path, like: Path, *more: str) -> dict[str, Any]:
    with TemporaryDirectory(dir=directory) as work:
        return run_child("bare", payments, "--rows", str(rows), "--like", like, "--work", work, *more)


def _plain(sample: Sample) -> dict[str, float]:
    return {name: round(getattr(sample, name), 3) for name in Sample.__slots__}


def _print(
    rows: int,
    samples: Mapping[str, Sequence[Sample]],
    middle: Mapping[str, Sample],
    loads: Sequence[tuple[float, float, float]],
) -> None:
    ours, bare = middle["ours"], middle["bare"]
    lines = [["", "ours", "bare", "ours/bare", "ours, least to most", "bare, least to most"]]
    for name, (unit, form) in zip(Sample.__slots__, _UNITS, strict=True):
        mine, theirs = getattr(ours, name), getattr(bare, name)
        ratio = f"{mine / theirs:.2f}"
        lines.append([unit, format(mine, form), format(theirs, form), ratio, *_ranges(samples, name, form)])
    print(f"\ncsv_payments, {rows:,} rows, sync: commit, window 250; medians of {len(samples['ours'])}\n")
    print(table(lines))
    print(f"\nload average {loads[0][0]:.2f} before, {loads[-1][0]:.2f} after; the aim is {AIM_PER_S:,} items/s,")
    reached = "reached" if ours.items_per_s >= AT_LEAST_PER_S else "NOT reached"
    print(f"at least {AT_LEAST_PER_S:,}: {reached}. p50, p99: append of an answer to the return of its commit.")


def _ranges(samples: Mapping[str, Sequence[Sample]], name: str, form: str) -> list[str]:
    columns = [[getattr(it, name) for it in samples[side]] for side in ("ours", "bare")]
    return [f"{min(column):{form}} to {max(column):{form}}" for column in columns]


def _print_work(rows: int, counted: Mapping[str, Any]) -> None:
    totals = {name: Work.of(it).totals() for name, it in counted.items()}
    lines = [["asked of the store, an item", "ours", "bare"]]
    for what in totals["ours"]:
        lines.append([what, *(f"{totals[side][what] / rows:,.4g}" for side in ("ours", "bare"))])
    print()
    print(table(lines))

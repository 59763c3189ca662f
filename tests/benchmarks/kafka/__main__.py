"""Ours beside a raw closed loop and beside plain Faust, on one broker, in turn."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.benchmarks.kafka import ours, plain
from tests.benchmarks.measure import SECRET, machine
from tests.benchmarks.payments import ROOT
from tests.benchmarks.report import Sample, medians, table
from tests.e2e.program import SECRET as A_SECRET
from tests.integration.kafka_broker import KraftBroker

AT_LEAST_PER_S, P99_MS = 2_500, 200
BOOTSTRAP = "TPF_TEST_BOOTSTRAP_SERVERS"


@contextmanager
def running_broker() -> Iterator[tuple[str, int | None]]:
    if given := os.environ.get(BOOTSTRAP):
        yield given, None
        return
    with KraftBroker() as broker:
        yield broker.bootstrap_servers, broker.nodes[0].pid


def main() -> None:
    given = _arguments()
    os.environ.setdefault(SECRET, A_SECRET)
    given.dir.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="tpf-bench-", dir=given.dir) as name, running_broker() as (bootstrap, pid):
        folder = Path(name)
        about = machine(folder)
        print(f"{about['cpus']} CPUs, Python {about['python']}, load average {about['load'][0]:.2f}")
        report: dict[str, Any] = {"machine": about}
        for rows in given.rows:
            report[str(rows)] = _compare(bootstrap, pid, rows, given.runs, folder)
        if given.plain:
            report["plain"] = _plain(bootstrap, given.plain, folder)
    if given.json:
        given.json.write_text(json.dumps(report, indent=2) + "\n")


def _compare(bootstrap: str, pid: int | None, rows: int, runs: int, folder: Path) -> dict[str, Any]:
    found: dict[str, list[dict[str, Any]]] = {"ours": [], "raw": []}
    for number in range(runs):
        with TemporaryDirectory(dir=folder) as name:
            found["ours"].append(asyncio.run(ours.run(bootstrap, pid, rows, Path(name))))
        found["raw"].append(ours.raw(bootstrap, rows))
        rates = ", ".join(f"{name} {Sample.of(its[-1]).items_per_s:,.0f}" for name, its in found.items())
        print(f"run {number + 1} of {runs}: {rates} items/s, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    middle = {name: medians([Sample.of(it) for it in its]) for name, its in found.items()}
    _print(rows, runs, found, middle)
    return found


def _print(rows: int, runs: int, found: dict[str, list[dict[str, Any]]], middle: dict[str, Sample]) -> None:
    mine, raw = middle["ours"], middle["raw"]
    lines = [["", "ours", "raw", "ours/raw"]]
    for label, field, form in (
        ("items/s", "items_per_s", ",.0f"),
        ("CPU µs an item", "cpu_us", ",.0f"),
        ("p50 ms", "p50_ms", ",.1f"),
        ("p99 ms", "p99_ms", ",.1f"),
    ):
        a, b = getattr(mine, field), getattr(raw, field)
        lines.append([label, format(a, form), format(b, form), f"{a / b:.2f}"])
    print(f"\ncsv_payments on Kafka, {rows:,} rows, window 250; medians of {runs}\n")
    print(table(lines))
    for name in found["ours"][0]["cpu_us"]:
        middle_us = statistics.median(it["cpu_us"][name] for it in found["ours"])
        print(f"CPU µs an item of the {name}: {middle_us:,.0f}")
    rates = [Sample.of(it).items_per_s for it in found["ours"]]
    print(f"ours from {min(rates):,.0f} to {max(rates):,.0f} items/s, load average {os.getloadavg()[0]:.2f}")
    reached = "reached" if mine.items_per_s >= AT_LEAST_PER_S and mine.p99_ms < P99_MS else "NOT reached"
    print(f"at least {AT_LEAST_PER_S:,} items/s and p99 under {P99_MS} ms: {reached}")


def _plain(bootstrap: str, rows: int, folder: Path) -> list[dict[str, Any]]:
    found = []
    for _ in range(3):
        with TemporaryDirectory(dir=folder) as name:
            found.append(asyncio.run(plain.run(bootstrap, rows, Path(name))))
    middle = medians([Sample.of(it) for it in found])
    print(
        f"\nplain Faust, {rows:,} rows, medians of 3: {middle.items_per_s:,.0f} items/s, "
        f"{middle.cpu_us:,.0f} µs CPU an item, p50 {middle.p50_ms:,.1f} ms, p99 {middle.p99_ms:,.1f} ms"
    )
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.kafka", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 50_000])
    parser.add_argument("--runs", type=int, default=5, help="runs of each side; medians are shown")
    parser.add_argument("--plain", type=int, default=2_000, metavar="ROWS", help="rows of plain Faust; 0: none")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--dir", type=Path, default=ROOT / ".cache", help="where data goes")
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""What metrics and lifecycle cost: csv-payments with both and without, in turn: `python -m tests.benchmarks.telemetry`.

Pairs of runs, each one beginning where the other ended, so that a slow hour of the machine hits both. Ends with 1 where
the rate with both is under 85 % of that without.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.benchmarks.kafka import ours as on_kafka
from tests.benchmarks.kafka.__main__ import running_broker
from tests.benchmarks.measure import SECRET, machine, run_child
from tests.benchmarks.payments import ROOT, write_payments
from tests.benchmarks.report import table
from tests.e2e.program import SECRET as A_SECRET

AT_LEAST = 0.85
OFF = "pipeline.telemetry.enabled"
Run = Callable[[bool], tuple[float, float]]
"""Whether metrics and lifecycle are on -> items a second, and CPU µs of ours an item."""


def main() -> None:
    given = _arguments()
    os.environ.setdefault(SECRET, A_SECRET)
    given.dir.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {}
    with TemporaryDirectory(prefix="tpf-bench-", dir=given.dir) as name, ExitStack() as stack:
        folder = Path(name)
        report["machine"] = about = machine(folder)
        print(f"{about['cpus']} CPUs, Python {about['python']}, load average {about['load'][0]:.2f}")
        if "local" in given.log:
            report["local"] = compare("the local log", local(given.rows, folder), given.pairs)
        if "kafka" in given.log:
            broker, pid = stack.enter_context(running_broker())
            report["kafka"] = compare("Kafka", kafka(broker, pid, given.rows, folder), given.pairs)
    if given.json:
        given.json.write_text(json.dumps(report, indent=2) + "\n")
    sys.exit(0 if all(report[log]["ratio"] >= AT_LEAST for log in given.log) else 1)


def local(rows: int, folder: Path) -> Run:
    payments = write_payments(folder / "payments.csv", rows)

    def run(on: bool) -> tuple[float, float]:
        with TemporaryDirectory(dir=folder) as work:
            words = ["--metrics"] if on else ["--set", f"{OFF}=false"]
            found = run_child("ours", payments, "--work", work, *words)
        assert found["result"]["completed"] == rows, found["result"]
        return rows / found["seconds"], found["cpu_s"] / rows * 1e6

    return run


def kafka(broker: str, pid: int | None, rows: int, folder: Path) -> Run:
    def run(on: bool) -> tuple[float, float]:
        settings = {} if on else {OFF: "false"}
        with TemporaryDirectory(dir=folder) as work:
            found = asyncio.run(on_kafka.run(broker, pid, rows, Path(work), settings=settings))
        return rows / found["seconds"], found["cpu_s"] / rows * 1e6

    return run


def compare(where: str, run: Run, pairs: int) -> dict[str, Any]:
    """Medians of both sides, and of the ratio in each pair."""
    rates: dict[bool, list[float]] = {True: [], False: []}
    cpu_us: dict[bool, list[float]] = {True: [], False: []}
    for number in range(pairs):
        for on in (True, False) if number % 2 else (False, True):
            rate, cpu = run(on)
            rates[on].append(rate)
            cpu_us[on].append(cpu)
        ratio, load = rates[True][-1] / rates[False][-1], os.getloadavg()[0]
        print(f"{where}, pair {number + 1} of {pairs}: on / off {ratio:.3f}, load {load:.1f}", file=sys.stderr)
    ratios = [on / off for on, off in zip(rates[True], rates[False], strict=True)]
    ratio = statistics.median(ratios)
    lines = [[f"on {where}", "items/s", "least", "most", "CPU µs an item"]]
    for name, on in (("metrics and lifecycle", True), ("neither", False)):
        found = statistics.median(rates[on]), min(rates[on]), max(rates[on]), statistics.median(cpu_us[on])
        lines.append([name, *(format(it, ",.0f") for it in found)])
    of_cpu = statistics.median(cpu_us[False]) / statistics.median(cpu_us[True])
    lines.append(["ratio", *(format(it, ".3f") for it in (ratio, min(ratios), max(ratios), of_cpu))])
    print(f"\n{table(lines)}\nat least {AT_LEAST}: {'reached' if ratio >= AT_LEAST else 'NOT reached'}\n")
    return {"on": rates[True], "off": rates[False], "ratios": ratios, "ratio": ratio, "cpu_ratio": of_cpu}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.telemetry", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000, help="rows of each run")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each side; medians are shown")
    parser.add_argument("--log", nargs="+", choices=["local", "kafka"], default=["local", "kafka"])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--dir", type=Path, default=ROOT / ".cache", help="where data goes: a disk")
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""Figures of this machine: `python -m tests.benchmarks`. See also `python -m tests.benchmarks.trace`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.benchmarks.compare import compare
from tests.benchmarks.measure import machine
from tests.benchmarks.payments import ROOT, WINDOW
from tests.benchmarks.sizes import DEFAULT_ROWS, sizes
from tests.benchmarks.window import window


def main() -> None:
    given = _arguments()
    given.dir.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {}
    fine = True
    with TemporaryDirectory(prefix="tpf-bench-", dir=given.dir) as name:
        directory = Path(name)
        report["machine"] = about = machine(directory)
        print(
            f"{about['cpus']} CPUs, Python {about['python']}, {about['filesystem']}, "
            f"a sync of 4 KiB takes {about['sync_ms']:.2f} ms, load average {about['load'][0]:.2f}"
        )
        if given.compare:
            report["compare"] = compare(given.rows, given.runs, directory)
        if given.sizes is not None:
            report["sizes"], within = sizes(given.sizes or list(DEFAULT_ROWS), directory)
            fine = fine and within
        if given.window:
            report["window"], held = window(given.window_rows, directory)
            fine = fine and held
    if given.json:
        given.json.write_text(json.dumps(report, indent=2) + "\n")
    sys.exit(0 if fine else 1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description="Ours beside a bare loop; with --sizes or --window those sections instead, with --all everything. "
        "Ends with 1 when memory or window are out of bounds; a rate is only reported.",
    )
    parser.add_argument("--rows", type=int, default=10_000, help="rows of each run of the comparison")
    parser.add_argument("--runs", type=int, default=5, help="runs of each side; medians are shown")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--sizes", type=int, nargs="*", metavar="ROWS", help="peak memory; default: 10000 100000")
    parser.add_argument("--window", action="store_true", help="open requests with a slow provider")
    parser.add_argument("--window-rows", type=int, default=1_500, metavar="ROWS", help="rows of each file there")
    parser.add_argument("--all", action="store_true")
    parser.add_argument(
        "--dir", type=Path, default=ROOT / ".cache", help="where data goes: a disk, for on tmpfs a sync costs nothing"
    )
    given = parser.parse_args()
    if given.rows < WINDOW or given.runs < 1 or given.window_rows < 2 * WINDOW or min(given.sizes or [1]) < 1:
        parser.error(f"at least 1 run, {WINDOW} rows, and {2 * WINDOW} rows for --window")
    given.compare = given.all or (given.sizes is None and not given.window)
    if given.all:
        given.window, given.sizes = True, given.sizes or []
    return given


if __name__ == "__main__":
    main()

"""The window: with a slow provider the number of open requests comes near it and never passes it."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.benchmarks.measure import run_child
from tests.benchmarks.payments import WINDOW, write_payments
from tests.benchmarks.report import table, verdict

REACHED = 240
DELAY_MS = 200


def window(rows: int, directory: Path) -> tuple[dict[str, Any], bool]:
    """One file of `rows`, then three of them side by side; the figures, and whether the window held."""
    lines = [["files", "rows", "most at the provider", "most on the way", "most by the run's own count", "s"]]
    held: dict[str, bool] = {}
    found: dict[str, Any] = {}
    for files in (1, 3):
        it = _run(files, rows, directory)
        most, own = it["open_max"], it["result"]["in_flight_max"]
        figures = [f"{rows * files:,}", str(most["at_provider"]), str(most["on_the_way"]), str(own)]
        lines.append([str(files), *figures, f"{it['seconds']:.1f}"])
        held |= {
            f"{files} file(s): {most['at_provider']} open at the provider, {REACHED} to {WINDOW}": (
                REACHED <= most["at_provider"] <= WINDOW
            ),
            f"{files} file(s): {most['on_the_way']} from dispatch to admission, at most {WINDOW}": (
                most["on_the_way"] <= WINDOW
            ),
            f"{files} file(s): nothing open at the end": it["open_at_end"] == 0,
        }
        found[str(files)] = {**most, "in_flight_max": own}
    print(f"\nwindow {WINDOW}, the provider answers after {DELAY_MS} ms\n")
    print(table(lines))
    for what, holds in held.items():
        print(verdict(what, holds))
    return found, all(held.values())


def _run(files: int, rows: int, directory: Path) -> dict[str, Any]:
    with TemporaryDirectory(dir=directory) as work:
        paths = [
            write_payments(Path(work) / f"payments_{number}.csv", rows, first=1 + number * rows)
            for number in range(files)
        ]
        given = ["--provider", f"delay-ms={DELAY_MS}", "--set", f"pipeline.max-concurrency={WINDOW}"]
        found = run_child("ours", *paths, "--work", work, "--hear", "window", *given)
    if found["result"]["completed"] != rows * files:
        sys.exit(f"ours did not do its work: {found['result']}")
    return found

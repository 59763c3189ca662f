"""Peak memory by the length of the file: it must not grow with it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.benchmarks.measure import run_child
from tests.benchmarks.payments import write_payments
from tests.benchmarks.report import MIB, table, verdict

DEFAULT_ROWS = (10_000, 100_000)
PEAK_MAX_MIB, GROWTH_MAX_MIB = 250, 30


def sizes(rows: list[int], directory: Path) -> tuple[dict[str, Any], bool]:
    """Run each number of rows once, in a process of its own; the figures, and whether they are within bounds."""
    peaks: dict[int, float] = {}
    lines = [["rows", "peak RSS MiB", "items/s"]]
    said = ""
    for count in rows:
        with TemporaryDirectory(dir=directory) as work:
            payments = write_payments(Path(work) / "payments.csv", count)
            found = run_child("ours", payments, "--work", work)
        if found["result"]["completed"] != count:
            sys.exit(f"ours did not do its work: {found['result']}")
        said = found["said"]
        peaks[count] = found["peak_bytes"] / MIB
        lines.append([f"{count:,}", f"{peaks[count]:,.1f}", f"{count / found['seconds']:,.0f}"])
    growth, most = peaks[rows[-1]] - peaks[rows[0]], max(peaks.values())
    print("\nmemory by length of the file\n")
    print(table(lines))
    memory = re.search(r"RocksDB memory.*", said)
    print(memory[0] if memory else "RocksDB's memory settings were not printed")
    held = {
        f"peak {most:,.1f} MiB, under {PEAK_MAX_MIB}": most < PEAK_MAX_MIB,
        f"{growth:+,.1f} MiB from {rows[0]:,} to {rows[-1]:,} rows, at most +{GROWTH_MAX_MIB}": growth
        <= GROWTH_MAX_MIB,
        "RocksDB's memory settings are printed by the run": memory is not None,
    }
    for what, holds in held.items():
        print(verdict(what, holds))
    return {"peak_mib": peaks, "growth_mib": growth}, all(held.values())

"""Durability, seen from outside: a run under strace, and whether any effect came before the sync of its turn.

`python -m tests.benchmarks.trace`. The run writes marks into the trace by harmless system calls (`marks.py`); the syncs
are the kernel's own word. `--sync interval` is the control: the same check has to find effects before their sync.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.measure import CHILD_TIMEOUT_S, child_command, child_environment
from tests.benchmarks.payments import ROOT, write_payments
from tests.benchmarks.report import verdict
from tests.benchmarks.syscalls import SYSCALLS, Findings, calls, judge

SHOWN_MAX = 10


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.trace", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--sync", choices=("commit", "interval"), default="commit")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="keep the trace there")
    parser.add_argument("--dir", type=Path, default=ROOT / ".cache", help="where data goes")
    given = parser.parse_args()
    strace = shutil.which("strace")
    if strace is None:
        print("strace is not installed (Debian: apt-get install strace); nothing was traced", file=sys.stderr)
        sys.exit(2)
    given.dir.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="tpf-trace-", dir=given.dir) as name:
        trace = given.keep or Path(name) / "trace"
        _run(strace, Path(name), trace, given.rows, given.sync)
        with trace.open(encoding="utf-8", errors="replace") as lines:
            findings = judge(calls(lines), str(Path(name) / "out"), given.rows)
    _print(findings, given.sync)
    sys.exit(1 if findings.problems else 0)


def _run(strace: str, directory: Path, trace: Path, rows: int, sync: str) -> None:
    """-f: all threads. -y: descriptors with their paths. -s: as much of a write as a mark needs."""
    payments = write_payments(directory / "payments.csv", rows)
    run = child_command("ours", [payments, "--work", directory, "--hear", "marks", "--set", f"sync={sync}"])
    command = [strace, "-f", "-y", "-s", "80", "-e", f"trace={SYSCALLS}", "-o", str(trace), *run]
    done = subprocess.run(
        command, cwd=ROOT, env=child_environment(), capture_output=True, text=True, timeout=CHILD_TIMEOUT_S
    )
    if done.returncode != 0:
        sys.exit(f"the traced run ended with {done.returncode}:\n{done.stderr[-4000:]}")


def _print(findings: Findings, sync: str) -> None:
    counts = {
        "turns committed": findings.turns,
        "fewest syncs between the write of a turn and the return of its commit": findings.fewest_syncs,
        "syncs of the journal, from the first turn to the last": findings.syncs,
        "of them those that made turns durable (turns side by side share one)": findings.syncs_of_turns,
        "requests that the provider saw": findings.requests_seen,
        "output files that got their name": findings.files,
        "effects before the sync of their turn": len(findings.problems),
    }
    print(f"csv_payments under strace, sync: {sync}")
    for what, count in counts.items():
        print(f"  {what:<72}{count:>8,}")
    for problem in findings.problems[:SHOWN_MAX]:
        print(f"    {problem}")
    print(verdict("at least one sync a turn, and no effect before it", not findings.problems))
    if sync == "interval":
        print("this is the control: with an interval the answer has to be NO")


if __name__ == "__main__":
    main()

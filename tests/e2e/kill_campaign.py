"""The acceptance's campaign: one run, killed many times at random moments, and what came of it as JSON.

    python -m tests.e2e.kill_campaign --rows 10000 --kills 20

Each kill falls 0.2 to 3 s behind the first write of its life. Exit code 0: every payment came out once.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.e2e.killing import Campaign, moments
from tests.e2e.program import ROWS_1K, ROWS_10K, Place, money_of, result_of, rows_of

SOURCES = {1_000: ROWS_1K, 10_000: ROWS_10K}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, choices=SOURCES, default=10_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--low", type=float, default=0.2, help="seconds behind the first write, at least")
    parser.add_argument("--high", type=float, default=3.0, help="and at most")
    parser.add_argument("--provider", default="reject=0.08,delay-ms=200,permits-per-second=170")
    parser.add_argument("--keep", type=Path, help="a folder for the run, kept afterwards")
    given = parser.parse_args()
    folder = given.keep or Path(tempfile.mkdtemp(prefix="tpf-kills-"))
    try:
        tally = campaign(given, folder)
    finally:
        if given.keep is None:
            shutil.rmtree(folder)
    sys.stdout.write(json.dumps(tally, indent=2) + "\n")
    return 0 if tally["right"] else 1


def campaign(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    place, source = Place(folder), SOURCES[given.rows]
    run = Campaign(place, place.words(source, provider=given.provider))
    began = time.monotonic()
    for after_s in moments(given.kills, given.low, given.high, given.seed):
        if not run.live_and_die(after_s):
            break
    last = run.live_to_the_end()
    tally = {
        "rows": given.rows,
        "kills": sum(1 for life in run.lives if life.killed_after_s is not None),
        "killed_after_s": [round(life.killed_after_s, 3) for life in run.lives if life.killed_after_s is not None],
        "first_write_after_s": [round(life.first_commit_s, 3) for life in run.lives],
        "seconds": round(time.monotonic() - began, 1),
        "last_exit_code": last.returncode,
        "last_life": result_of(last),
        **outcome(place, source),
    }
    tally["right"] = (
        last.returncode == 0
        and tally["same_rows"]
        and tally["kills"] == given.kills
        and not (tally["lost"] or tally["doubled"] or tally["records_beyond"])
    )
    return tally


def outcome(place: Place, source: Path) -> dict[str, Any]:
    """What the topic and the file hold, counted against the input."""
    wanted = money_of(rows_of(source), "ID")
    records = place.output_records()
    times = Counter(value["itemIndex"] for _, value in records)
    return {
        "records": len(records),
        "distinct_keys": len({key for key, _ in records}),
        "lost": sum(1 for index in range(len(wanted)) if times[index] == 0),
        "doubled": sum(1 for index in range(len(wanted)) if times[index] > 1),
        "records_beyond": sum(1 for index in times if not 0 <= index < len(wanted)),
        "same_rows": money_of(rows_of(place.out / f"{source.name}.out"), "CSV Id") == wanted,
    }


if __name__ == "__main__":
    sys.exit(main())

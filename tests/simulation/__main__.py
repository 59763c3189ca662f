"""`python -m tests.simulation`: any number of seeds, one seed with its trace, or a soak that goes on after a stop."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.simulation.run import Tally, replay, run_many, run_seed
from tests.simulation.table import lines

SOAK_CHUNK = 500


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, help="how many seeds (2000; with --soak: until interrupted)")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="worker processes")
    parser.add_argument("--seed", type=int, help="this one seed")
    parser.add_argument("--trace", action="store_true", help="with --seed: print every move")
    parser.add_argument("--soak", type=Path, metavar="DIR", help="keep tallies in DIR and go on from them")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return _one(options.seed, trace=options.trace)
    if options.soak is not None:
        return _soak(options.soak, options.seeds, options.processes)
    return _many(options.start, 2000 if options.seeds is None else options.seeds, options.processes)


def _one(seed: int, *, trace: bool) -> int:
    moves: list[str] = []
    tally = run_seed(seed, trace=moves)
    if trace:
        print("\n".join(moves))
    _report(tally)
    return 1 if tally.failed else 0


def _many(start: int, count: int, processes: int) -> int:
    began = time.monotonic()
    total = Tally()
    for tally in run_many(start, count, processes):
        total.add(tally)
        _progress(total, began)
    print(file=sys.stderr)
    _report(total)
    return 1 if total.failed else 0


def _soak(directory: Path, count: int | None, processes: int) -> int:
    """Chunk after chunk; each is added to the tallies on disk before the next begins."""
    directory.mkdir(parents=True, exist_ok=True)
    kept = directory / "tally.json"
    total = Tally.from_json(json.loads(kept.read_text())) if kept.exists() else Tally()
    until = None if count is None else total.seeds + count
    began, before = time.monotonic(), total.seeds
    try:
        while until is None or total.seeds < until:
            size = SOAK_CHUNK if until is None else min(SOAK_CHUNK, until - total.seeds)
            chunk = Tally()
            for tally in run_many(total.seeds, size, processes):
                chunk.add(tally)
            total.add(chunk)
            written = kept.with_suffix(".part")
            written.write_text(json.dumps(total.to_json(), indent=1))
            written.replace(kept)
            _progress(total, began, before)
    except KeyboardInterrupt:
        print("\ninterrupted; the next soak goes on here", file=sys.stderr)
    _report(total)
    return 1 if total.failed else 0


def _progress(total: Tally, began: float, before: int = 0) -> None:
    rate = (total.seeds - before) / max(time.monotonic() - began, 0.001)
    print(
        f"\r{total.seeds} seeds, {len(total.failed)} failed, {rate:.1f} a second", end="", file=sys.stderr, flush=True
    )


def _report(total: Tally) -> None:
    if total.seeds > 1:
        print("\n".join(lines(total.table)))
    ends = ", ".join(f"{name} {count}" for name, count in total.outcomes.most_common())
    print(f"\n{total.seeds} seeds, {total.turns} turns, {total.repeats} requests repeated; executions: {ends}")
    for seed, why in sorted(total.failed.items()):
        print(f"\nseed {seed} failed; again: {replay(seed)}\n{why}")


if __name__ == "__main__":
    sys.exit(main())

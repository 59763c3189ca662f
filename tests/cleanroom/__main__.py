"""Any number of random histories of core against the model: `python -m tests.cleanroom --histories 100000`.

Goes on behind a difference; the first ten are told with their seeds; `--first SEED --histories 1` shows one again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from time import monotonic

from tests.cleanroom import admission, boundary, budget
from tests.cleanroom.histories import Difference

HISTORIES: dict[str, Callable[[int], object]] = {
    "admission": admission.history,
    "budget": budget.history,
    "boundary": boundary.history,
}
TELL_S = 10.0
TELL_MAX = 10
"""Differences shown in full; the others are counted: mostly they are the same one."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cleanroom", description=__doc__)
    parser.add_argument("--of", choices=[*HISTORIES, "all"], default="all", help="which part of the model (all)")
    parser.add_argument("--histories", type=int, default=1_000, help="how many of each (1000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    given = parser.parse_args()
    differences = 0
    for name in HISTORIES if given.of == "all" else [given.of]:
        differences += compare(name, range(given.first, given.first + given.histories))
    return 1 if differences else 0


def compare(name: str, seeds: range) -> int:
    """-> how many of the histories differ."""
    found, told = 0, monotonic()
    for seed in seeds:
        try:
            HISTORIES[name](seed)
        except Difference as difference:
            found += 1
            if found <= TELL_MAX:
                print(difference, flush=True)
        if monotonic() - told > TELL_S:
            told = monotonic()
            print(f"{name}: {seed - seeds.start + 1} of {len(seeds)} histories, {found} differences", flush=True)
    print(f"{name}: {len(seeds)} histories, {found} differences", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())

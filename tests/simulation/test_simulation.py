"""Two thousand seeds of the real engine: nothing lost, doubled or stuck, and every fault has met every status."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.__main__ import main
from tests.simulation.run import Tally, replay, run_many, run_seed
from tests.simulation.table import lines, missing

ROOT = Path(__file__).parents[2]
SEEDS = 2_000
PROCESSES = 2
SHOWN_MAX = 5


@pytest.mark.timeout(900)
def test_every_seed_comes_to_its_end(capsys):
    total = Tally()
    for tally in run_many(0, SEEDS, PROCESSES):
        total.add(tally)
    with capsys.disabled():
        print(f"\n{total.seeds} seeds, {total.turns} turns, {total.repeats} requests repeated")
        print("\n".join(lines(total.table)))
    first = sorted(total.failed.items())[:SHOWN_MAX]
    shown = "\n".join(f"seed {seed}; again: {replay(seed)}\n{why}" for seed, why in first)
    assert not total.failed, f"{len(total.failed)} seeds failed\n{shown}"
    assert total.repeats > 0
    assert total.lists > 400, "too few executions with lists came to their end"
    assert missing(total.table) == {}, "cells that too few seeds reach: make their fault more frequent"


def test_the_same_seed_gives_the_same_trace():
    first: list[str] = []
    again: list[str] = []
    run_seed(11, trace=first)
    run_seed(11, trace=again)
    assert first == again
    assert len(first) > 20


def test_a_trace_does_not_depend_on_the_process():
    """Nothing hangs on the order of a set: the hashes of texts differ from process to process."""
    code = "from tests.simulation.test_simulation import digest; print(digest(range(40)))"
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2", "3")
    }
    assert len(told) == 1, told


def digest(seeds: range) -> str:
    sums = []
    for seed in seeds:
        trace: list[str] = []
        run_seed(seed, trace=trace)
        sums.append(hashlib.sha256("\n".join(trace).encode()).hexdigest()[:6])
    return " ".join(sums)


def test_a_soak_goes_on_where_it_stopped(tmp_path, capsys):
    for _ in range(2):
        assert main(["--soak", str(tmp_path), "--seeds", "3", "--processes", "1"]) == 0
    assert "6 seeds" in capsys.readouterr().out


def test_one_seed_shows_its_moves(capsys):
    assert main(["--seed", "3", "--trace"]) == 0
    assert "held" in capsys.readouterr().out

"""A run that is killed and started again, life after life, until it ends by itself."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.program import Place, finish, start

LIFE_S = 300.0


@dataclass
class Life:
    """How one life ended. `first_commit_s`: from its start to its first write; `killed_after_s`: from there."""

    first_commit_s: float
    killed_after_s: float | None
    returncode: int


@dataclass
class Campaign:
    """Lives of one run over one data directory."""

    place: Place
    words: Sequence[str | Path]
    lives: list[Life] = field(default_factory=list)

    def live_and_die(self, after_s: float) -> bool:
        """One life, killed `after_s` behind its first commit; whether the kill was in time."""
        known = wal_files(self.place.data)
        began = time.monotonic()
        process = start(*self.words, "--json")
        try:
            committed = self._first_commit(process, known)
            while process.poll() is None and time.monotonic() < committed + after_s:
                time.sleep(0.002)
            in_time = process.poll() is None
        finally:
            process.kill()  # SIGKILL
            out, err = process.communicate()
        if not in_time:
            assert process.returncode == 0, err + out
        self.lives.append(Life(committed - began, after_s if in_time else None, process.returncode))
        return in_time

    def live_to_the_end(self, timeout: float = LIFE_S) -> subprocess.CompletedProcess[str]:
        return finish(start(*self.words, "--json"), timeout)

    def _first_commit(self, process: subprocess.Popen[str], known: set[str]) -> float:
        """When the database's log of this life holds its first bytes: the first write, whatever it is of."""
        end = time.monotonic() + 60
        while process.poll() is None:
            assert time.monotonic() < end, "no commit in a minute"
            if wal_files(self.place.data) - known:
                break
            time.sleep(0.002)
        return time.monotonic()


def wal_files(data: Path) -> set[str]:
    """Names of the database's logs that hold anything. Numbers only grow, so a new life's are new."""
    found = set()
    for path in (data / "db").glob("*.log"):
        try:
            if path.stat().st_size:
                found.add(path.name)
        except FileNotFoundError:
            continue
    return found


def moments(count: int, low_s: float, high_s: float, seed: int) -> list[float]:
    """Random moments, the same for the same seed."""
    chance = random.Random(seed)
    return [chance.uniform(low_s, high_s) for _ in range(count)]

"""What a child process measures of itself, and how it is started: fresh each time, alone with its own memory."""

from __future__ import annotations

import json
import os
import re
import resource
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.payments import ROOT

SECRET = "PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET"
CHILD_TIMEOUT_S = 1_800


class Stopwatch:
    """Seconds and CPU (user and system, of all threads) between `start` and `stop`. Imports are not in it."""

    def __init__(self) -> None:
        self.seconds = self.cpu_s = 0.0

    def start(self) -> None:
        self.seconds, self.cpu_s = -time.perf_counter(), -_cpu_s()

    def stop(self) -> None:
        self.seconds += time.perf_counter()
        self.cpu_s += _cpu_s()


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak_bytes() -> int:
    """Peak resident memory of this process. Not `ru_maxrss`: over fork and exec that one keeps the parent's."""
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    if found is None:
        raise RuntimeError("/proc/self/status tells no VmHWM: this benchmark needs Linux")
    return int(found[1]) * 1024


def child_command(module: str, arguments: Sequence[str | Path]) -> list[str]:
    return [sys.executable, "-m", f"tests.benchmarks.{module}", *map(str, arguments)]


def child_environment() -> dict[str, str]:
    return {**os.environ, SECRET: secrets.token_urlsafe(32)}


def run_child(module: str, *arguments: str | Path) -> dict[str, Any]:
    """Run a module of this package to its end; the object that it printed, and under `said` what it told people."""
    command = child_command(module, arguments)
    done = subprocess.run(
        command, cwd=ROOT, env=child_environment(), capture_output=True, text=True, timeout=CHILD_TIMEOUT_S
    )
    if done.returncode != 0:
        sys.exit(f"{module} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return {**found, "said": done.stderr}


def machine(directory: Path) -> dict[str, Any]:
    """Where the figures are from. The load tells whether they are worth anything."""
    return {
        "cpus": os.cpu_count(),
        "python": sys.version.split()[0],
        "filesystem": _filesystem(directory),
        "sync_ms": _sync_ms(directory),
        "load": list(os.getloadavg()),
    }


def _filesystem(directory: Path) -> str:
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    inside = [(where, kind) for where, kind in mounts if directory.resolve().is_relative_to(where)]
    return max(inside, key=lambda mount: len(mount[0]))[1]


def _sync_ms(directory: Path, times: int = 40) -> float:
    """What one sync of 4 KiB costs here, median."""
    path = directory / "sync-probe"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    took_s = []
    try:
        for _ in range(times):
            os.write(descriptor, b"." * 4096)
            began_s = time.perf_counter()
            os.fdatasync(descriptor)
            took_s.append(time.perf_counter() - began_s)
    finally:
        os.close(descriptor)
        path.unlink()
    return sorted(took_s)[times // 2] * 1e3

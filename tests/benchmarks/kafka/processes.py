"""CPU of other processes, from /proc: benchmarks tell it by process, since all of them share the machine."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """User and system time of a process and all its threads. Raises FileNotFoundError when it has gone."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


class CpuWatch:
    """CPU seconds by name since `start`."""

    def __init__(self, **pids: int | None) -> None:
        self._pids = {name: pid for name, pid in pids.items() if pid is not None}
        self._began = {name: cpu_s(pid) for name, pid in self._pids.items()}

    def read(self) -> dict[str, float]:
        return {name: cpu_s(pid) - self._began[name] for name, pid in self._pids.items()}

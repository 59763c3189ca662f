"""The memory log, for tests and simulation."""

from __future__ import annotations

from tpf_streams.logs.memory.log import CommitFaults, MemoryLog, SyncMode
from tpf_streams.logs.memory.task import MemoryTaskLog

__all__ = ["CommitFaults", "MemoryLog", "MemoryTaskLog", "SyncMode"]

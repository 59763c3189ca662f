"""A directory that one process uses at a time. The lock goes with the process, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from tpf_streams.errors import LogOwnedError


def claim(path: Path) -> int:
    """-> the descriptor that holds `path`/lock; closing it gives the directory up. Raises LogOwnedError."""
    descriptor = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        pid = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise LogOwnedError(
            f"{path} is in use by process {pid}: stop that process, or give this one another data directory"
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor

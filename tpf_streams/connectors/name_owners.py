"""Which execution owns which output name: one marker file per name in `.tpf-owners`, durable and never overwritten.

Files have no fencing, so a name must be owned before bytes are put under it: a repeat or a zombie of the owner may
write the file again (the bytes are the same), nobody else may. A marker comes into being complete or not at all: it is
written under another name, synced, then linked; of two processes that link the same name one fails. That needs a file
system with hard links.

Whoever removes `.tpf-owners` frees no name that has a file: a file without a marker is a stranger's and is kept.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tpf_streams.connectors.durable_files import ensure_directory, remove, sync_directory, synced_file

OWNERS_DIRECTORY = ".tpf-owners"


def claim_name(directory: Path, names: Sequence[str], execution_id: str, scratch: Path) -> str | None:
    """The first of `names` that the execution owns already, else the first it can have, else None.

    What it owns already comes first, so that a repeat finds its file even when a better name has become free since.
    `scratch` is a path in `directory` for this call alone. Raises OSError and PublishError.
    """
    for name in names:
        if _owner(directory, name) == execution_id:
            return name
    for name in names:
        if _claim(directory, name, execution_id, scratch):
            return name
    return None


def _claim(directory: Path, name: str, execution_id: str, scratch: Path) -> bool:
    # A file that is there before the name has an owner is not ours. The order matters: were the marker made first, a
    # crash before the look would leave us owning a stranger's file.
    if _owner(directory, name) is None and not os.path.lexists(directory / name):
        _mark(directory, name, execution_id, scratch)
    return _owner(directory, name) == execution_id


def _owner(directory: Path, name: str) -> str | None:
    try:
        return (directory / OWNERS_DIRECTORY / name).read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return None


def _mark(directory: Path, name: str, execution_id: str, scratch: Path) -> None:
    owners = directory / OWNERS_DIRECTORY
    ensure_directory(owners)
    with synced_file(scratch) as write:
        write(f"{execution_id}\n".encode())
    try:
        os.link(scratch, owners / name)
        sync_directory(owners)
    except FileExistsError:
        pass  # another process was faster; the marker says who
    finally:
        remove(scratch)

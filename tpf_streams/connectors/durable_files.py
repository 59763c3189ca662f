"""Files and directories that are still there after the power fails."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tpf_streams.errors import PublishError


@contextmanager
def publish_errors(path: Path) -> Iterator[None]:
    """What the operating system refuses inside becomes a PublishError that names `path` and the reason."""
    try:
        yield
    except OSError as error:
        raise PublishError(f"{path}: {error.strerror or error}") from error


def ensure_directory(directory: Path) -> None:
    """Make the directory and its parents, durably, where they are missing. Raises OSError."""
    if directory.is_dir():
        return
    if directory.parent != directory:
        ensure_directory(directory.parent)
    directory.mkdir(exist_ok=True)
    sync_directory(directory.parent)


def sync_directory(directory: Path) -> None:
    """Make durable what was created, renamed or removed in `directory`. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def synced_file(path: Path) -> Iterator[Callable[[bytes], None]]:
    """What writes bytes to a new file; its content is durable when the block ends well.

    Raises PublishError, also for a path that is taken. A block that fails removes the file.
    """
    with publish_errors(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            yield partial(_write_all, path, descriptor)
            with publish_errors(path):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        remove(path)
        raise


def _write_all(path: Path, descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    with publish_errors(path):
        while view:
            view = view[os.write(descriptor, view) :]  # the operating system may take it in pieces


def remove(path: Path) -> None:
    """Remove a file as far as that is possible: it may be gone, or the disk in trouble."""
    try:
        path.unlink()
    except OSError:
        pass

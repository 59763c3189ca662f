"""Reading a file once, from start to end, knowing at the end exactly which bytes were read."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from tpf_streams.errors import SourceUnreadableError

CHUNK_BYTES = 256 * 1024


class HashedFile:
    """A regular file, open for one pass of reading; a context manager.

    Opening never waits and never follows a pipe or a device: those are refused, because they cannot be read twice.
    Opening and reading raise `SourceUnreadableError` with the file's name and the operating system's reason.
    """

    __slots__ = ("_digest", "_fd", "name", "size_bytes", "status")

    def __init__(self, path: str | os.PathLike[str], name: str = "") -> None:
        """`name` is what errors call the file; the path, unless given."""
        self.name = name or os.fspath(path)
        self.size_bytes = 0
        self._digest = hashlib.sha256()
        self._fd = self._open(path)
        self.status = os.fstat(self._fd)
        if not stat.S_ISREG(self.status.st_mode):
            os.close(self._fd)
            raise SourceUnreadableError(f"{self.name}: not a regular file")

    def _open(self, path: str | os.PathLike[str]) -> int:
        try:
            return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise self._unreadable(error) from error
        except ValueError as error:
            raise SourceUnreadableError(f"{self.name}: not a file name") from error

    def _unreadable(self, error: OSError) -> SourceUnreadableError:
        return SourceUnreadableError(f"{self.name}: {error.strerror or error}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def chunks(self) -> Iterator[bytes]:
        """The content from where reading stands, in pieces of at most `CHUNK_BYTES`."""
        while True:
            try:
                chunk = os.read(self._fd, CHUNK_BYTES)
            except OSError as error:
                raise self._unreadable(error) from error
            if not chunk:
                return
            self._digest.update(chunk)
            self.size_bytes += len(chunk)
            yield chunk

    def finish(self) -> str:
        """Read what is left and give the SHA-256 of the whole content, in hex."""
        for _ in self.chunks():
            pass
        return self._digest.hexdigest()

    def is_unchanged(self) -> bool:
        """Whether size and times are still those of the opening."""
        now = os.fstat(self._fd)
        return stat_signature(now) == stat_signature(self.status)


def stat_signature(status: os.stat_result) -> tuple[int, int, int, int, int]:
    """What tells two states of a file apart without reading it: device, inode, bytes, mtime and ctime in ns."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

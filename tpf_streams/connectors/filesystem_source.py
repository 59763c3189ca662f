"""Object ingest from the file system: which objects are there, and what each one's identity is (contract 0.23).

Inputs are directories, searched for files that match the filter, and single files, taken as they are. Not listed under
a directory: names that begin with a dot (hidden; a writer's temporary files), `.part` files, our own `.rejected.csv`
files, and files below a hidden directory or one reached by a symbolic link. A symbolic link to a file is followed as
long as it stays inside its directory. A file reached twice is listed once. Writers should put files in place by a
rename: a file that changes while it is read is reported, and listed once it holds still.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import islice

from tpf_streams.connectors.filesystem_publish import PART_SUFFIX, REJECTED_SUFFIX
from tpf_streams.connectors.hashed_file import HashedFile, stat_signature
from tpf_streams.core.step import SourceObject
from tpf_streams.errors import SourceUnreadableError, TerminalError

PROVIDER = "file"
IDENTITY_FIELDS = ("provider", "container", "key", "etag")
SETTLED_NS = 2_000_000_000
"""A file younger than this is hashed anew each time: a second change within one tick of the file system's clock would
leave size and times as they are."""


@dataclass(frozen=True, slots=True)
class ListingProblem:
    """Something that was found and cannot be listed. Where it is an object that cannot be read now, `source` names it,
    without etag, so that an execution can be submitted to fail with the reason."""

    path: str
    reason: str
    source: SourceObject | None = None


def execution_key(source: SourceObject, fields: Sequence[str] = IDENTITY_FIELDS) -> str:
    """`object:<source>:<values joined by :>` (contract 12.3).

    In a value `\\` and `:` are escaped by `\\`; a blank value is `_`. Raises TerminalError for a field outside
    `IDENTITY_FIELDS`.
    """
    unknown = [field for field in fields if field not in IDENTITY_FIELDS]
    if unknown:
        raise TerminalError(f"unknown identity field {unknown[0]!r}; known are {', '.join(IDENTITY_FIELDS)}")
    return ":".join(["object", *(_escaped(value) for value in (source.source, *(getattr(source, f) for f in fields)))])


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(":", "\\:") if value.strip() else "_"


def matches(key: str, patterns: Sequence[str]) -> bool:
    """Whether a key matches one of the globs: `*`, `?`, `[...]` within a segment, `**` for any number of segments."""
    segments = key.split("/")
    return any(_matches(segments, pattern.split("/")) for pattern in patterns)


def _matches(segments: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not segments
    if pattern[0] == "**":
        return _matches(segments, pattern[1:]) or (bool(segments) and _matches(segments[1:], pattern))
    return bool(segments) and fnmatchcase(segments[0], pattern[0]) and _matches(segments[1:], pattern[1:])


class FilesystemSource:
    """An object source over directories and files.

    `inputs` are paths as written in the settings, relative to `base_dir`; a directory is an object's container, and so
    is the directory of a single file. Globs and `prefix` (a directory below each input) speak of keys: POSIX paths
    relative to the container. No `include` means every file, at any depth.
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[str],
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        prefix: str = "",
        base_dir: str = "",
    ) -> None:
        """Raises TerminalError for a prefix that leaves its container, and for a glob with braces: list the globs."""
        if prefix.startswith("/") or ".." in prefix.split("/"):
            raise TerminalError(f"the prefix {prefix!r} leaves the source's root")
        for pattern in (*include, *exclude):
            if "{" in pattern:
                raise TerminalError(f"the glob {pattern!r} has braces; write one glob for each alternative")
        self.name = name
        self._inputs = tuple(inputs)
        self._include = tuple(include) or ("**",)
        self._exclude = tuple(exclude)
        self._prefix = prefix.strip("/")
        self._base_dir = base_dir
        self._deep = any("/" in pattern or "**" in pattern for pattern in self._include)
        self._etags: dict[str, tuple[tuple[int, ...], str]] = {}

    def batches(self, size: int) -> Iterator[list[SourceObject | ListingProblem]]:
        """The listing, at most `size` at a time."""
        listing = self.listing()
        while batch := list(islice(listing, size)):
            yield batch

    def listing(self) -> Iterator[SourceObject | ListingProblem]:
        """Every object now there, by input and then by key; problems stand where their object would.

        Contents are hashed one by one as the iterator moves on, and again only when size, times or place of a file have
        changed since the last listing. Whatever cannot be read becomes a problem, and the others go on.
        """
        seen: set[str] = set()
        for container in self._inputs:
            path = os.path.join(self._base_dir, container)
            if os.path.isdir(path):
                yield from self._directory(container, path, seen)
            else:
                directory, key = os.path.split(container.rstrip("/"))
                yield from self._file(directory or ".", key, path, seen)
        self._etags = {path: known for path, known in self._etags.items() if path in seen}

    def _directory(self, container: str, root: str, seen: set[str]) -> Iterator[SourceObject | ListingProblem]:
        above = f"{self._prefix}/" if self._prefix else ""
        for key, problem in sorted(self._walk(os.path.join(root, self._prefix), above)):
            path = os.path.join(root, key)
            if not problem and os.path.islink(path) and not _is_inside(path, root):
                problem = "a symbolic link that leaves its directory"
            if problem:
                yield ListingProblem(_printable(path), problem)
            else:
                yield from self._file(container, key, path, seen)

    def _walk(self, directory: str, above: str) -> Iterator[tuple[str, str]]:
        """(key, "") of each file that is wanted, (key, reason) of each directory that cannot be listed."""
        try:
            with os.scandir(directory) as entries:
                found = list(entries)
        except OSError as error:
            yield above, error.strerror or str(error)
            return
        for entry in found:
            key = above + entry.name
            if entry.name.startswith(".") or entry.name.endswith((PART_SUFFIX, REJECTED_SUFFIX)):
                continue
            if entry.is_symlink() and os.path.isdir(entry.path):
                continue
            if entry.is_dir(follow_symlinks=False):
                if self._deep:
                    yield from self._walk(entry.path, f"{key}/")
            elif matches(key, self._include) and not matches(key, self._exclude):
                yield key, ""

    def _file(self, container: str, key: str, path: str, seen: set[str]) -> Iterator[SourceObject | ListingProblem]:
        real_path = os.path.realpath(path)
        if real_path in seen:
            return
        seen.add(real_path)
        if not _is_unicode(key):
            yield ListingProblem(_printable(path), "the file name is not UTF-8")
            return
        source = SourceObject(self.name, PROVIDER, container, key, "", path)
        try:
            yield replace(source, etag=self._etag(path, key, real_path))
        except SourceUnreadableError as error:
            is_there = isinstance(error.__cause__, OSError) and not isinstance(error.__cause__, FileNotFoundError)
            yield ListingProblem(path, str(error), source if is_there else None)

    def _etag(self, path: str, key: str, real_path: str) -> str:
        with HashedFile(path, key) as file:
            signature = stat_signature(file.status)
            known_signature, etag = self._etags.get(real_path, (None, ""))
            if signature == known_signature:
                return etag
            etag = file.finish()
            if not file.is_unchanged():
                raise SourceUnreadableError(f"{key}: changes while it is being read")
        if time.time_ns() - file.status.st_ctime_ns > SETTLED_NS:
            self._etags[real_path] = signature, etag
        return etag


def _is_inside(path: str, root: str) -> bool:
    real_root = os.path.realpath(root)
    return os.path.commonpath([os.path.realpath(path), real_root]) == real_root


def _is_unicode(text: str) -> bool:
    """Whether a file name is UTF-8; Python shows other bytes as lone surrogates, which no wire can carry."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _printable(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")

"""Object publish to a directory (contract 0.16; architecture, 'Files'): at least once, with the same bytes each time.

The bytes stream into `.<executionId>.<incarnation>.<attempt>.<tag>.part`, are synced, and take their name by a rename.
The tag differs from call to call: an execution's output and its item-reject file may be written side by side, and two
processes that share nothing but the directory may publish the same execution. Readers of the directory see a whole file
or none; names that begin with a dot are ours.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath

from tpf_streams.connectors.durable_files import (
    ensure_directory,
    publish_errors,
    remove,
    sync_directory,
    synced_file,
)
from tpf_streams.connectors.name_owners import claim_name
from tpf_streams.errors import OutputExistsError, TerminalError

REJECTED_SUFFIX = ".rejected.csv"
PART_SUFFIX = ".part"
NAME_BYTES_MAX = 200
"""Leaves room, in the 255 bytes that file systems take, for an execution id and the reject suffix."""

_SHORT_ID_CHARS = 8
_EXECUTION_ID = re.compile(r"[0-9A-Za-z_-]{1,40}")


class OnExisting(StrEnum):
    """What to do when another execution has the name: take `stem.<short id>.ext`, or fail."""

    VERSION = "version"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class PublishedObject:
    """A file that is durably in place: its path and name, its bytes, and the SHA-256 of its content in hex."""

    path: str
    name: str
    size_bytes: int
    sha256: str


def output_name(key_template: str, key: str) -> str:
    """The name of the output for an object key: `{groupKey}` in the template is the last segment of the key.

    Raises TerminalError with code `OUTPUT_NAME_INVALID`. Call it when an execution is submitted, not first at its end.
    """
    name = key_template.replace("{groupKey}", PurePosixPath(key).name)
    if re.search(r"[{}]", key_template.replace("{groupKey}", "")):
        raise _invalid(key_template, "the only placeholder is {groupKey}")
    check_name(name)
    return name


def rejected_name(name: str) -> str:
    """The name of the item-reject file beside the output `name`."""
    return name + REJECTED_SUFFIX


def check_name(name: str) -> None:
    """Raise TerminalError `OUTPUT_NAME_INVALID` unless `name` is one plain file name, not hidden, not too long."""
    if not name or name.startswith("."):
        raise _invalid(name, "it is empty or begins with a dot")
    if any(character in name for character in "/\\\0"):
        raise _invalid(name, "it holds a path separator or a NUL")
    try:
        length = len(name.removesuffix(REJECTED_SUFFIX).encode())
    except UnicodeEncodeError:
        raise _invalid(name, "it is not Unicode") from None
    if length > NAME_BYTES_MAX:
        raise _invalid(name, f"it is longer than {NAME_BYTES_MAX} bytes")


def _invalid(name: str, reason: str) -> TerminalError:
    return TerminalError(f"the output name {name[:NAME_BYTES_MAX]!r} cannot be used: {reason}", "OUTPUT_NAME_INVALID")


def publish_object(
    out_dir: str | os.PathLike[str],
    name: str,
    execution_id: str,
    incarnation: int,
    chunks: Iterable[bytes],
    on_existing: OnExisting = OnExisting.VERSION,
    attempt: int = 0,
) -> PublishedObject:
    """Write `chunks` under `name` in `out_dir`, or under a versioned name if another execution has that one.

    A repeat, and a zombie with a lower incarnation, find the name the execution got first and replace the file by the
    same bytes. Parts of earlier incarnations and attempts are removed: a zombie, or a write that hung while its
    execution was redriven, loses its part and gets a PublishError, for its bytes may be others by now.

    Raises PublishError with the operating system's reason (full disk, no permission, ...), OutputExistsError, and
    TerminalError for a name or an execution id that cannot be used. What `chunks` raises passes through. In every case
    no file of that name appears or changes, unless the rename itself was done.
    """
    check_name(name)
    if _EXECUTION_ID.fullmatch(execution_id) is None:
        raise TerminalError(f"{execution_id[:40]!r} cannot be part of a file name", "OUTPUT_NAME_INVALID")
    directory = Path(out_dir)
    part = directory / f".{execution_id}.{incarnation}.{attempt}.{secrets.token_hex(4)}{PART_SUFFIX}"
    with publish_errors(directory):
        ensure_directory(directory)
        _remove_stale_parts(directory, execution_id, (incarnation, attempt))
        given = claim_name(directory, _candidates(name, execution_id, on_existing), execution_id, part)
    if given is None:
        raise OutputExistsError(f"{directory / name} belongs to another execution")
    size_bytes, sha256 = _write_part(part, chunks)
    target = directory / given
    _put_in_place(part, target)
    return PublishedObject(str(target), given, size_bytes, sha256)


def _candidates(name: str, execution_id: str, on_existing: OnExisting) -> list[str]:
    """Names to try. The full id stands for the day when two executions share their first characters."""
    if on_existing is OnExisting.FAIL:
        return [name]
    suffix = REJECTED_SUFFIX if name.endswith(REJECTED_SUFFIX) else PurePosixPath(name).suffix
    stem = name.removesuffix(suffix)
    return [name, f"{stem}.{execution_id[:_SHORT_ID_CHARS]}{suffix}", f"{stem}.{execution_id}{suffix}"]


def _write_part(part: Path, chunks: Iterable[bytes]) -> tuple[int, str]:
    digest = hashlib.sha256()
    size_bytes = 0
    with synced_file(part) as write:
        for chunk in chunks:
            write(chunk)
            digest.update(chunk)
            size_bytes += len(chunk)
    return size_bytes, digest.hexdigest()


def _put_in_place(part: Path, target: Path) -> None:
    with publish_errors(target):
        try:
            os.replace(part, target)
        except OSError:
            remove(part)
            raise
        sync_directory(target.parent)


def _remove_stale_parts(directory: Path, execution_id: str, current: tuple[int, int]) -> None:
    """Earlier versions wrote no attempt."""
    pattern = re.compile(rf"\.{re.escape(execution_id)}\.([0-9]+)(?:\.([0-9]+))?\..*{re.escape(PART_SUFFIX)}")
    for name in os.listdir(directory):
        match = pattern.fullmatch(name)
        if match is not None and (int(match[1]), int(match[2] or 0)) < current:
            remove(directory / name)

"""The data directory: who owns it, and what must be in it.

    lock           held by flock while a process uses the directory; contains its pid
    journal.json   format, epoch and a sequence number that the database must have reached
    db/            the database

The marker beside the database catches what the database cannot: RocksDB opens an empty store when its manifest is
damaged in the right place, or when its only log file is gone (seen), and an empty store would be a clean start.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import orjson

from tpf_streams.errors import LogCorruptError
from tpf_streams.logs.claim import claim


@dataclass(frozen=True, slots=True)
class Marker:
    """What was known to be durable when the directory was last opened or closed."""

    format: int
    epoch: str
    sequence: int


class DataDirectory:
    """A claimed data directory."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = claim(self.path)

    @property
    def database(self) -> Path:
        return self.path / "db"

    def marker(self) -> Marker | None:
        file = self.path / "journal.json"
        try:
            content = orjson.loads(file.read_bytes())
            return Marker(int(content["format"]), str(content["epoch"]), int(content["sequence"]))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise LogCorruptError(f"{file} is no journal marker: {error}") from error

    def mark(self, marker: Marker) -> None:
        """Replace the marker, durably and as a whole."""
        file, part = self.path / "journal.json", self.path / "journal.json.part"
        with part.open("wb") as out:
            out.write(orjson.dumps(marker))
            out.flush()
            os.fsync(out.fileno())
        part.replace(file)
        # Also makes `db` itself, created beside it, survive a crash of the machine.
        sync_directory(self.path)
        sync_directory(self.path.parent)

    def release(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

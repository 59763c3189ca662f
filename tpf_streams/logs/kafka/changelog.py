"""Records of the changelog: one byte says what a record is about, the rest of the key which.

h                    what the log is: {format, epoch, partitions, identity}; the first record, written once
o                    an opening of the task; its offset is the incarnation
p<topic>/<partition> the task's position: 1 byte version, 8 bytes big-endian
r<store key>         a row of the state store, as it is; no value deletes it
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import orjson

from tpf_streams.errors import LogCorruptError, LogMismatchError
from tpf_streams.logs.kafka.batches import Entry
from tpf_streams.ports import TopicPartition

FORMAT = 1
HEADER_KEY = b"h"
OPENING_KEY = b"o"
POSITION = b"p"
ROW = b"r"
_POSITION = struct.Struct(">BQ")


@dataclass(frozen=True, slots=True)
class Header:
    """What one partition of the changelog is. `epoch` tells a log made anew from the one a local store was made of;
    `identity` stands for what ids are made of, empty where it is not known."""

    format: int
    epoch: str
    partitions: int
    identity: str = ""

    @classmethod
    def new(cls, partitions: int, identity: str) -> Header:
        return cls(FORMAT, os.urandom(16).hex(), partitions, identity)

    @property
    def entry(self) -> Entry:
        return HEADER_KEY, orjson.dumps(asdict(self)), ()

    @classmethod
    def of(cls, key: bytes | None, value: bytes | None, place: str) -> Header:
        """Raises LogCorruptError for a first record that is no header."""
        try:
            if key != HEADER_KEY:
                raise ValueError("the first record is no header")
            return cls(**orjson.loads(value or b""))
        except (ValueError, TypeError) as error:
            raise LogCorruptError(f"{place} is no changelog of this version: {error}") from error

    def check(self, partitions: int, identity: str, place: str) -> None:
        """Raises LogMismatchError for a log that this application would not go on rightly."""
        if self.format != FORMAT:
            raise LogMismatchError(f"{place} has format {self.format}; this version reads {FORMAT}: use the newer one")
        if self.partitions != partitions:
            raise LogMismatchError(
                f"{place} was begun with {self.partitions} partitions, not {partitions}: they cannot be changed; set "
                f"topology.partitions to {self.partitions}"
            )
        if identity and self.identity and identity != self.identity:
            raise LogMismatchError(
                f"{place} was begun with another pipeline.id-secret or pipeline id: all ids would change, and what was "
                "done would be done again; set the old values (they are never rotated), or use another application id"
            )


def position_key(at: TopicPartition) -> bytes:
    return POSITION + f"{at.topic}/{at.partition}".encode()


def position_value(offset: int) -> bytes:
    return _POSITION.pack(FORMAT, offset)


def position_of(value: bytes) -> int:
    version, offset = _POSITION.unpack(value)
    if version != FORMAT:
        raise LogMismatchError(f"a position of version {version}; this version reads {FORMAT}: use the newer one")
    return int(offset)


def entries_of(rows: Mapping[bytes, bytes | None], positions: Mapping[TopicPartition, int]) -> list[Entry]:
    """The changelog records of a turn."""
    entries: list[Entry] = [(ROW + key, value, ()) for key, value in rows.items()]
    entries += [(position_key(at), position_value(offset), ()) for at, offset in positions.items()]
    return entries

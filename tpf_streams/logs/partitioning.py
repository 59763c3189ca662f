"""Which partition a record goes to, for the logs that decide it themselves."""

from __future__ import annotations

from zlib import crc32

from tpf_streams.errors import LogError
from tpf_streams.ports import Record


def partition_of(record: Record, count: int) -> int:
    """The record's own partition, else one by its place or its key, else 0."""
    partition = record.partition
    if partition is None:
        if record.place is not None:
            return record.place % count
        if count == 1 or record.key is None:
            return 0
        return crc32(record.key) % count
    if not 0 <= partition < count:
        raise LogError(f"topic {record.topic!r} has {count} partition(s); there is no partition {partition}")
    return partition

"""Keys and values of the journal: one ordered keyspace, told apart by the first byte.

    M                                    header: format, epoch, partition count, application
    T topic                              number of the topic, and its partition count
    L number partition offset            a record
    R task key                           a row of a task
    P task number partition              input position of a task
    I task                               incarnation of a task
    G group NUL number partition         position of a reader group
    S number partition offset            a full stretch of a topic with a retention: its last time, its bytes

Integers are big-endian, so that byte order is numeric order and a range is a scan.
"""

from __future__ import annotations

import struct

from tpf_streams.errors import LogCorruptError
from tpf_streams.ports import Headers, InputRecord, Record, TopicPartition

FORMAT = 1

HEADER = b"M"
TOPICS = b"T"
ROWS = b"R"
POSITIONS = b"P"
INCARNATIONS = b"I"
GROUPS = b"G"
RECORDS = b"L"
SEGMENTS = b"S"

U16 = struct.Struct(">H")
U64 = struct.Struct(">Q")
TOPIC = struct.Struct(">IH")  # number and partition, or number and partition count
_RECORD = struct.Struct(">BQiiH")  # version, timestamp, key length, value length (-1: null), headers
_HEADER = struct.Struct(">HI")  # name length, value length
RECORD_VERSION = 1


def after(prefix: bytes) -> bytes:
    """The end of the range of all keys that begin with `prefix`, whose last byte is below 0xff."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))


def rows_prefix(task: int) -> bytes:
    return ROWS + U16.pack(task)


def incarnation_key(task: int) -> bytes:
    return INCARNATIONS + U16.pack(task)


def position_key(task: int, address: bytes) -> bytes:
    return POSITIONS + U16.pack(task) + address


def group_key(group: str, address: bytes) -> bytes:
    return GROUPS + group.encode() + b"\0" + address


def encode_record(record: Record, now_ms: int) -> bytes:
    key, value, headers = record.key, record.value, record.headers
    head = _RECORD.pack(
        RECORD_VERSION,
        now_ms,
        -1 if key is None else len(key),
        -1 if value is None else len(value),
        len(headers),
    )
    if not headers:
        return head + (key or b"") + (value or b"")
    parts = [head, key or b"", value or b""]
    for name, content in headers:
        encoded = name.encode()
        parts += (_HEADER.pack(len(encoded), len(content)), encoded, content)
    return b"".join(parts)


def decode_record(name: TopicPartition, offset: int, data: bytes) -> InputRecord:
    try:
        version, timestamp_ms, key_length, value_length, header_count = _RECORD.unpack_from(data)
    except struct.error as error:
        raise LogCorruptError(
            f"{name.topic}/{name.partition} offset {offset}: {len(data)} bytes are no record"
        ) from error
    if version != RECORD_VERSION:
        raise LogCorruptError(f"{name.topic}/{name.partition} offset {offset}: unknown record version {version}")
    at = _RECORD.size
    key = value = None
    if key_length >= 0:
        key = data[at : at + key_length]
        at += key_length
    if value_length >= 0:
        value = data[at : at + value_length]
        at += value_length
    headers: Headers = ()
    if header_count:
        headers, at = _decode_headers(name, offset, data, at, header_count)
    if at != len(data):
        raise _damaged(name, offset)
    return InputRecord(name.topic, name.partition, offset, timestamp_ms, key, value, headers)


def _decode_headers(name: TopicPartition, offset: int, data: bytes, at: int, count: int) -> tuple[Headers, int]:
    """The headers, and where they end."""
    headers = []
    try:
        for _ in range(count):
            name_length, value_length = _HEADER.unpack_from(data, at)
            at += _HEADER.size
            middle, end = at + name_length, at + name_length + value_length
            headers.append((data[at:middle].decode(), data[middle:end]))
            at = end
    except (struct.error, UnicodeDecodeError) as error:
        raise _damaged(name, offset) from error
    return tuple(headers), at


def _damaged(name: TopicPartition, offset: int) -> LogCorruptError:
    return LogCorruptError(f"{name.topic}/{name.partition} offset {offset}: a record is cut short or damaged")

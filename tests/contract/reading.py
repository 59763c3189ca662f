"""How tests read a log through its port alone, so that the same lines serve a list in memory and a broker."""

from __future__ import annotations

import asyncio
import uuid

from tpf_streams.ports import InputRecord, Log, RecordReader, TaskLog

PATIENCE_S = 20.0
QUIET_S = 0.2
"""How long nothing must come to count as nothing. Only a test that something does not come waits for it."""


async def take(source: TaskLog | RecordReader, count: int, at_most: int = 1_000) -> list[InputRecord]:
    """The next `count` records, or more if the last poll gave more."""
    found: list[InputRecord] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            more = await source.poll(at_most)
            found += more
            if not more:
                await source.wait(0.5)
    return found


async def values(source: TaskLog | RecordReader, count: int, at_most: int = 1_000) -> list[bytes | None]:
    return [record.value for record in await take(source, count, at_most)]


async def is_quiet(source: TaskLog | RecordReader) -> bool:
    await source.wait(QUIET_S)
    return await source.poll(1_000) == []


async def read_all(log: Log, topic: str) -> list[InputRecord]:
    """Every committed record up to the topic's end, by a group of its own."""
    ends = await log.end_offsets([topic])
    reader = await log.open_reader(f"all-{uuid.uuid4().hex[:12]}", [topic])
    found: list[InputRecord] = []
    try:
        async with asyncio.timeout(PATIENCE_S):
            while any(reader.positions().get(at, 0) < end for at, end in ends.items() if end):
                found += await reader.poll(1_000) or await _later(reader)
    finally:
        await reader.close()
    return found


async def _later(reader: RecordReader) -> list[InputRecord]:
    await reader.wait(0.5)
    return await reader.poll(1_000)

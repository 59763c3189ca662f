"""What every log gives to who looks at one partition again, without a group."""

from __future__ import annotations

from typing import cast

from tests.contract.conftest import LogHarness, Names
from tpf_streams.ports import Log, Record, Turn
from tpf_streams.runtime.open_log import Histories


async def values(log: Log, topic: str, partition: int, start: int = 0) -> list[bytes | None]:
    found = cast(Histories, log).history(topic, partition, start)
    return [record.value async for lot in found for record in lot]


def told(names: Names, value: bytes, partition: int = 0) -> Record:
    return Record(f"{names.application_id}-lifecycle", None, value, (), partition)


async def test_a_partition_from_its_begin_or_an_offset_to_its_end_of_now(harness: LogHarness, names: Names):
    log = await harness.open()
    topic = told(names, b"").topic
    assert await values(log, topic, 0) == []
    await log.append([told(names, b"%d" % n) for n in range(40)] + [told(names, b"other", 1)])
    await harness.settled(topic)
    assert await values(log, topic, 0) == [b"%d" % n for n in range(40)]
    assert await values(log, topic, 0, 37) == [b"37", b"38", b"39"]
    assert await values(log, topic, 0, 40) == []
    assert await values(log, topic, 1) == [b"other"]


async def test_records_of_turns_are_there_after_a_reopening(harness: LogHarness, names: Names):
    log = await harness.open()
    task = await log.open_task(1)
    for n in range(3):
        await task.commit(Turn([told(names, b"%d" % n, 1)], {b"key": b"%d" % n}))
    log = await harness.open()
    await harness.settled(told(names, b"").topic)
    assert await values(log, told(names, b"").topic, 1) == [b"0", b"1", b"2"]

"""A process that uses a data directory until it is killed: `local_child.py PATH MODE SYNC`."""

from __future__ import annotations

import asyncio
import resource
import signal
import sys
from itertools import count
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).parents[3]))

from tpf_streams.errors import LogError
from tpf_streams.logs.local import LocalLog, SyncMode
from tpf_streams.ports import Record, TopicPartition, Turn
from tpf_streams.stores.rocksdb import RocksDbStateStore

EVENTS = "app-events"


def tell(text: object) -> None:
    print(text, flush=True)


async def turns(log: LocalLog) -> None:
    """Three records, three rows and a position a turn; a line when it is acknowledged."""
    await log.append([Record(EVENTS, None, b"event 0", (), 0)])
    task = await log.open_task(0)
    for n in count():
        (record,) = await task.poll(1)
        outputs = [Record("outputs", None, b"%d" % n)] * 3
        following = Record(EVENTS, None, b"event %d" % (n + 1), (), 0)
        rows: dict[bytes, bytes | None] = {b"turn": b"%d" % n, b"row%da" % n: b"x" * 900, b"row%db" % n: b"x"}
        await task.commit(Turn([*outputs, following], rows, {TopicPartition(EVENTS, 0): record.offset + 1}))
        tell(n)


async def full(log: LocalLog) -> None:
    """Commit until the disk is full; then try again, and try to open again."""
    task = await log.open_task(0)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        for n in count():
            await task.commit(Turn([Record("outputs", None, b"%d" % n)], {b"row%d" % n: b"x" * 9_000}))
            tell(n)
    except LogError as error:
        tell(f"{type(error).__name__}: {error}")
    for attempt in (task.commit(Turn()), log.open_task(0)):
        try:
            await attempt
        except LogError as error:
            tell(f"{type(error).__name__}: {error}")
    await log.close()


async def hold(log: LocalLog) -> None:
    tell("open")
    await asyncio.sleep(600)


async def main(path: str, mode: str, sync: str) -> None:
    sync_mode = cast(SyncMode, sync)
    log = LocalLog.open(path, RocksDbStateStore, partitions=2, sync=sync_mode, memory_bytes=4 * 1024 * 1024)
    await {"turns": turns, "full": full, "hold": hold}[mode](log)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

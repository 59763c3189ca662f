"""Syncs in the background: one at a time, and every write behind one of them."""

from __future__ import annotations

import asyncio
import threading

from tpf_streams.errors import LogError
from tpf_streams.logs.local.syncer import Syncer


class SlowDisk:
    """Its first sync takes until it may end."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.may_end = threading.Event()
        self.syncs = 0

    def sync(self) -> None:
        self.syncs += 1
        self.began.set()
        assert self.may_end.wait(10)


async def test_a_write_during_a_long_sync_has_a_sync_of_its_own():
    disk = SlowDisk()
    syncer = Syncer(disk.sync, "interval", 1, lambda error: LogError(str(error)))
    await syncer.settle(lambda: None, durable=True)
    async with asyncio.timeout(10):
        while not disk.began.is_set():
            await asyncio.sleep(0.001)
        await syncer.settle(lambda: None, durable=True)
        await asyncio.sleep(0.02)
        assert disk.syncs == 1, "its time has come while the first sync still runs"
        disk.may_end.set()
        while disk.syncs < 2:
            await asyncio.sleep(0.001)
    await syncer.close()

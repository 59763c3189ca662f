"""One opened partition of a memory log."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tpf_streams.errors import TaskLostError
from tpf_streams.logs.memory.state import MemoryPartition
from tpf_streams.logs.waiting import wait_any, wake
from tpf_streams.ports import InputRecord, ReadableStore, Turn

if TYPE_CHECKING:
    from tpf_streams.logs.memory.log import MemoryLog


class MemoryTaskLog:
    """TaskLog of one incarnation."""

    def __init__(
        self, log: MemoryLog, inputs: MemoryPartition, incarnation: int, store: ReadableStore, position: int
    ) -> None:
        self._log = log
        self._inputs = inputs
        self.partition = inputs.name.partition
        self.incarnation = incarnation
        self.store = store
        self.distant = log.distant
        self._cursor = position
        self._fenced = False
        self._closed = False

    @property
    def position(self) -> int:
        return self._cursor

    async def poll(self, max_records: int) -> list[InputRecord]:
        if self._closed or (self._fenced and not self._log.fence_at_commit_only):
            self.check()
        records, self._cursor = self._inputs.fetch(self._cursor, max_records)
        return records

    async def wait(self, timeout_s: float) -> None:
        if self._closed or self._fenced or self._cursor < self._inputs.end:
            return
        if self._log.blocking_waits:
            await wait_any((self._inputs,), timeout_s)
        else:
            await asyncio.sleep(0)

    async def commit(self, turn: Turn) -> None:
        self.check()
        try:
            await self._log.travel()
            self._log.commit_turn(self, turn)
            await self._log.travel()
        except BaseException:
            # The outcome may be unknown: whoever goes on with this instance would decide on rows that may be stale.
            self._closed = True
            raise

    def hasten(self) -> None:
        """Nobody else is waited for here."""

    async def close(self) -> None:
        self.die()
        self._log.release(self)

    def check(self) -> None:
        if self._closed or self._fenced:
            why = "was opened again elsewhere" if self._fenced else "is closed"
            raise TaskLostError(f"partition {self.partition}, incarnation {self.incarnation} {why}")

    def fence(self) -> None:
        self._fenced = True
        wake(self._inputs)

    def die(self) -> None:
        self._closed = True
        wake(self._inputs)

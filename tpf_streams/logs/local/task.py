"""One opened partition of a local log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpf_streams.errors import TaskLostError
from tpf_streams.logs.local import keys
from tpf_streams.logs.local.partition import LocalPartition
from tpf_streams.logs.local.store import TaskRows
from tpf_streams.logs.waiting import wait_any, wake
from tpf_streams.ports import InputRecord, ReadableStore, Turn

if TYPE_CHECKING:
    from tpf_streams.logs.local.log import LocalLog


class LocalTaskLog:
    """TaskLog of one incarnation."""

    distant = False

    def __init__(self, log: LocalLog, inputs: LocalPartition, incarnation: int, position: int) -> None:
        self._log = log
        self._journal = log.journal
        self._inputs = inputs
        self.partition = inputs.name.partition
        self.incarnation = incarnation
        self.store: ReadableStore = TaskRows(log.journal.store, self.partition)
        self._prefix = keys.rows_prefix(self.partition)
        self._cursor = position
        self._lost: str | None = None

    @property
    def position(self) -> int:
        return self._cursor

    async def poll(self, max_records: int) -> list[InputRecord]:
        self.check()
        records, self._cursor = self._inputs.fetch(self._cursor, max_records)
        return records

    async def wait(self, timeout_s: float) -> None:
        if self._lost is None and self._cursor >= self._inputs.end:
            await wait_any((self._inputs,), timeout_s)

    async def commit(self, turn: Turn) -> None:
        self.check()
        journal, prefix, task = self._journal, self._prefix, self.partition
        try:
            batch = {prefix + key: value for key, value in turn.rows.items()}
            journal.move_task(task, turn.positions, batch)
            publish = journal.write(turn.records, batch)
            journal.task_moved(task, turn.positions)
            await self._log.syncer.settle(publish, durable=True)
        except BaseException:
            # Also when cancelled: the turn may hold, and rows read before it are stale.
            self.lose("had a commit that failed or was cancelled")
            raise

    def hasten(self) -> None:
        """Nobody else is waited for here."""

    async def close(self) -> None:
        self.lose("is closed")
        self._log.release(self)

    def check(self) -> None:
        if self._lost is not None:
            raise TaskLostError(f"partition {self.partition}, incarnation {self.incarnation} {self._lost}")

    def lose(self, why: str) -> None:
        self._lost = self._lost or why
        wake(self._inputs)

"""The tasks of one process: opened together, driven side by side, opened anew when their log gives them up."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence

from tpf_streams.engine.clock import first_of
from tpf_streams.engine.environment import Environment
from tpf_streams.engine.task import Task
from tpf_streams.errors import LogCorruptError, LogFailedError, LogOwnedError

log = logging.getLogger(__name__)

IDLE_WAIT_S = 1.0
BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.05, 5.0
FAILURES_ALONE = 3
"""A turn that fails this often is tried event by event, so that one bad neighbour shows itself."""


class Worker:
    """Runs the tasks of the given partitions until stopped.

    `fatal` is set when a log cannot be used any more (full disk, corrupt journal): going on would only lose more.
    """

    def __init__(self, environment: Environment, partitions: Sequence[int] | None = None) -> None:
        self.environment = environment
        self.partitions = list(range(environment.log.partitions)) if partitions is None else list(partitions)
        self.tasks: dict[int, Task] = {}
        self.fatal: BaseException | None = None
        self.reopened = 0
        self._failures: Counter[int] = Counter()

    async def open(self) -> None:
        """Open every task. No slot is granted before all are open (contract 0.17)."""
        for partition in self.partitions:
            self.environment.budgets.begin_opening(partition)
        for partition in self.partitions:
            await self.open_task(partition)

    async def open_task(self, partition: int, *, batch_max: int | None = None) -> Task:
        task = Task(partition, self.environment, batch_max=batch_max)
        try:
            await task.open()
        except BaseException:
            await task.close()
            raise
        self.tasks[partition] = task
        return task

    async def close(self) -> None:
        for task in list(self.tasks.values()):
            await task.close()
        self.tasks.clear()
        for partition in self.partitions:
            self.environment.budgets.end_opening(partition)

    async def run(self, stop: asyncio.Event) -> None:
        """Drive all tasks until `stop` is set; raises `fatal` if there is one."""
        loops = [asyncio.ensure_future(self._drive(partition, stop)) for partition in self.partitions]
        try:
            await asyncio.gather(*loops)
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            await self.close()

    async def advance(self, partition: int) -> bool:
        """One turn of the partition's task, which is opened first if need be; whether there was anything to do.

        After any exception the task is closed, and the next call opens it anew.
        """
        try:
            moved = await (self.tasks.get(partition) or await self._reopen(partition)).turn()
        except Exception:
            self._failures[partition] += 1
            await self._drop(partition)
            raise
        if moved:
            del self._failures[partition]
        return moved

    async def _drive(self, partition: int, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                if await self.advance(partition):
                    await asyncio.sleep(0)
                else:
                    await self._wait(self.tasks[partition], stop)
            except (LogOwnedError, LogCorruptError, LogFailedError) as error:
                self.fatal = error
                stop.set()
                raise
            except Exception:
                log.exception("partition %d lost its turn and is opened anew", partition)
                await self._drop(partition)
                await first_of(stop, self.environment.clock.sleep(backoff_s(self._failures[partition])))

    async def _reopen(self, partition: int) -> Task:
        self.reopened += 1
        alone = self._failures[partition] >= FAILURES_ALONE
        return await self.open_task(partition, batch_max=1 if alone else None)

    def take(self, partition: int) -> None:
        """The partition is assigned to this process; `advance` opens its task."""
        if partition not in self.partitions:
            self.partitions.append(partition)
            self.environment.budgets.begin_opening(partition)

    async def give_up(self, partition: int) -> None:
        """The partition is revoked: its task is closed, and what it held is free for the others."""
        if partition in self.partitions:
            self.partitions.remove(partition)
        await self._drop(partition)
        self.environment.budgets.end_opening(partition)

    async def _drop(self, partition: int) -> None:
        """Close a task that is to be opened anew: what it has open stays open outside, so its slots stay taken."""
        task = self.tasks.pop(partition, None)
        if partition in self.partitions:
            self.environment.budgets.begin_opening(partition)
        if task is not None:
            await task.close()

    async def _wait(self, task: Task, stop: asyncio.Event) -> None:
        """Until input comes, local work is done, a deadline is near, or the worker stops."""
        await first_of(stop, task.wait(self._idle_s(task)), task.wake.wait())

    def _idle_s(self, task: Task) -> float:
        now_ms = self.environment.clock.now_ms()
        if task.sweep.quiet(task.state, now_ms + round(IDLE_WAIT_S * 1000)):
            return IDLE_WAIT_S
        next_ms = task.sweep.next_ms(task.state)
        if next_ms is None:
            return IDLE_WAIT_S
        return min(max((next_ms + 1 - now_ms) / 1000, 0.01), IDLE_WAIT_S)


def backoff_s(failures: int) -> float:
    """Seconds before the next opening. The exponent is bounded: a partition may fail for days."""
    return float(min(BACKOFF_FIRST_S * 2 ** min(failures, 30), BACKOFF_MAX_S))

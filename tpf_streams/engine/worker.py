"""The tasks of one process: opened together, driven side by side, opened anew when their log gives them up."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Collection, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from tpf_streams.engine.clock import first_of
from tpf_streams.engine.environment import Environment
from tpf_streams.engine.owners import Owner, owner_record, owners_topic
from tpf_streams.engine.task import Task
from tpf_streams.errors import LogCorruptError, LogFailedError, LogMismatchError, LogOwnedError, TaskLostError
from tpf_streams.ports import Turn

log = logging.getLogger(__name__)

IDLE_WAIT_S = 1.0
BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.05, 5.0
ENDING_S = 5.0
"""A turn under way is waited for this long: less than a group waits for its members, and than a stop may take."""
SLOW_TURN_S = 30.0
FAILURES_ALONE = 3
"""A turn that fails this often is tried event by event, so that one bad neighbour shows itself."""


@dataclass(slots=True)
class _Driver:
    """What drives one partition. `ended` set: it finishes the turn under way and returns."""

    ended: asyncio.Event
    running: asyncio.Task[None]
    turn_began_s: float | None = None


class Worker:
    """Runs the tasks of the partitions that the log gives to this process: a `ports.TaskGroup`.

    `fatal` is set when a log cannot be used any more (full disk, corrupt journal): going on would only lose more.
    """

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.partitions: list[int] = []
        self.tasks: dict[int, Task] = {}
        self.fatal: BaseException | None = None
        self.reopened = 0
        self._failures: Counter[int] = Counter()
        self._drivers: dict[int, _Driver] = {}
        self._stop: asyncio.Event | None = None

    @property
    def ready(self) -> bool:
        """Whether every partition of this process is restored and open."""
        return all(partition in self.tasks for partition in self.partitions)

    async def open(self) -> None:
        """Join, and open every task. No slot is granted before all are open (contract 0.17)."""
        await self.environment.log.join(self)
        partitions = list(self.partitions)
        opened = await asyncio.gather(*map(self.open_task, partitions), return_exceptions=True)
        for partition, found in zip(partitions, opened, strict=True):
            if isinstance(found, TaskLostError):
                # Revoked again meanwhile, or fenced: whoever drives the partition opens it anew.
                log.warning("partition %d was lost while it was opened: %s", partition, found)
            elif isinstance(found, BaseException):
                raise found

    async def open_task(self, partition: int, *, batch_max: int | None = None) -> Task:
        task = Task(partition, self.environment, batch_max=batch_max)
        try:
            await task.open()
            await self._tell_owner(task)
            if partition not in self.partitions:
                raise TaskLostError(f"partition {partition} was revoked while it was opened")
        except BaseException:
            await task.close()
            if partition not in self.partitions:
                # An opening that nobody ends would hold every grant of this process for good.
                self.environment.budgets.end_opening(partition)
            raise
        self.tasks[partition] = task
        return task

    async def _tell_owner(self, task: Task) -> None:
        """Tell the other workers who has the partition, by the task's own transaction: a zombie's would fail."""
        us = self.environment.advertised
        if us is not None:
            topic = owners_topic(self.environment.definition.application_id)
            owner = Owner(task.partition, us.worker_id, us.url, task.log.incarnation)
            await task.log.commit(Turn([owner_record(topic, owner)]))

    async def close(self) -> None:
        """Side by side: without its broker a task may last seconds, and a stop has ten for everything."""
        tasks = list(self.tasks.values())
        for partition in list(self.tasks):
            self._forget(partition)
        try:
            await _all_of(task.close() for task in tasks)
        finally:
            self._end_openings()

    def _end_openings(self) -> None:
        for partition in self.partitions:
            self.environment.budgets.end_opening(partition)

    async def run(self, stop: asyncio.Event) -> None:
        """Drive all tasks until `stop` is set; raises `fatal` if there is one."""
        self._stop = stop
        for partition in self.partitions:
            self._begin(partition)
        try:
            await first_of(stop, self._watch())
        finally:
            self._stop = None
            await self._end(list(self._drivers))
            await self.close()
        if self.fatal is not None:
            raise self.fatal

    def assigned(self, partitions: Collection[int]) -> None:
        for partition in partitions:
            self.take(partition)
            if self._stop is not None:
                self._begin(partition)

    async def revoked(self, partitions: Collection[int]) -> None:
        await self._end(partitions)
        await asyncio.gather(*map(self.give_up, partitions))

    def _begin(self, partition: int) -> None:
        if partition not in self._drivers:
            ended = asyncio.Event()
            self._drivers[partition] = _Driver(ended, asyncio.ensure_future(self._drive(partition, ended)))

    async def _end(self, partitions: Collection[int]) -> None:
        """Let the turns under way finish. One that lasts too long is cancelled, since everybody waits for it; its
        commit, if it has come so far, is waited for all the same, for as long as anything may answer it."""
        drivers = [self._drivers.pop(partition) for partition in partitions if partition in self._drivers]
        for driver in drivers:
            driver.ended.set()
        for partition in partitions:
            if partition in self.tasks:
                self.tasks[partition].hasten()
        running = [driver.running for driver in drivers]
        if running:
            _, late = await asyncio.wait(running, timeout=ENDING_S)
            for each in late:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _watch(self) -> None:
        """Tell of turns that do not end: heartbeats go on beside them, so nobody else would notice."""
        while True:
            await asyncio.sleep(SLOW_TURN_S / 2)
            now_s = time.monotonic()
            for partition, driver in self._drivers.items():
                if driver.turn_began_s is not None and now_s - driver.turn_began_s > SLOW_TURN_S:
                    log.error("partition %d: its turn has lasted %.0f s", partition, now_s - driver.turn_began_s)

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

    async def _drive(self, partition: int, ended: asyncio.Event) -> None:
        while not ended.is_set():
            try:
                if partition not in self.tasks:
                    # A restore may last: whoever takes the partition away need not wait for its end.
                    await first_of(ended, self._timed(partition))
                elif await self._timed(partition):
                    await asyncio.sleep(0)
                else:
                    await self._wait(self.tasks[partition], ended)
            except (LogOwnedError, LogCorruptError, LogFailedError, LogMismatchError) as error:
                self._fail(error)
                return
            except Exception as error:
                self._tell(partition, error)
                await self._drop(partition)
                await first_of(ended, self.environment.clock.sleep(backoff_s(self._failures[partition])))

    def _tell(self, partition: int, error: Exception) -> None:
        """A task lost to a rebalance or a fencing is the log's daily business; anything else needs its traceback."""
        if isinstance(error, TaskLostError):
            log.warning("partition %d is opened anew: %s", partition, error)
        else:
            log.exception("partition %d lost its turn and is opened anew", partition)

    async def _timed(self, partition: int) -> bool:
        driver = self._drivers.get(partition)
        if driver is None:
            return False
        driver.turn_began_s = time.monotonic()
        try:
            return await self.advance(partition)
        finally:
            driver.turn_began_s = None

    def _fail(self, error: BaseException) -> None:
        self.fatal = self.fatal or error
        if self._stop is not None:
            self._stop.set()

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
        task = self._forget(partition)
        if partition in self.partitions:
            self.environment.budgets.begin_opening(partition)
        if task is not None:
            try:
                await task.close()
            except Exception:
                # It must not end the driver, nor stand for the failure that the task is dropped for.
                log.exception("partition %d was not closed well", partition)

    def _forget(self, partition: int) -> Task | None:
        self.environment.answers.lose(partition)
        return self.tasks.pop(partition, None)

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


async def _all_of(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Side by side, each to its end; then raises the first failure."""
    for found in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(found, BaseException):
            raise found


def backoff_s(failures: int) -> float:
    """Seconds before the next opening. The exponent is bounded: a partition may fail for days."""
    return float(min(BACKOFF_FIRST_S * 2 ** min(failures, 30), BACKOFF_MAX_S))

"""A worker small enough to see through, to be run as a process and killed: copies events to outputs and counts them.

    python -m tests.integration.toy_worker BOOTSTRAP APPLICATION_ID DATA_DIR

It prints "has 0,1" whenever its partitions change, and goes on until its input is closed. At SIGUSR1 it stops itself
(SIGSTOP) with records in its hand, right before their commit: woken up, it commits before it can know that it was away.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Collection
from pathlib import Path

from tests.integration.logs import opened
from tpf_streams.errors import TaskLostError
from tpf_streams.logs.kafka import KafkaLog, TopicSpec, TopicUse
from tpf_streams.ports import InputRecord, Record, TaskLog, TopicPartition, Turn

PARTITIONS = 4
SESSION_MS = 6_000
TRANSACTION_MS = 3_000
COUNTER = b"00seen"
RETRY_S = 0.05


class Worker:
    """A TaskGroup with one loop a partition. A loop opens its task anew as long as it has the partition."""

    def __init__(self, outputs: str) -> None:
        self.log: asyncio.Future[KafkaLog] = asyncio.get_running_loop().create_future()
        self._outputs = outputs
        self._freeze = False
        self._ended: dict[int, asyncio.Event] = {}
        self._loops: dict[int, asyncio.Task[None]] = {}

    def freeze(self) -> None:
        self._freeze = True

    def assigned(self, partitions: Collection[int]) -> None:
        for partition in partitions:
            self._ended[partition] = asyncio.Event()
            self._loops[partition] = asyncio.ensure_future(self._run(partition, self._ended[partition]))
        self._tell()

    async def revoked(self, partitions: Collection[int]) -> None:
        mine = [partition for partition in partitions if partition in self._loops]
        for partition in mine:
            self._ended[partition].set()
        await asyncio.gather(*(self._loops.pop(partition) for partition in mine))
        self._tell()

    def _tell(self) -> None:
        print("has", ",".join(map(str, sorted(self._loops))), flush=True)

    async def _run(self, partition: int, ended: asyncio.Event) -> None:
        log = await self.log
        while not ended.is_set():
            with contextlib.suppress(TaskLostError):
                task = await log.open_task(partition)
                try:
                    await self._turns(task, ended)
                finally:
                    await task.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), RETRY_S)

    async def _turns(self, task: TaskLog, ended: asyncio.Event) -> None:
        while not ended.is_set():
            found = await task.poll(10)
            if found:
                await task.commit(self._turn(task, found))
            else:
                await task.wait(0.1)

    def _turn(self, task: TaskLog, found: list[InputRecord]) -> Turn:
        """Each output tells how many came before it: a turn done twice, or left out, shows in the numbers too."""
        seen = int(task.store.get(COUNTER) or b"0")
        records = [
            Record(self._outputs, b"%d" % (seen + n), record.value, (), task.partition)
            for n, record in enumerate(found)
        ]
        if self._freeze:
            self._freeze = False
            os.kill(os.getpid(), signal.SIGSTOP)
        last = found[-1]
        position = {TopicPartition(last.topic, last.partition): last.offset + 1}
        return Turn(records, {COUNTER: b"%d" % (seen + len(found))}, position)


def outputs_of(application_id: str) -> TopicSpec:
    return TopicSpec(f"{application_id}-outputs", TopicUse.OUTPUTS, PARTITIONS)


async def main(bootstrap: str, application_id: str, data_dir: str) -> None:
    topic = outputs_of(application_id)
    worker = Worker(topic.name)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, worker.freeze)
    async with opened(
        bootstrap,
        application_id,
        Path(data_dir),
        joined=False,
        partitions=PARTITIONS,
        topics=[topic],
        session_timeout_ms=SESSION_MS,
        transaction_timeout_ms=TRANSACTION_MS,
    ) as log:
        worker.log.set_result(log)
        await log.join(worker)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""The only broker dies right behind a commit, again and again: what was committed is there afterwards, and only that.

    python -m tests.integration.broker_loss 20

A node that comes back alone sometimes calls a transaction complete without having written its markers (Kafka 4.4.0:
the coordinator is loaded before the node knows who leads the partitions, and skips them). Their records are then
committed and cannot be read, until the same transactional id ends another transaction in the same partition.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from aiokafka import TopicPartition as KafkaPartition

from tests.integration.clients import end_offset, fresh
from tests.integration.kafka_broker import KraftBroker
from tests.integration.logs import changelog_of, committed, opened
from tpf_streams.errors import TaskLostError
from tpf_streams.logs.kafka import KafkaLog, TopicSpec, TopicUse
from tpf_streams.logs.kafka.task import KafkaTaskLog
from tpf_streams.ports import Record, Turn

PARTITIONS = 4
TURNS = 30
"""Of a round, before the kill: so many that one is under way in each partition when it comes."""


@dataclass
class Loss:
    """One application that writes a row and an output a turn, and the broker under it."""

    broker: KraftBroker
    application: str = field(default_factory=lambda: fresh("app"))
    returned: set[bytes] = field(default_factory=set)
    markers_missing: int = 0

    def __post_init__(self) -> None:
        self.outputs = f"{self.application}-outputs"
        self.topics = [TopicSpec(self.outputs, TopicUse.OUTPUTS, PARTITIONS)]
        self._numbers = itertools.count()
        self._done = 0

    async def round(self, directory: Path) -> None:
        """Begun with an empty directory, by a worker that reads all of the changelog."""
        async with opened(
            self.broker.bootstrap_servers, self.application, directory, partitions=PARTITIONS, topics=self.topics
        ) as log:
            await self.check(log)
            await self.work(log)
            await self.check(log)  # the same worker, with the local copy that it has

    async def work(self, log: KafkaLog) -> None:
        """Turns in every partition until the broker has died and come back."""
        self._done = 0
        over = asyncio.Event()
        await asyncio.gather(*(self._turns(log, partition, over) for partition in range(PARTITIONS)))

    async def _turns(self, log: KafkaLog, partition: int, over: asyncio.Event) -> None:
        task = await log.open_task(partition)
        try:
            while not over.is_set():
                value = b"%05d" % next(self._numbers)
                await task.commit(Turn([Record(self.outputs, value, value)], {b"00" + value: b"v"}))
                self.returned.add(value)
                self._done += 1
                if self._done == TURNS:
                    self.broker.kill()
                    self.broker.restart()
                    over.set()
                    self.markers_missing += await self._hidden()
        except TaskLostError:
            pass  # nobody knows what became of that turn: it must hold whole or not at all
        finally:
            await task.close()

    async def check(self, log: KafkaLog) -> None:
        rows: set[bytes] = set()
        for partition in range(PARTITIONS):
            task = await reopened(log, partition)
            rows |= {key[2:] for key, _ in task.store.scan(b"00", b"01")}
            await task.close()
        assert rows >= self.returned, f"committed rows are missing: {sorted(self.returned - rows)}"
        found = [record.value or b"" for record in await committed(self.broker.bootstrap_servers, log, self.outputs)]
        assert len(found) == len(set(found)), "an output came twice"
        shown = set(found)
        assert shown == rows, (
            f"turns hold by half: rows alone {sorted(rows - shown)}, outputs alone {sorted(shown - rows)}"
        )

    async def _hidden(self) -> int:
        """Partitions with records behind the last stable one: no transaction is open that anybody would end."""
        bootstrap, hidden = self.broker.bootstrap_servers, 0
        for partition in range(PARTITIONS):
            for at in (changelog_of(self.application, partition), KafkaPartition(self.outputs, partition)):
                hidden += await end_offset(bootstrap, at) < await end_offset(bootstrap, at, "read_uncommitted")
        return hidden


async def reopened(log: KafkaLog, partition: int) -> KafkaTaskLog:
    """As a worker does it: again, until the group has this member back."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await log.open_task(partition)
            except TaskLostError:
                await asyncio.sleep(0.2)


async def main(count: int) -> None:
    with KraftBroker() as broker, tempfile.TemporaryDirectory() as directory:
        loss = Loss(broker)
        for number in range(count):
            await loss.round(Path(directory, str(number)))
            print(f"{number + 1} kills, {len(loss.returned)} turns, {loss.markers_missing} markers missing", flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))

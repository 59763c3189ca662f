"""The memory log of the simulation: openings and reader groups can fail too, and a record can be looked up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import Random

from tpf_streams.errors import LogError
from tpf_streams.logs.memory import CommitFaults, MemoryLog, MemoryTaskLog, SyncMode
from tpf_streams.ports import Clock, InputRecord, Record, TopicPartition


class OpeningFailedError(LogError):
    """A task could not be opened."""


class GroupCommitLostError(LogError):
    """A reader's commit raised; `held` says what the reader is not told."""


def draw_ways(rng: Random) -> Callable[[], int] | None:
    """How far the log of a seed is away, commit by commit; None: not at all."""
    return (lambda: rng.randrange(4)) if rng.random() < 0.5 else None


class SimLog(MemoryLog):
    """MemoryLog with two more places to fail. A fault strikes once: arm it again for the next.

    `ways`: how many rounds of the loop a commit takes there, and back; None for a log that is not distant.
    """

    def __init__(
        self,
        application_id: str,
        partitions: int,
        topics: Mapping[str, int],
        clock: Clock,
        faults: CommitFaults,
        *,
        sync: SyncMode,
        fence_at_commit_only: bool,
        ways: Callable[[], int] | None,
    ) -> None:
        super().__init__(
            application_id=application_id,
            partitions=partitions,
            topics=topics,
            clock=clock,
            sync=sync,
            sync_interval_ms=2_000,
            faults=faults,
            fence_at_commit_only=fence_at_commit_only,
            distant=ways is not None,
        )
        self._ways = ways
        self.refuse_openings = 0
        self.lose_group_commit: bool | None = None
        """True: the next commit of a group raises and holds; False: it raises and does not hold."""
        self.opened: Callable[[int], None] = lambda partition: None

    async def travel(self) -> None:
        """As long as the seed says: meanwhile turns are decided on what is not committed yet."""
        for _ in range(self._ways() if self._ways else 0):
            await asyncio.sleep(0)

    async def open_task(self, partition: int) -> MemoryTaskLog:
        if self.refuse_openings > 0:
            self.refuse_openings -= 1
            raise OpeningFailedError(f"partition {partition} cannot be opened now")
        task = await super().open_task(partition)
        self.opened(partition)
        return task

    async def commit_group(
        self, group: str, positions: Mapping[TopicPartition, int], records: Sequence[Record]
    ) -> None:
        lose, self.lose_group_commit = self.lose_group_commit, None
        if lose is not False:
            await super().commit_group(group, positions, records)
        if lose is not None:
            raise GroupCommitLostError(f"the commit of group {group} was lost from sight")

    async def append_one(self, record: Record) -> tuple[str, int, int]:
        """Append, and say where: topic, partition, offset."""
        before = dict(self.ends(record.topic))
        await self.append([record])
        part, end = next((part, end) for part, end in self.ends(record.topic) if end != before.get(part, 0))
        return part.topic, part.partition, end - 1

    def record(self, topic: str, partition: int, offset: int) -> InputRecord:
        found = self._state.topic(topic)[partition].records[offset]
        assert found is not None, "an aborted record has no place to be looked up by"
        return found

    def committed(self, topic: str, partition: int) -> list[InputRecord]:
        """The records of one partition that hold."""
        return [record for record in self._state.topic(topic)[partition].records if record is not None]

    def ends(self, topic: str) -> list[tuple[TopicPartition, int]]:
        """The end of each partition of a topic."""
        return [(part.name, part.end) for part in self._state.topic(topic)]

"""Reader groups of a log that lives in one process: who reads which partition, and the reader itself.

Partitions are dealt out among the open readers of a group. A reader that keeps a partition keeps its cursor; one that
gains it starts at the committed position, so what a predecessor polled and did not commit is read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from tpf_streams.errors import TaskLostError
from tpf_streams.logs.waiting import wait_any, wake
from tpf_streams.ports import InputRecord, Record, TopicPartition


class ReadablePartition(Protocol):
    """One partition of one topic, as a reader needs it."""

    @property
    def name(self) -> TopicPartition: ...

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...

    @property
    def waiters(self) -> set[asyncio.Event]: ...

    def fetch(self, offset: int, limit: int) -> tuple[list[InputRecord], int]:
        """At most `limit` records from `offset`, and the offset to go on from."""
        ...


class GroupJournal(Protocol):
    """What a reader needs of the log behind it."""

    blocking_waits: bool

    async def commit_group(
        self, group: str, positions: Mapping[TopicPartition, int], records: Sequence[Record]
    ) -> None:
        """Append `records` and store `positions`, together."""
        ...


class ReaderGroup:
    """The open readers of one group, and the position behind which each partition is done."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.committed: dict[TopicPartition, int] = {}
        self.readers: list[GroupReader] = []

    def join(self, reader: GroupReader) -> None:
        self.readers.append(reader)
        self._deal()

    def leave(self, reader: GroupReader) -> None:
        if reader in self.readers:
            self.readers.remove(reader)
            self._deal()

    def dissolve(self) -> None:
        """The process died: nobody says goodbye."""
        readers, self.readers = self.readers, []
        for reader in readers:
            reader.lose()

    def _deal(self) -> None:
        partitions = {part.name: part for reader in self.readers for part in reader.subscribed}
        for name in sorted(partitions, key=lambda part: (part.topic, part.partition)):
            takers = [reader for reader in self.readers if partitions[name] in reader.subscribed]
            owner = takers[name.partition % len(takers)]
            for reader in takers:
                reader.assign(partitions[name], owned=reader is owner)


class GroupReader:
    """RecordReader over the partitions that the group deals to it."""

    def __init__(self, journal: GroupJournal, group: ReaderGroup, subscribed: Sequence[ReadablePartition]) -> None:
        self._journal = journal
        self._group = group
        self.subscribed = list(subscribed)
        self._cursors: dict[ReadablePartition, int] = {}
        self._turn = 0
        self._lost = False
        group.join(self)

    def assign(self, partition: ReadablePartition, *, owned: bool) -> None:
        if not owned:
            self._cursors.pop(partition, None)
        elif partition not in self._cursors:
            self._cursors[partition] = max(self._group.committed.get(partition.name, 0), partition.start)
            wake(partition)

    def lose(self) -> None:
        self._lost = True
        for partition in self._cursors:
            wake(partition)

    async def poll(self, max_records: int) -> list[InputRecord]:
        self._check()
        found: list[InputRecord] = []
        for partition in self._in_turn():
            if len(found) >= max_records:
                break
            records, self._cursors[partition] = partition.fetch(self._cursors[partition], max_records - len(found))
            found = found + records if found else records
        return found

    async def wait(self, timeout_s: float) -> None:
        if self._lost or any(cursor < partition.end for partition, cursor in self._cursors.items()):
            return
        if self._journal.blocking_waits:
            # A reader without partitions waits on what it may be dealt, so that it notices a hand-over.
            await wait_any(self._cursors or self.subscribed, timeout_s)
        else:
            await asyncio.sleep(0)

    async def commit(
        self, records: Sequence[Record] = (), positions: Mapping[TopicPartition, int] | None = None
    ) -> None:
        self._check()
        committed = self._group.committed
        mine = self.positions()
        wanted = mine if positions is None else {name: at for name, at in positions.items() if name in mine}
        moved = {name: at for name, at in wanted.items() if at > committed.get(name, 0)}
        if moved or records:
            try:
                await self._journal.commit_group(self._group.name, moved, records)
            except BaseException:
                self._abandon()
                raise

    def positions(self) -> dict[TopicPartition, int]:
        return {partition.name: cursor for partition, cursor in self._cursors.items()}

    async def close(self) -> None:
        self._abandon()

    def _abandon(self) -> None:
        """After a commit of unknown outcome the cursors are a guess; only a new reader may go on."""
        self._lost = True
        self._group.leave(self)

    def _check(self) -> None:
        if self._lost:
            raise TaskLostError(f"this reader of group {self._group.name!r} is closed; open a new one")

    def _in_turn(self) -> list[ReadablePartition]:
        """Begin with another partition each time: one busy partition must not starve the rest."""
        partitions = list(self._cursors)
        if len(partitions) > 1:
            self._turn = (self._turn + 1) % len(partitions)
            return partitions[self._turn :] + partitions[: self._turn]
        return partitions

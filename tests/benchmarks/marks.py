"""Marks in a system-call trace: harmless writes to /dev/null that say what the process knows at that moment.

begin N REQUESTS OUTPUTS   turn N is about to be written, with so many requests and outputs
stored                     what was just written to the store has been handed to the operating system
hold N                     the commit of turn N has returned: the engine takes it for durable
seen FIRST END             the provider has been given the requests FIRST to END - 1, counted from the first turn on
end                        the run is over
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from tests.benchmarks.noted import Listener
from tests.benchmarks.payments import OUTPUTS, REQUESTS
from tpf_streams.ports import InputRecord, Turn
from tpf_streams.stores.rocksdb import RocksDbStateStore

PREFIX = "tpf-mark "

_null = os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)


def mark(*words: object) -> None:
    os.write(_null, (PREFIX + " ".join(map(str, words))).encode())


class MarkedStore(RocksDbStateStore):
    def write(self, rows: Mapping[bytes, bytes | None]) -> None:
        super().write(rows)
        mark("stored")


class MarkListener(Listener):
    """A turn is known by its number: every call of `committing` is followed at once by the write of that turn."""

    def __init__(self) -> None:
        self._turns = 0
        self._open: dict[int, int] = {}

    def committing(self, partition: int, turn: Turn) -> None:
        number = self._open[partition] = self._turns
        self._turns += 1
        topics = [record.topic for record in turn.records]
        mark("begin", number, topics.count(REQUESTS), topics.count(OUTPUTS))

    def committed(self, partition: int, turn: Turn) -> None:
        mark("hold", self._open.pop(partition))

    def read(self, topics: Sequence[str], records: Sequence[InputRecord]) -> None:
        if REQUESTS in topics:
            mark("seen", records[0].offset, records[-1].offset + 1)

    def figures(self) -> dict[str, int]:
        mark("end")
        return {"turns": self._turns}

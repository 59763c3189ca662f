"""`tpf-streams` that dies of SIGKILL at one point of its work, the first time it comes there.

python -m tests.integration.dying POINT WORDS...; POINT is a name of `POINTS`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Collection
from typing import Any, cast

from aiokafka import AIOKafkaProducer

from tpf_streams.cli.main import main
from tpf_streams.logs.kafka import restore
from tpf_streams.logs.kafka.stores import TaskStore

RESTORED_MAX = 20
"""Records of the first batch of a restore, so that it dies with more to come."""


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Requests:
    """Which producers have a request in their open transaction."""

    def __init__(self) -> None:
        self.holders: set[AIOKafkaProducer] = set()
        send = AIOKafkaProducer.send_batch

        async def noted(producer: AIOKafkaProducer, batch: Any, topic: str, *, partition: int) -> Any:
            if topic.endswith(".requests"):
                self.holders.add(producer)
            return await send(producer, batch, topic, partition=partition)

        AIOKafkaProducer.send_batch = noted


def before_commit() -> None:
    """The broker has the request, and its transaction is open: all batches are awaited before the commit is asked."""
    requests, commit = Requests(), AIOKafkaProducer.commit_transaction

    async def dying(producer: AIOKafkaProducer) -> None:
        if producer in requests.holders:
            die()
        await commit(producer)

    AIOKafkaProducer.commit_transaction = dying


def after_commit() -> None:
    """The request is out, and its sender does not know."""
    requests, commit = Requests(), AIOKafkaProducer.commit_transaction

    async def dying(producer: AIOKafkaProducer) -> None:
        await commit(producer)
        if producer in requests.holders:
            die()

    AIOKafkaProducer.commit_transaction = dying


class HalfWay:
    """A local copy that lives until its first records are in it, with more to come."""

    def __init__(self, store: TaskStore, end: int) -> None:
        self._store, self._end = store, end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def apply(self, entries: Collection[Any], epoch: str, next_offset: int, now_ms: int) -> None:
        self._store.apply(entries, epoch, next_offset, now_ms)
        if len(entries) == RESTORED_MAX and next_offset < self._end:
            die()


def while_restored() -> None:
    """A part of a changelog is in the local copy, and the rest is not."""
    whole = restore.Restorer.restore

    async def half(restorer: restore.Restorer, partition: int, store: TaskStore, epoch: str, end: int) -> int:
        return await whole(restorer, partition, cast(TaskStore, HalfWay(store, end)), epoch, end)

    vars(restore)["RECORDS_MAX"] = RESTORED_MAX
    restore.Restorer.restore = half  # type: ignore[method-assign, assignment]


POINTS: dict[str, Callable[[], None]] = {
    "before-commit": before_commit,
    "after-commit": after_commit,
    "while-restored": while_restored,
}

if __name__ == "__main__":
    POINTS[sys.argv.pop(1)]()
    main()

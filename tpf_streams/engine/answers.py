"""Who asked for the outcome of a completion is told it, after the commit that made it true."""

from __future__ import annotations

import asyncio

from tpf_streams.errors import TaskLostError


class Answers:
    """Open questions by origin. An answer nobody waits for is dropped: the rows hold it."""

    def __init__(self) -> None:
        self._open: dict[str, asyncio.Future[str]] = {}
        self._partitions: dict[str, int] = {}

    def expect(self, origin: str, partition: int | None = None) -> asyncio.Future[str]:
        """A future of the outcome (contract 0.4) of what carries `origin`. With the `partition` whose task decides it,
        it fails with TaskLostError when that task is lost: then another worker may decide, and tell nobody here."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._open[origin] = future
        if partition is not None:
            self._partitions[origin] = partition
            future.add_done_callback(lambda _: self._partitions.pop(origin, None))
        future.add_done_callback(lambda _: self._open.pop(origin, None))
        return future

    def lose(self, partition: int) -> None:
        """The partition's task is closed. What it was asked may be decided all the same."""
        for origin, place in list(self._partitions.items()):
            future = self._open[origin]
            if place == partition and not future.done():
                future.set_exception(TaskLostError(f"partition {partition} was lost while it decided"))
                future.exception()  # who asked may have gone: nobody need be told then

    def resolve(self, origin: str, outcome: str) -> None:
        future = self._open.get(origin)
        if future is not None and not future.done():
            future.set_result(outcome)

"""Where the rows of an id are: in this process, with another worker, or nobody knows just now.

The partition follows from the id alone (contract 0.1), so that a question never needs to be asked everywhere. Of rows
that are elsewhere nothing is said here: neither that they are missing, nor what they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tpf_streams.core.identity import partition_of, route_of
from tpf_streams.runtime.application import Application
from tpf_streams.runtime.open_log import ViewableLog
from tpf_streams.runtime.refusals import ElsewhereError


class Where(StrEnum):
    HERE = "here"
    ELSEWHERE = "elsewhere"
    """Another worker has the partition, or nobody yet."""
    OPENING = "opening"
    """This process has the partition, and has not opened it yet, or cannot be sure that it has it still: in a moment it
    is known."""
    NOWHERE = "nowhere"
    """No id of ours: it routes nowhere."""


@dataclass(frozen=True, slots=True)
class Home:
    """`partition` None: nowhere."""

    where: Where
    partition: int | None


class Whereabouts:
    """Of one process. `application` None: on a log that nobody runs, where every row is here."""

    def __init__(self, log: ViewableLog, application: Application | None = None) -> None:
        self._log = log
        self._application = application

    def of(self, ident: str) -> Home:
        """Of an execution's id, or any that carries its route."""
        route = route_of(ident)
        if route is None:
            return Home(Where.NOWHERE, None)
        partition = partition_of(route, self._log.partitions)
        return Home(self._where(partition), partition)

    def check(self, ident: str, instead: str = "ask that one") -> None:
        """Raises ElsewhereError where the rows of `ident` are not here, with what to do `instead`."""
        home = self.of(ident)
        if home.partition is None or home.where is Where.HERE:
            return
        opening = home.where is Where.OPENING
        what = "is being opened here: ask again" if opening else f"is with another worker: {instead}"
        raise ElsewhereError(
            f"partition {home.partition}, where it is waited for, {what}", home.partition, assigned=opening
        )

    def confirm(self, owned: Mapping[int, int]) -> None:
        """Raises ElsewhereError unless each of these partitions is open here, under the incarnation beside it."""
        tasks = {} if self._application is None else self._application.worker.tasks
        for partition, incarnation in owned.items():
            task = tasks.get(partition)
            if task is None or task.log.incarnation != incarnation or not self._log.is_current(partition):
                message = f"partition {partition} is not here any more as it was when this was asked"
                raise ElsewhereError(message, partition)

    def _where(self, partition: int) -> Where:
        if partition not in self._log.unseen and self._log.is_current(partition):
            return Where.HERE
        mine = self._application is not None and partition in self._application.worker.partitions
        return Where.OPENING if mine else Where.ELSEWHERE

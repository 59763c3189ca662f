"""Who listens hears at once which interactions began to wait, or wait no more: for pages that stay open.

Of this process's partitions, and nothing is kept: whoever comes late, or is too slow, lists anew.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tpf_streams.core.effects import Fact
from tpf_streams.core.interaction import InteractionRecord

CHANGES_MAX = 1_000
"""Kept for one listener: about what a page can show."""
_NAMES = frozenset({"interaction.created.total", "interaction.ended.total", "completion.admitted.total"})


@dataclass(frozen=True, slots=True)
class Change:
    """What an interaction is now."""

    interaction_id: str
    execution_id: str
    tenant_id: str
    step_id: str
    assignee: str | None
    group: str | None
    status: str


class Listener:
    """The changes of one tenant for one client, on the client's own loop."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self._loop = asyncio.get_running_loop()
        self._changes: deque[Change] = deque()
        self._some = asyncio.Event()
        self._lost = self._closed = False

    def tell(self, changes: Sequence[Change]) -> None:
        """From any thread."""
        try:
            self._loop.call_soon_threadsafe(self._take, changes)
        except RuntimeError:
            self._closed = True  # its loop has gone, and nobody reads any more

    def close(self) -> None:
        """From any thread."""
        self._closed = True
        self.tell(())

    def _take(self, changes: Sequence[Change]) -> None:
        room = CHANGES_MAX - len(self._changes)
        self._changes.extend(changes[: max(room, 0)])
        self._lost = self._lost or len(changes) > room
        self._some.set()

    async def lots(self, idle_s: float) -> AsyncIterator[tuple[list[Change], bool]]:
        """What has changed, and whether some of it was lost, since this is too slow; nothing after `idle_s` without.
        Ends when the feed is closed."""
        while not self._closed:
            try:
                async with asyncio.timeout(idle_s):
                    await self._some.wait()
            except TimeoutError:
                yield [], False
                continue
            self._some.clear()
            found, lost = list(self._changes), self._lost
            self._changes.clear()
            self._lost = False
            if found or lost:
                yield found, lost


class PendingFeed:
    """Observer. With nobody listening a turn costs one look."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()
        """Replaced as a whole: the engine's thread reads it while clients come and go."""
        self._closed = False

    def __len__(self) -> int:
        return len(self._listeners)

    def observe(self, facts: Sequence[Fact]) -> None:
        if self._listeners:
            self._tell([change for change in map(_change, facts) if change is not None])

    def _tell(self, changes: Sequence[Change]) -> None:
        for listener in self._listeners:
            found = [change for change in changes if change.tenant_id == listener.tenant]
            if found:
                listener.tell(found)

    @contextmanager
    def listening(self, tenant: str) -> Iterator[Listener]:
        listener = Listener(tenant)
        self._listeners = (*self._listeners, listener)
        if self._closed:
            listener.close()
        try:
            yield listener
        finally:
            self._listeners = tuple(it for it in self._listeners if it is not listener)

    def close(self) -> None:
        """Everyone is told that nothing more comes: a server that stops would wait for them."""
        self._closed = True
        for listener in self._listeners:
            listener.close()


def _change(fact: Fact) -> Change | None:
    it = fact.about
    if fact.name not in _NAMES or not isinstance(it, InteractionRecord):
        return None
    return Change(it.interaction_id, it.execution_id, it.tenant_id, it.step_id, it.assignee, it.group, it.status.value)

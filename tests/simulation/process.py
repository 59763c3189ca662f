"""One process of the application: the real worker, tasks, budgets and router, over the shared log."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from tests.simulation.shadow import Shadow, Violation
from tpf_streams.core.events import SlotGranted
from tpf_streams.core.execution import OwedKind
from tpf_streams.core.interaction import InteractionStatus
from tpf_streams.core.window import credit
from tpf_streams.engine.environment import Environment
from tpf_streams.engine.router import CompletionRouter
from tpf_streams.engine.worker import Worker

OPEN = (InteractionStatus.WAITING, InteractionStatus.DISPATCHED)


class Process:
    """`mine`: the partitions it believes to own. A zombie owns none of them any more and does not know."""

    def __init__(self, number: int, environment: Environment, partitions: Sequence[int]) -> None:
        self.number = number
        self.environment = environment
        self.worker = Worker(environment)
        self.router: CompletionRouter | None = None
        self.stale: set[int] = set()
        """Partitions that others own by now."""
        self.doomed = False
        """It dies before its next step."""
        for partition in partitions:
            self.worker.take(partition)

    @property
    def mine(self) -> list[int]:
        return self.worker.partitions

    @property
    def committing(self) -> bool:
        """Whether a commit is under way, of which nobody knows yet whether it holds."""
        return any(task._committing is not None for task in self.worker.tasks.values())

    async def route(self) -> bool:
        """One step of the router, opened first if need be. After an exception it is closed."""
        env = self.environment
        try:
            if self.router is None:
                self.router = CompletionRouter(env.log, env.definition, env.observer, env.clock)
                await self.router.open()
            return await self.router.step()
        except Exception:
            await self.stop_routing()
            raise

    async def stop_routing(self) -> None:
        router, self.router = self.router, None
        if router is not None:
            await router.close()

    async def give_up(self, partition: int) -> None:
        """The partition is revoked, or it is seen that it was."""
        self.stale.discard(partition)
        await self.worker.give_up(partition)

    async def die(self) -> None:
        """kill -9: nothing is decided, sent or given back any more."""
        await self.stop_routing()
        for task in list(self.worker.tasks.values()):
            if task._committing is not None:
                task._committing.cancel()  # wherever it is: it may hold, and nobody hears of it
            await task.close()
        self.worker.tasks.clear()
        await asyncio.sleep(0)

    def check_slots(self, shadow: Shadow) -> None:
        """What the rows of open tasks hold is held in the budget, and nothing is held that nobody has a use for.

        On top of the rows come items that wait for a slot, which may have it by now, and the room in the windows.
        """
        if self.committing:
            return  # what is decided on top of a commit under way is in the budget already, and in no row
        held: Counter[int] = Counter()
        room: Counter[int] = Counter()
        for partition in self.worker.tasks.keys() - self.stale:
            if self.worker.tasks[partition].performer.demand < 0:
                raise Violation(f"partition {partition} handed on more than was asked for")
            held.update(_held(shadow, partition))
            room.update(self._room(shadow, partition))
        budgets = self.environment.budgets
        for step in filter(budgets.limits, held.keys() | room.keys()):
            # What is held for a partition that has gone elsewhere is given back when that is seen.
            most = held[step] + room[step] if not self.stale else budgets.held(step)
            if not held[step] <= budgets.held(step) <= most:
                raise Violation(f"step {step}: {budgets.held(step)} slots held, rows {held[step]}, room {room[step]}")

    def _room(self, shadow: Shadow, partition: int) -> Counter[int]:
        """Slots that may be held for items which have no interaction yet."""
        room: Counter[int] = Counter()
        for owed in shadow.of_partition(b"w", partition):
            room[owed.step_index] += owed.kind is OwedKind.SLOT
        for event in self.worker.tasks[partition]._inbox:
            if isinstance(event, SlotGranted):
                room[event.owed.step_index] += 1
        definition = self.environment.definition
        for session in shadow.of_partition(b"s", partition):
            # A session that was cancelled keeps what it was granted for its window.
            awaited = definition.course.streams[session.stream].awaited
            room[-1 if awaited is None else awaited] += max(
                credit(definition, session), 0 if session.live else definition.window
            )
        return room


def _held(shadow: Shadow, partition: int) -> Counter[int]:
    """Slots of open interactions, and of continuations that have not given theirs back."""
    held: Counter[int] = Counter()
    held.update(row.step_index for row in shadow.of_partition(b"i", partition) if row.status in OPEN)
    held.update(row.holds_slot for row in shadow.of_partition(b"w", partition) if row.holds_slot is not None)
    return held

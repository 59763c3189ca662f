"""One process of the application: the real worker, tasks, budgets and router, over the shared log."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.simulation.shadow import Shadow, Violation
from tpf_streams.core.execution import OwedRecord
from tpf_streams.core.interaction import InteractionStatus
from tpf_streams.engine.environment import Environment
from tpf_streams.engine.router import CompletionRouter
from tpf_streams.engine.worker import Worker

OPEN = (InteractionStatus.WAITING, InteractionStatus.DISPATCHED)


class Process:
    """`mine`: the partitions it believes to own. A zombie owns none of them any more and does not know."""

    def __init__(self, number: int, environment: Environment, partitions: Sequence[int]) -> None:
        self.number = number
        self.environment = environment
        self.worker = Worker(environment, ())
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
            await task.close()
        self.worker.tasks.clear()
        await asyncio.sleep(0)

    def check_slots(self, shadow: Shadow) -> None:
        """Every slot that the rows of open tasks hold is held in the budget, and no step is over its capacity.

        Slots of sessions come on top, so the budget may hold more than the rows say, never less.
        """
        held: dict[int, int] = {}
        for partition in self.worker.tasks.keys() - self.stale:
            if self.worker.tasks[partition].performer.demand < 0:
                raise Violation(f"partition {partition} handed on more than was asked for")
            for row in shadow.in_partition(partition):
                if row.status in OPEN:
                    held[row.step_index] = held.get(row.step_index, 0) + 1
            prefix = partition.to_bytes(2, "big")
            for key, owed in shadow.tables[b"w"].items():
                if key[:2] == prefix and isinstance(owed, OwedRecord) and owed.holds_slot is not None:
                    held[owed.holds_slot] = held.get(owed.holds_slot, 0) + 1
        for step, count in held.items():
            budgets = self.environment.budgets
            if budgets.limits(step) and budgets.held(step) < count:
                raise Violation(f"step {step}: rows hold {count} slots, the budget {budgets.held(step)}")

"""Running seeds: one, or many over the processors, with tallies that add up."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.simulation.bounds import small_bounds
from tests.simulation.breakage import breakable_decisions
from tests.simulation.judgement import Judgement
from tests.simulation.retention import aftermath
from tests.simulation.scheduler import chaos, quiet
from tests.simulation.words import Fault, Table
from tests.simulation.world import World

CHUNK = 50
"""Seeds that a worker process runs before it reports."""


@dataclass(slots=True)
class Tally:
    """What some seeds came to. `repeats`: requests that a provider got again, byte for byte. `lists`: executions whose
    outputs were held against the model of lists."""

    seeds: int = 0
    turns: int = 0
    repeats: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    table: Table = field(default_factory=Counter)
    failed: dict[int, str] = field(default_factory=dict)
    lists: int = 0

    def add(self, other: Tally) -> None:
        self.seeds += other.seeds
        self.turns += other.turns
        self.repeats += other.repeats
        self.lists += other.lists
        self.outcomes.update(other.outcomes)
        self.table.update(other.table)
        self.failed.update(other.failed)

    def to_json(self) -> dict[str, Any]:
        return {
            "seeds": self.seeds,
            "turns": self.turns,
            "repeats": self.repeats,
            "lists": self.lists,
            "outcomes": dict(self.outcomes),
            "table": {f"{fault.value}|{status}": count for (fault, status), count in self.table.items()},
            "failed": {str(seed): why for seed, why in self.failed.items()},
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Tally:
        table: Table = Counter()
        for cell, count in data["table"].items():
            fault, status = cell.split("|")
            table[Fault(fault), status] = count
        failed = {int(seed): why for seed, why in data["failed"].items()}
        outcomes, lists = Counter(data["outcomes"]), data.get("lists", 0)
        return cls(data["seeds"], data["turns"], data["repeats"], outcomes, table, failed, lists)


def run_seed(seed: int, *, trace: list[str] | None = None, **options: Any) -> Tally:
    """One seed from chaos to judgement. What is wrong stands in `failed`."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    world = World(seed, trace=trace, **options)
    tally = Tally(seeds=1)
    try:
        with small_bounds(Random(seed)), breakable_decisions(world):
            asyncio.run(_course(world))
    except Exception as error:
        last = "".join(traceback.format_exception(error)[-6:])
        tally.failed[seed] = f"{world.pipeline.name}\n{last}"
    finally:
        logging.disable(disabled)
    tally.turns = world.auditor.turns
    tally.repeats = world.provider.ledger.repeats
    tally.table = world.table
    tally.lists = world.lists_checked
    tally.outcomes.update(row.error_code or row.status.value for row in world.judged)
    return tally


async def _course(world: World) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: world.unheard(context))
    world.say(f"seed {world.seed}: {world.pipeline.name}, {world.log.partitions} partitions, {world.sync}")
    try:
        await chaos(world)
        await quiet(world)
        Judgement(world).judge()
        world.judged = world.auditor.shadow.executions
        await aftermath(world)
    finally:
        for process in [*world.processes, *world.zombies]:
            await process.die()


def run_chunk(start: int, count: int) -> Tally:
    tally = Tally()
    for seed in range(start, start + count):
        tally.add(run_seed(seed))
    return tally


def run_many(start: int, count: int, processes: int) -> Iterator[Tally]:
    """Seeds from `start` on, a tally a chunk, in their order."""
    chunks = [(first, min(CHUNK, start + count - first)) for first in range(start, start + count, CHUNK)]
    if processes <= 1:
        yield from (run_chunk(*chunk) for chunk in chunks)
        return
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(run_chunk, *zip(*chunks, strict=True))


def replay(seed: int) -> str:
    """How to see it again."""
    return f"python -m tests.simulation --seed {seed} --trace"

"""What comes after the end: days pass and executions go, in the middle of which processes die and keys are used again.

The checker of turns here knows rows alone: who went had ended, long enough ago, and had nothing open; who is there
keeps everything; and in the end nothing is left of anybody who went but that its key was here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tests.simulation.scheduler import pass_quiet_time, play_round
from tests.simulation.shadow import Change, Violation
from tests.simulation.world import TENANT, World
from tpf_streams.core import rows
from tpf_streams.core.execution import ExecutionRecord
from tpf_streams.engine import task
from tpf_streams.ports import Turn
from tpf_streams.testing.faults import CommitFault

MINUTE_MS = 60_000
STRIKES_MAX = 30
ROUNDS_MAX = 2_000
"""A whole life is lived in them, with strikes: one of 84 items, two at a time, took more than 600 (seen). What is stuck
stays so."""
_OWNED = (b"a", b"i", b"j", b"o", b"r", b"u", b"c")
"""Kinds of rows that stay as long as their execution does."""


class Burial:
    """The auditor of this phase; it goes on with the rows that the other one has seen."""

    def __init__(self, world: World) -> None:
        self.shadow = world.auditor.shadow
        self.deleted = 0
        self._ttl_ms = world.pipeline.definition.limits.execution_ttl_ms

    def committed(self, partition: int, turn: Turn) -> None:
        changes = self.shadow.apply(turn.rows)
        now_ms = int.from_bytes(self.shadow.tables[b"n"][partition.to_bytes(2, "big") + b"n"], "big")
        present = {row.execution_id for row in self.shadow.executions}
        gone = [change for change in changes if change.new is None and change.old is not None]
        for change in gone:
            if change.kind == b"e":
                self._execution_went(change.old, turn, now_ms)
            elif change.kind in _OWNED and self._owner(change) in present:
                raise Violation(f"a row went and its execution is there: {change}")
        # A look at an interaction takes its correlation too, and one at an early completion its expiry.
        if sum(change.kind in _OWNED and change.kind != b"c" for change in gone) > task.__dict__["DELETE_AT_ONCE"] + 1:
            raise Violation(f"{len(gone)} rows went in one turn")
        lives = Counter(row.execution_key for row in self.shadow.executions)
        if lives and max(lives.values()) > 1:
            raise Violation(f"a key has two lives at once: {lives}")

    def _execution_went(self, row: ExecutionRecord, turn: Turn, now_ms: int) -> None:
        self.deleted += 1
        ident = row.execution_id
        if not row.status.terminal or now_ms <= row.updated_at_epoch_ms + self._ttl_ms:
            raise Violation(f"deleted at {now_ms}, too early: {row}")
        opened = [it for it in self.shadow.of_execution(b"i", ident) if not it.status.terminal]
        if opened or self.shadow.of_execution(b"w", ident) or self.shadow.of_execution(b"s", ident):
            raise Violation(f"deleted while something is open: {row}, {opened}")
        if not any(
            key[2:3] == b"x" and value is not None and rows.execution_of(key) == ident
            for key, value in turn.rows.items()
        ):
            raise Violation(f"deleted, and not remembered in the same turn: {row}")

    def _owner(self, change: Change) -> str | None:
        if change.kind == b"c":
            row = self.shadow.interaction(rows.text_id(change.old))
            return None if row is None else row.execution_id
        return rows.execution_of(change.key) if change.kind == b"j" else str(change.old.execution_id)

    def nothing_left(self) -> None:
        """Every row is of an execution that is there, or is the memory of a key."""
        present = {row.execution_id for row in self.shadow.executions}
        for kind in (*_OWNED, b"s", b"w"):
            for key, row in self.shadow.tables[kind].items():
                if self._owner(Change(kind, key, row, None)) not in present:
                    raise Violation(f"left of an execution that went: {row}")
        if self.shadow.tables[b"d"] or self.shadow.tables[b"y"] or self.shadow.tables[b"z"]:
            raise Violation(f"a deadline or an early completion is left: {self.shadow.tables}")


async def aftermath(world: World) -> None:
    """Everything that has ended goes; its keys live again; and that goes, too."""
    burial = Burial(world)
    world.gate.auditor = burial
    shadow, keys = burial.shadow, sorted(world.sources.counts)
    if world.rng.random() < 0.2:
        world.decisions_left = world.rng.randrange(1, 4)
    world.say("days pass")
    _days_pass(world)
    await _until(world, lambda: not shadow.executions and not _going(world))
    world.decisions_left = None
    burial.nothing_left()
    _remembered(world, keys, burial)
    world.say("the keys are used again")
    for key in [*keys, *keys]:
        await world.submit(key)
    await _until(world, lambda: _all_ended(world, keys))
    burial.nothing_left()
    for row in shadow.executions:
        if (row.life, row.execution_id) != (1, world.life(row.execution_key, 1)):
            raise Violation(f"not the second life: {row}")
    await _once_more(world, burial, keys)


def _days_pass(world: World) -> None:
    """Longer than an ended execution is kept, counted from its end: the clock may have gone back since then, and the
    time of a partition has not."""
    ends = [row.updated_at_epoch_ms for row in world.auditor.shadow.executions]
    behind_ms = max(0, max(ends, default=0) - world.clock.now_ms())
    world.clock.advance(behind_ms + world.pipeline.definition.limits.execution_ttl_ms + MINUTE_MS)


async def _once_more(world: World, burial: Burial, keys: list[str]) -> None:
    """The second life goes, and in the middle of that some keys are used a third time."""
    shadow, again = burial.shadow, [key for key in keys if world.rng.random() < 0.7]
    world.say(f"days pass; used again: {again}")
    _days_pass(world)
    for key in again:
        for _ in range(world.rng.randrange(3)):
            await play_round(world)
            world.check()
        await world.submit(key)
    await _until(world, lambda: not any(row.life == 1 for row in shadow.executions) and _all_ended(world, []))
    burial.nothing_left()
    if any(row.life != 2 or row.execution_key not in again for row in shadow.executions):
        raise Violation(f"nobody asked for these: {shadow.executions}")


def _going(world: World) -> bool:
    """Whether rows of somebody deleted are still to be deleted."""
    return any(world.auditor.shadow.tables[b"g"].values())


def _all_ended(world: World, keys: list[str]) -> bool:
    shadow = world.auditor.shadow
    return (
        {row.execution_key for row in shadow.executions} >= set(keys)
        and all(row.status.terminal for row in shadow.executions)
        and not any(shadow.tables[kind] for kind in (b"w", b"d", b"z"))
        and not _going(world)
        and not world.provider.due
    )


def _remembered(world: World, keys: list[str], burial: Burial) -> None:
    stones = list(burial.shadow.tables[b"x"].values())
    found = sorted((stone.execution_key, stone.tenant_id, stone.life, stone.execution_id) for stone in stones)
    if found != [(key, TENANT, 0, world.life(key, 0)) for key in keys]:
        raise Violation(f"{keys} were here, remembered are {stones}")
    for stone in stones:
        due = [
            key
            for key in burial.shadow.tables[b"g"]
            if rows.deadline_of(key) == (stone.expires_at_epoch_ms, stone.execution_id)
        ]
        if len(due) != 1:
            raise Violation(f"a key that is never forgotten: {stone}")


async def _until(world: World, done: Callable[[], bool]) -> None:
    """Rounds, in which commits are lost and processes die, until `done`."""
    rng = world.rng
    rate, strikes = rng.choice((0.0, 0.15, 0.4)), STRIKES_MAX
    for _ in range(ROUNDS_MAX):
        if strikes and rng.random() < rate:
            strikes -= 1
            await _strike(world)
        moved = await play_round(world)
        world.check()
        if not moved:
            if done():
                return
            pass_quiet_time(world)
    shadow = world.auditor.shadow
    left = {kind.decode(): len(table) for kind, table in shadow.tables.items() if table}
    raise Violation(f"stuck after the end: rows {left}, {shadow.executions}")


async def _strike(world: World) -> None:
    rng = world.rng
    partition = rng.randrange(world.log.partitions)
    if rng.random() < 0.3:
        await world.kill(rng.choice(world.processes))
    elif world.plan.armed(partition) is None:
        world.plan.arm(rng.choice((CommitFault.HELD, CommitFault.NOT_HELD)), partition)
        world.crashing.discard(partition)

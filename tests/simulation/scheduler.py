"""The course of one seed: chaos for a while, then quiet until everything has come to its end, then judgement."""

from __future__ import annotations

from math import inf

from tests.simulation.application import new_process
from tests.simulation.chaos import MOVES, Move
from tests.simulation.shadow import Violation
from tests.simulation.world import World
from tpf_streams.core.execution import ExecutionStatus, OwedKind
from tpf_streams.core.rows import deadline_of

ROUNDS_MAX = 600
"""Rounds of the quiet phase, each of them a turn for everybody: a stuck execution shows itself here."""
HOLD_STEP_MS = 11_000


async def chaos(world: World) -> None:
    """Everything moves, in an order that only the seed knows, and things go wrong."""
    rng = world.rng
    count = rng.choice((1, 1, 2, 2))
    world.auditor.alone = count == 1
    parts = list(range(world.log.partitions))
    for number in range(count):
        world.processes.append(new_process(world, number, parts[number::count]))
    await world.provider.open()
    keys = [f"key-{n}" for n in range(rng.choice((1, 2, 3, 3)))]
    await world.submit(keys.pop())
    allowed = _allowed(world)
    rate = rng.choice((0.0, 0.04, 0.09, 0.13)) if allowed else 0.0
    for _ in range(rng.randrange(250, 1_000)):
        if keys and rng.random() < 0.04:
            await world.submit(keys.pop())
        await _move(world, allowed, rate)
        world.check()
    for key in keys:
        await world.submit(key)


def _allowed(world: World) -> dict[Move, int]:
    """Each seed knows some faults only, so that they are met alone and in many company."""
    keep = world.rng.choice((0.15, 0.4, 0.8))
    return {move: weight for move, weight in MOVES.items() if world.rng.random() < keep}


async def _move(world: World, allowed: dict[Move, int], rate: float) -> None:
    rng = world.rng
    for process in [*world.processes, *world.zombies]:
        if process.doomed:
            await world.kill(process)
    chance = rng.random()
    if chance < rate:
        move = rng.choices(list(allowed), list(allowed.values()))[0]
        world.say(f"move: {move.__name__}")
        await move(world)
    elif chance < 0.50:
        process = rng.choice([*world.processes, *world.zombies])
        if process.mine:
            await world.turn(process, rng.choice(process.mine))
    elif chance < 0.64:
        await world.spin(rng.randrange(1, 4))
    elif chance < 0.75:
        await world.route(rng.choice([*world.processes, *world.zombies]))
    elif chance < 0.82:
        await world.provider.read(rng.choice((1, 3, 100)), commit=rng.random() < 0.5)
        world.look_into_inbox()
    elif chance < 0.92:
        await world.answer()
    else:
        _pass_time(world)


def _pass_time(world: World) -> None:
    rng, clock = world.rng, world.clock
    chance = rng.random()
    if chance < 0.6:
        clock.advance(rng.randrange(1, 300))
    elif chance < 0.85:
        clock.advance(clock.next_wake_ms or rng.randrange(1, 1_000))
    elif chance < 0.97:
        clock.advance(rng.randrange(1_000, 5_000))
    else:
        clock.advance(rng.randrange(5_000, 30_000))


async def quiet(world: World) -> None:
    """Faults stop, everybody is there; everything must come to its end."""
    world.say("quiet")
    world.plan.stop()
    world.crashing.clear()
    world.lose_result, world.decisions_left = False, None
    world.log.refuse_openings, world.log.lose_group_commit = 0, None
    world.failures.left.clear()
    world.bookshelf.breaks.clear()
    world.sending.refused = world.sending.unheard = world.sending.slow = 0
    world.sending.doom_next = False
    world.provider.hush()
    for zombie in list(world.zombies):
        await world.kill(zombie)
    for process in world.processes:
        process.doomed = False
        for task in process.worker.tasks.values():
            task.performer.request(inf)
        for partition in list(process.stale):
            await process.give_up(partition)
    if world.bugs:
        # What a bug has left half done is taken up by the next opening, not before: it might go on for ever.
        for process in list(world.processes):
            await world.kill(process)
    for row in world.auditor.shadow.executions:
        # What goes on again must come to an end again.
        if row.status is ExecutionStatus.FAILED and world.rng.random() < 0.4:
            await world.redrive(row, version=None)
    if world.sync == "interval" or world.bugs:
        for key in list(world.sources.counts):
            await world.submit(key)
    for _ in range(ROUNDS_MAX):
        if not await play_round(world):
            if _ended(world):
                return
            _nothing_forgotten(world)
            pass_quiet_time(world)
        world.check()
    raise Violation(f"stuck: {_what_is_left(world)}")


async def play_round(world: World) -> bool:
    moved = await world.provider.read(1_000, commit=True)
    world.look_into_inbox()
    while await world.answer():
        moved = True
    for process in world.processes:
        moved = await world.route(process) or moved
        for partition in process.mine:
            moved = await world.turn(process, partition) or moved
    await world.spin(3)
    idle = all(task.idle for process in world.processes for task in process.worker.tasks.values())
    return moved or not (idle or world.clock.next_wake_ms is not None)


def _nothing_forgotten(world: World) -> None:
    """When nobody moves or sleeps, nothing is owed but what waits for a slot, for room in a window, or for its time."""
    busy = any(not task.idle for process in world.processes for task in process.worker.tasks.values())
    if busy or world.clock.next_wake_ms is not None:
        return
    for owed in world.auditor.shadow.tables[b"w"].values():
        whole = owed.kind is OwedKind.SEGMENT and owed.item_index is None
        source = whole and world.pipeline.definition.stream_from(owed.step_index) is not None
        if owed.kind not in (OwedKind.SLOT, OwedKind.RETRY) and not source:
            raise Violation(f"owed, and nobody does it: {owed}")


def _ended(world: World) -> bool:
    shadow = world.auditor.shadow
    return (
        all(row.status.terminal for row in shadow.executions)
        and len(shadow.executions) == len(world.sources.counts)
        and not any(shadow.tables[kind] for kind in (b"w", b"d", b"z"))
        and not world.provider.due
    )


def pass_quiet_time(world: World) -> None:
    """To the next thing that waits for time, be it far away."""
    clock, shadow = world.clock, world.auditor.shadow
    waits = [wait for wait in (clock.next_wake_ms,) if wait is not None]
    if world.provider.next_ms is not None:
        waits.append(world.provider.next_ms - round(clock.monotonic_s() * 1000))
    if not waits:
        firsts = [deadline_of(key)[0] for kind in (b"d", b"t", b"z") for key in shadow.tables[kind]]
        waits = [max(min(firsts, default=0) + 1 - clock.now_ms(), HOLD_STEP_MS)]
    clock.advance(max(1, min(waits)))


def _what_is_left(world: World) -> str:
    shadow = world.auditor.shadow
    executions = [(row.execution_key, row.status.value, row.await_unit_id) for row in shadow.executions]
    owed = list(shadow.tables[b"w"].values())
    deadlines = [deadline_of(key) for key in shadow.tables[b"d"]]
    sessions = list(shadow.tables[b"s"].values())
    return f"{executions}; owed {owed}; deadlines {deadlines}; sessions {sessions}; due {world.provider.due}"

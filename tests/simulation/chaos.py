"""What goes wrong: each fault is one move of the scheduler, where the world allows it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.simulation.application import new_process
from tests.simulation.process import Process
from tests.simulation.provider import FORGERIES
from tests.simulation.words import Fault
from tests.simulation.world import World
from tpf_streams.core.events import ExecutionCancelled, InteractionCancelled
from tpf_streams.core.execution import ExecutionStatus
from tpf_streams.engine.wire import completion_record, encode_cancel
from tpf_streams.ports import Record
from tpf_streams.testing.faults import CommitFault

Move = Callable[[World], Awaitable[None]]
MINUTE_MS = 60_000


async def commit_not_held(world: World) -> None:
    _arm(world, CommitFault.NOT_HELD, crash=False)


async def commit_held(world: World) -> None:
    _arm(world, CommitFault.HELD, crash=False)


async def crash_before_commit(world: World) -> None:
    _arm(world, CommitFault.NOT_HELD, crash=True)


async def crash_after_commit(world: World) -> None:
    _arm(world, CommitFault.HELD, crash=True)


def _arm(world: World, fault: CommitFault, *, crash: bool) -> None:
    """It strikes at the next commit of the partition; the table is told then, by `Gate`."""
    partition = world.rng.randrange(world.log.partitions)
    if world.plan.armed(partition) is None:
        world.plan.arm(fault, partition)
        (world.crashing.add if crash else world.crashing.discard)(partition)


async def lose_result(world: World) -> None:
    world.lose_result = True


async def restart_provider(world: World) -> None:
    world.count_all(Fault.PROVIDER_RESTART)
    await world.provider.open()


async def poke(world: World) -> None:
    """Completions out of turn, to a row of any status that there is."""
    rng, rows = world.rng, world.auditor.shadow.interactions
    statuses = sorted({row.status.value for row in rows})
    if statuses:
        status = rng.choice(statuses)
        row = rng.choice([row for row in rows if row.status.value == status])
        for fault in rng.sample((Fault.DUPLICATE, Fault.CONFLICT, Fault.LATE, *FORGERIES), 4):
            if await world.provider.poke(row.interaction_id, fault):
                world.count(fault, [row.status.value])


async def poison(world: World) -> None:
    """A record that is no completion, on a response topic or straight in the events."""
    if world.sync != "commit":
        return
    world.count_all(Fault.POISON)
    rng = world.rng
    value = rng.choice((None, b"", b" ", b"null", b"[]", b"{", b"\xff", b'{"tenantId":"acme"}', b"NaN"))
    record = completion_record(world.log.events_topic, rng.randrange(world.log.partitions), "", value, 1, "poison")
    if world.pipeline.response_topics and rng.random() < 0.7:
        record = Record(rng.choice(world.pipeline.response_topics), None, value)
    place = await world.log.append_one(record)
    world.poison["/".join(map(str, place))] += 1


async def hold_demand(world: World) -> None:
    """Downstream asks for nothing, or for a few items."""
    tasks = [task for process in world.processes for task in process.worker.tasks.values()]
    if tasks:
        performer = world.rng.choice(tasks).performer
        if world.rng.random() < 0.4:
            performer.demand = 0
        else:
            performer.request(world.rng.randrange(1, 4))


async def jump_clock(world: World) -> None:
    world.count_all(Fault.CLOCK_JUMP)
    world.clock.jump(world.rng.choice((-3, -1, 1, 2)) * world.rng.choice((MINUTE_MS // 2, 20 * MINUTE_MS)))


async def rebalance(world: World) -> None:
    """A partition goes to the other process, in good order."""
    found = _hand_over(world)
    if found is not None:
        old, new, partition = found
        world.count_partition(Fault.REBALANCE, partition)
        await old.give_up(partition)
        new.worker.take(partition)


async def steal(world: World) -> None:
    """A partition goes to the other process, and the old owner is not told."""
    found = _hand_over(world)
    if found is not None:
        old, new, partition = found
        world.count_partition(Fault.ZOMBIE, partition)
        old.stale.add(partition)
        new.worker.take(partition)


def _hand_over(world: World) -> tuple[Process, Process, int] | None:
    if len(world.processes) < 2:
        return None
    old, new = world.rng.sample(world.processes, 2)
    mine = [partition for partition in old.mine if partition not in old.stale and partition not in new.mine]
    return (old, new, world.rng.choice(mine)) if mine else None


async def freeze(world: World) -> None:
    """A whole process is replaced and goes on all the same."""
    if len(world.zombies) >= 2:
        return
    place = world.rng.randrange(len(world.processes))
    old = world.processes[place]
    world.count_all(Fault.ZOMBIE)
    mine = [partition for partition in old.mine if partition not in old.stale]
    old.stale |= set(mine)
    # Budgets are by process: what the new one holds, the old one gives out a second time.
    world.auditor.alone = False
    world.zombies.append(old)
    world.processes[place] = new_process(world, old.number, mine)


async def go_dark(world: World) -> None:
    """All processes are down for a while; providers answer, and time goes on."""
    world.count_all(Fault.OUTAGE)
    for process in [*world.processes, *world.zombies]:
        await world.kill(process)
    for _ in range(world.rng.randrange(2, 20)):
        await world.provider.read(100, commit=True)
        await world.answer()
        world.clock.advance(world.rng.randrange(6_000))
    for row in world.auditor.shadow.interactions:
        if world.rng.random() < 0.6 and await world.provider.poke(row.interaction_id, Fault.LATE):
            world.count(Fault.LATE, [row.status.value])


async def refuse_opening(world: World) -> None:
    """A task is closed and cannot be opened at once."""
    process = world.rng.choice(world.processes)
    mine = [partition for partition in process.worker.tasks if partition not in process.stale]
    if mine:
        partition = world.rng.choice(mine)
        world.count_partition(Fault.OPEN_FAILED, partition)
        world.log.refuse_openings += world.rng.randrange(1, 3)
        world.plan.arm(CommitFault.NOT_HELD, partition)


async def lose_router_commit(world: World) -> None:
    world.count_all(Fault.ROUTER_CRASH)
    world.log.lose_group_commit = world.rng.random() < 0.5


async def cancel_session(world: World) -> None:
    live = [row for row in world.auditor.shadow.tables[b"s"].values() if row.live]
    if live:
        execution_id = world.rng.choice(live).execution_id
        world.count_all(Fault.SESSION_CANCELLED)
        await world.cancel_session(execution_id)


async def cancel_by_operator(world: World) -> None:
    """An execution, or one of its interactions; whatever its status."""
    shadow = world.auditor.shadow
    if shadow.interactions and world.rng.random() < 0.85:
        row = world.rng.choice(shadow.interactions)
        world.count_interaction(Fault.OPERATOR_CANCEL, row.interaction_id)
        world.auditor.cancelled |= {row.interaction_id, row.execution_id}
        await _append(world, row.interaction_id, InteractionCancelled(row.interaction_id, "operator"))
    elif shadow.executions:
        execution_id = world.rng.choice(shadow.executions).execution_id
        world.count_execution(Fault.OPERATOR_CANCEL, execution_id)
        world.auditor.cancelled.add(execution_id)
        await _append(world, execution_id, ExecutionCancelled(execution_id, "operator"))


async def redrive(world: World) -> None:
    """An execution, most often one that has failed, goes on where it failed."""
    shadow, rng = world.auditor.shadow, world.rng
    failed = [row for row in shadow.executions if row.status is ExecutionStatus.FAILED]
    found = failed if failed and rng.random() < 0.9 else shadow.executions
    if found:
        row = rng.choice(found)
        world.count_execution(Fault.REDRIVE, row.execution_id)
        await world.redrive(row, version=row.version if rng.random() < 0.3 else None)


async def _append(world: World, ident: str, event: ExecutionCancelled | InteractionCancelled) -> None:
    key, value, headers = encode_cancel(event)
    await world.log.append([Record(world.log.events_topic, key, value, headers, world.home(ident))])


async def change_source(world: World) -> None:
    key = world.rng.choice(sorted(world.sources.counts))
    if world.pipeline.streams and world.sources.counts[key]:
        world.count_execution(Fault.SOURCE_CHANGED, world.execution_id(key))
        world.sources.change(key, world.rng.randrange(world.sources.counts[key]))
        partition = world.home(world.execution_id(key))
        world.plan.arm(CommitFault.NOT_HELD, partition)


async def fail_sending(world: World) -> None:
    """The next dispatches are refused, or their acknowledgement is lost or slow, or one is impossible."""
    sending, rng = world.sending, world.rng
    chance = rng.random()
    if chance < 0.15:
        sending.refused += rng.randrange(1, 4)
    elif chance < 0.45:
        sending.unheard += rng.randrange(1, 5)
    elif chance < 0.6:
        sending.slow += rng.randrange(1, 4)
    else:
        sending.doom_next = True


async def fail_publishing(world: World) -> None:
    world.bookshelf.breaks[world.rng.choice(sorted(world.sources.counts))] += world.rng.randrange(1, 4)


async def break_step(world: World) -> None:
    """A step raises a few times, or always, at some item."""
    rng = world.rng
    if not world.pipeline.calls:
        return
    key = rng.choice(sorted(world.sources.counts))
    index = rng.choice(sorted(world.pipeline.calls))
    place = rng.randrange(12) if world.pipeline.streams else None
    times = rng.choice((1, 1, 2, 3, 0))
    if index == 0 and world.pipeline.streams and times == 0:
        times = 4
    world.failures.plan((index, key, place), times)


async def break_decision(world: World) -> None:
    """One of the next decisions raises, as a bug would."""
    world.decisions_left = world.rng.randrange(1, 10)


async def crash_machine(world: World) -> None:
    world.count_all(Fault.UNSYNCED_LOST)
    await world.crash_machine()


async def submit_again(world: World) -> None:
    key = world.rng.choice(sorted(world.sources.counts))
    world.count_execution(Fault.SUBMITTED_TWICE, world.execution_id(key))
    await world.submit(key)


MOVES: dict[Move, int] = {
    commit_not_held: 6,
    commit_held: 5,
    crash_before_commit: 3,
    crash_after_commit: 4,
    lose_result: 4,
    restart_provider: 2,
    poke: 21,
    poison: 5,
    hold_demand: 4,
    jump_clock: 1,
    rebalance: 8,
    steal: 4,
    freeze: 2,
    go_dark: 2,
    refuse_opening: 5,
    lose_router_commit: 3,
    cancel_session: 18,
    cancel_by_operator: 4,
    redrive: 9,
    change_source: 2,
    fail_sending: 18,
    fail_publishing: 18,
    break_step: 13,
    break_decision: 2,
    crash_machine: 2,
    submit_again: 1,
}
"""Every fault that is a move, and how often it is drawn. Those of completions are the provider's."""

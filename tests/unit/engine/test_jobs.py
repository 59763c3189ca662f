"""Outside work of a task: bounded, in order, and forgotten with it."""

from __future__ import annotations

import asyncio

from tpf_streams.core.events import EarlyDue
from tpf_streams.engine.jobs import Jobs, Pause
from tpf_streams.testing.clock import ManualClock


class Desk:
    """Jobs whose works wait until they are let go."""

    def __init__(self, limit: int = 2, clock: ManualClock | None = None) -> None:
        self.delivered: list[str] = []
        self.started: list[str] = []
        self.failed = 0
        self.gates: dict[str, asyncio.Event] = {}
        sleep = asyncio.sleep if clock is None else clock.sleep
        self.jobs = Jobs(lambda event: self.delivered.append(event.interaction_id), limit, self.fail, sleep)  # type: ignore[union-attr]

    def fail(self) -> None:
        self.failed += 1

    def work(self, name: str):
        async def run():
            self.started.append(name)
            gate = self.gates.setdefault(name, asyncio.Event())
            await gate.wait()
            return EarlyDue(name)

        return run

    async def finish(self, *names: str) -> None:
        for name in names:
            self.gates.setdefault(name, asyncio.Event()).set()
        await turn_of_the_loop()


async def turn_of_the_loop() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_bounded_work_waits_for_room_and_runs_in_order():
    desk = Desk(limit=2)
    for name in "abcd":
        desk.jobs.submit(desk.work(name))
    await turn_of_the_loop()
    assert desk.started == ["a", "b"]
    await desk.finish("b")
    assert (desk.started, desk.delivered) == (["a", "b", "c"], ["b"])
    await desk.finish("a", "c", "d")
    assert (desk.delivered, desk.jobs.idle) == (["b", "a", "c", "d"], True)


async def test_unbounded_work_starts_at_once():
    desk = Desk(limit=1)
    desk.jobs.submit(desk.work("bounded"))
    desk.jobs.start(desk.work("pull"))
    await turn_of_the_loop()
    assert desk.started == ["bounded", "pull"]
    await desk.finish("bounded", "pull")
    assert desk.jobs.idle


async def test_work_without_a_result_delivers_nothing():
    desk = Desk()

    async def nothing():
        return None

    desk.jobs.submit(nothing)
    await turn_of_the_loop()
    assert (desk.delivered, desk.jobs.idle) == ([], True)


async def test_a_closed_desk_delivers_nothing_and_starts_nothing():
    desk = Desk(limit=1)
    desk.jobs.submit(desk.work("a"))
    desk.jobs.submit(desk.work("b"))
    await turn_of_the_loop()
    await desk.jobs.close()
    await desk.finish("a", "b")
    assert (desk.started, desk.delivered, desk.jobs.idle) == (["a"], [], True)


async def test_what_ends_while_it_is_closed_is_not_delivered():
    desk = Desk()

    async def stubborn():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return EarlyDue("too late")

    desk.jobs.start(stubborn)
    await turn_of_the_loop()
    await desk.jobs.close()
    assert desk.delivered == []


async def test_work_that_raises_is_not_lost_without_a_word():
    """Its event will never come, so its task has to be opened anew: the error says so."""
    desk = Desk(limit=1)

    async def broken():
        raise KeyError("an error of ours")

    desk.jobs.submit(broken)
    desk.jobs.submit(desk.work("next"))
    await turn_of_the_loop()
    assert isinstance(desk.jobs.error, KeyError)
    assert desk.failed == 1
    await desk.finish("next")
    assert desk.delivered == ["next"]


async def test_work_that_pauses_gives_its_place_away_and_comes_again():
    """Sixty-four calls to a partner that is down must not hold up the steps that are well."""
    clock = ManualClock()
    desk = Desk(limit=1, clock=clock)

    async def failing():
        desk.started.append("first try")
        return Pause(5.0, desk.work("again"))

    desk.jobs.submit(failing)
    desk.jobs.submit(desk.work("next"))
    await turn_of_the_loop()
    assert desk.started == ["first try", "next"]
    assert (desk.jobs.backlog, desk.jobs.idle) == (1, False)
    clock.advance(5_000)
    await turn_of_the_loop()
    assert desk.started == ["first try", "next"], "it waits for a place like any other"
    await desk.finish("next", "again")
    assert (desk.delivered, desk.jobs.backlog, desk.jobs.idle) == (["next", "again"], 0, True)


async def test_a_pause_outside_the_bound_goes_on_outside_it():
    desk = Desk(limit=1)

    async def failing():
        return Pause(0.0, desk.work("again"))

    desk.jobs.submit(desk.work("bounded"))
    desk.jobs.start(failing)
    await turn_of_the_loop()
    assert desk.started == ["bounded", "again"]
    await desk.finish("bounded", "again")


async def test_what_nobody_wants_any_more_is_neither_begun_nor_tried_again():
    """A cancelled execution's step would be called for as long as its retries last."""
    clock = ManualClock()
    desk = Desk(limit=1, clock=clock)
    wanted = {"paused", "waiting", "other"}

    async def failing():
        desk.started.append("paused")
        return Pause(5.0, desk.work("again"))

    desk.jobs.submit(failing, lambda: "paused" in wanted)
    await turn_of_the_loop()
    desk.jobs.submit(desk.work("running"))
    desk.jobs.submit(desk.work("waiting"), lambda: "waiting" in wanted)
    desk.jobs.submit(desk.work("other"), lambda: "other" in wanted)
    wanted -= {"paused", "waiting"}
    clock.advance(5_000)
    await turn_of_the_loop()
    await desk.finish("running", "other")
    assert (desk.started, desk.delivered) == (["paused", "running", "other"], ["running", "other"])
    assert (desk.jobs.idle, desk.jobs.backlog) == (True, 0)


async def test_a_closed_desk_ends_its_pauses():
    clock = ManualClock()
    desk = Desk(clock=clock)

    async def failing():
        return Pause(5.0, desk.work("again"))

    desk.jobs.submit(failing)
    await turn_of_the_loop()
    await desk.jobs.close()
    clock.advance(5_000)
    await turn_of_the_loop()
    assert (desk.started, desk.jobs.idle) == ([], True)

"""The session of a stream: as much as credit and slots allow, and after a crash where its row says."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.unit.core.machine import pipeline
from tests.unit.engine.shell import CONTEXT, runner
from tpf_streams.core.events import ItemsPulled, SourceFailed
from tpf_streams.core.execution import OwedKind, OwedRecord
from tpf_streams.core.step import ItemReject
from tpf_streams.core.unit import SessionRecord
from tpf_streams.core.window import chain
from tpf_streams.engine.budgets import Budgets
from tpf_streams.engine.live_session import PULL_MAX, LiveSession
from tpf_streams.engine.retry import RetryPolicy
from tpf_streams.testing.clock import ManualClock

OWED = OwedRecord("execution-1", OwedKind.SEGMENT, None, 0)
REJECT = ItemReject("f.csv", 2, "Amount", "no decimal")


def numbers(count):
    for number in range(count):
        yield REJECT if number == 2 else {"n": number}


def digest_of(items) -> str:
    digest = ""
    for item in items:
        digest = chain(digest, item)
    return digest


def session_of(
    function=numbers, *, count=10, clock=None, limit=0, budgets=None, executor=None, meter=None, **options
) -> LiveSession:
    definition = pipeline("Sk", **options)
    found = runner(definition, function, clock=clock, policy=RetryPolicy(limit=limit, wait_ms=100), executor=executor)
    return LiveSession(found, budgets or Budgets(definition), OWED, count, CONTEXT, lambda: None, meter=meter)


def row(**changes) -> SessionRecord:
    return SessionRecord("execution-1", live=True, **changes)


def test_it_asks_for_the_slots_its_credit_has_room_for_and_pulls_what_it_holds():
    budgets = Budgets(pipeline("Sk", max_concurrency=4))
    budgets.request(1, "another", lambda: None)
    session = session_of(budgets=budgets, max_concurrency=4)
    assert session.pull_count(row()) == 3
    assert session.pull_count(row()) == 3, "what was asked for is not asked for again"
    budgets.release(1, "another")
    assert session.pull_count(row()) == 4
    assert session.pull_count(row(next_item_index=3)) == 1
    assert session.pull_count(row(next_item_index=4, settled=4)) == 4
    assert session.pull_count(row(next_item_index=4)) == 0
    assert session.pull_count(row(source_ended=True)) == 0


def test_a_pull_is_bounded_and_one_at_a_time():
    session = session_of(max_concurrency=1_000, budget_enabled=False)
    assert session.pull_count(row()) == PULL_MAX
    session.pulling = True
    assert session.pull_count(row()) == 0


async def test_what_is_pulled_names_where_it_was():
    session = session_of(count=4)
    assert await session.pull(row(), 3) == ItemsPulled("execution-1", 0, [{"n": 0}, {"n": 1}, REJECT], False)
    pulled = await session.pull(row(source_position=3, next_item_index=2), 3)
    assert pulled == ItemsPulled("execution-1", 3, [{"n": 3}], True)


async def test_it_goes_on_at_the_committed_position():
    committed = row(source_position=4, next_item_index=3, source_digest=digest_of([{"n": 0}, {"n": 1}, {"n": 3}]))
    assert await session_of().pull(committed, 2) == ItemsPulled("execution-1", 4, [{"n": 4}, {"n": 5}], False)


async def test_elements_that_were_pulled_and_not_taken_come_again():
    """A batch that was not decided must not be skipped: the row says where the source stands, not the iterator."""
    session = session_of()
    await session.pull(row(), 4)
    again = await session.pull(row(source_position=1, next_item_index=1, source_digest=digest_of([{"n": 0}])), 2)
    assert again == ItemsPulled("execution-1", 1, [{"n": 1}, REJECT], False)


@pytest.mark.parametrize(
    ("count", "committed"),
    [
        (10, {"source_position": 2, "next_item_index": 2, "source_digest": digest_of([{"n": 0}, {"n": 7}])}),
        (1, {"source_position": 2, "next_item_index": 2, "source_digest": digest_of([{"n": 0}, {"n": 1}])}),
        (10, {"source_position": 1, "next_item_index": 1, "source_digest": ""}),
    ],
    ids=["another item", "fewer elements", "another digest"],
)
async def test_a_source_that_gives_something_else_fails_and_nothing_is_guessed(count, committed):
    failed = await session_of(count=count, limit=3).pull(row(**committed), 1)
    assert isinstance(failed, SourceFailed)
    assert (failed.execution_id, failed.code) == ("execution-1", "SOURCE_CHANGED")


class Flaky:
    """Breaks behind `good` elements, a number of times."""

    def __init__(self, good: int, times: int) -> None:
        self.good, self.times, self.opened = good, times, 0
        self.__name__ = "flaky"

    def __call__(self, count):
        self.opened += 1
        return self.elements(count)

    def elements(self, count):
        for number in range(count):
            if number == self.good and self.times:
                self.times -= 1
                raise OSError("unreadable")
            yield {"n": number}


async def pulled(session: LiveSession, clock: ManualClock, committed: SessionRecord, count: int):
    pull = asyncio.ensure_future(session.pull(committed, count))
    pauses = []
    for _ in range(50):
        await asyncio.sleep(0)
        if clock.next_wake_ms is not None:
            pauses.append(clock.next_wake_ms)
            clock.advance(clock.next_wake_ms)
    return await pull, pauses


async def test_a_source_that_breaks_is_opened_again_and_skipped_to_its_place():
    clock, flaky = ManualClock(), Flaky(good=2, times=1)
    session = session_of(flaky, clock=clock, limit=2)
    first, pauses = await pulled(session, clock, row(), 4)
    assert (first.elements, pauses) == ([{"n": 0}, {"n": 1}], [])
    committed = row(source_position=2, next_item_index=2, source_digest=digest_of(first.elements))
    second, pauses = await pulled(session, clock, committed, 2)
    assert (second, pauses) == (ItemsPulled("execution-1", 2, [{"n": 2}, {"n": 3}], False), [100])
    assert flaky.opened == 2


async def test_a_source_that_stays_broken_gives_up():
    clock = ManualClock()
    failed, pauses = await pulled(session_of(Flaky(good=0, times=9), clock=clock, limit=2), clock, row(), 1)
    assert (failed.code, failed.message, pauses) == ("OSError", "unreadable", [100, 200])
    assert "Traceback" in failed.detail


async def test_a_source_is_not_opened_any_more_once_the_session_is_closed():
    """A cancelled execution's source would be read for as long as its retries last."""
    clock = ManualClock()
    opened: list[int] = []

    def broken(count):
        opened.append(count)
        if count:
            raise OSError("the folder is away")
        yield count

    session = session_of(broken, clock=clock, limit=1_000)
    pulling = asyncio.ensure_future(session.pull(row(), 2))
    await asyncio.sleep(0.01)
    assert opened == [10]
    session.pulling = True
    await session.close()
    clock.advance(100)
    assert await asyncio.wait_for(pulling, 5) is None
    assert opened == [10]


async def test_closing_gives_every_slot_back_and_those_that_come_later():
    budgets = Budgets(pipeline("Sk", max_concurrency=4))
    for _ in range(3):
        budgets.request(1, "another", lambda: None)
    session = session_of(budgets=budgets, max_concurrency=4)
    assert session.pull_count(row()) == 1
    await session.pull(row(), 1)
    await session.close()
    await session.close()
    assert budgets.held(1) == 3
    for _ in range(3):
        budgets.release(1, "another")
    assert budgets.held(1) == 0
    assert session.pull_count(row()) == 0


async def test_without_a_slot_it_looks_one_ahead_and_learns_of_the_end():
    """An execution that waits for a slot it has no use for would end when another one's provider answers."""
    budgets = Budgets(pipeline("Sk", max_concurrency=1))
    budgets.request(1, "another", lambda: None)
    session = session_of(count=1, budgets=budgets, max_concurrency=1)
    assert (session.pull_count(row()), session.may_look(row())) == (0, True)
    assert await session.pull(row(), 0) is None, "there is one, and it stays where it is"
    assert not session.may_look(row()), "once is enough"
    assert not session.may_look(row(next_item_index=1)), "nothing may go out"
    assert await session.pull(row(), 1) == ItemsPulled("execution-1", 0, [{"n": 0}], False)
    committed = row(source_position=1, next_item_index=1, settled=1, source_digest=digest_of([{"n": 0}]))
    assert session.may_look(committed)
    assert await session.pull(committed, 0) == ItemsPulled("execution-1", 1, (), True)
    await session.close()
    assert not session.may_look(committed)


async def test_a_source_that_breaks_while_it_looks_ahead_fails():
    failed = await session_of(Flaky(good=0, times=1)).pull(row(), 0)
    assert isinstance(failed, SourceFailed)
    assert failed.message == "unreadable"


async def test_a_used_slot_is_the_interactions_and_not_given_back():
    budgets = Budgets(pipeline("Sk", max_concurrency=4))
    session = session_of(budgets=budgets, max_concurrency=4)
    session.pull_count(row())
    session.use_slot()
    await session.close()
    assert budgets.held(1) == 1


async def test_a_source_that_hangs_in_its_thread_holds_up_neither_an_end_nor_another_opening(monkeypatch):
    """Whoever closes a generator has to wait for the thread that runs it: a stopped run never ended."""
    monkeypatch.setattr("tpf_streams.engine.live_session.CLOSE_S", 0.01)
    hangs, let_go = threading.Event(), threading.Event()

    def source(count):
        hangs.set()
        let_go.wait(30)
        yield {"n": 0}

    with ThreadPoolExecutor(2) as pool:
        try:
            session = session_of(source, executor=pool)
            pull = asyncio.create_task(session.pull(row(), 1))
            await asyncio.to_thread(hangs.wait, 10)
            pull.cancel()
            async with asyncio.timeout(10):
                await asyncio.gather(pull, return_exceptions=True)
                await session.close()
        finally:
            let_go.set()


@pytest.mark.parametrize("error", [RuntimeError("I will not go"), SystemExit(0)], ids=repr)
async def test_a_generator_that_raises_while_it_is_closed_stops_nothing(error):
    def clings(count):
        try:
            yield {"n": 0}
        finally:
            raise error

    session = session_of(clings)
    await session.pull(row(), 1)
    await session.close()
    assert session.closed


class Pauses:
    def __init__(self) -> None:
        self.seconds: list[float] = []

    def source_paused(self, seconds: float) -> None:
        self.seconds.append(seconds)


async def test_the_time_without_room_is_told_while_it_lasts_and_once():
    clock, meter = ManualClock(), Pauses()
    session = session_of(clock=clock, max_concurrency=2, meter=meter)
    full, ended = row(next_item_index=2), row(next_item_index=2, source_ended=True)
    assert session.pull_count(row()) == 2
    clock.advance(1_000)
    assert session.pull_count(full) == 0, "here its pause begins"
    clock.advance(2_000)
    session.tell_paused()
    clock.advance(3_000)
    assert session.pull_count(row(next_item_index=2, settled=1)) == 1
    clock.advance(4_000)
    assert session.pull_count(ended) == 0, "a source that has ended waits for nothing"
    clock.advance(5_000)
    await session.close()
    assert sum(meter.seconds) == 5

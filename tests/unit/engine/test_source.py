"""A stream's segment as one source: elements in their order, rejects among them, errors behind the good ones."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.unit.core.machine import pipeline
from tests.unit.engine.shell import CONTEXT, PlainStep, runner
from tpf_streams.core.step import ItemReject
from tpf_streams.engine.source import open_source
from tpf_streams.errors import TerminalError

REJECT = ItemReject("f.csv", 2, "Amount", "no decimal")


def numbers(count):
    yield from range(count)


async def numbers_async(count):
    for number in range(count):
        await asyncio.sleep(0)
        yield number


def as_list(count):
    return list(range(count))


async def as_list_async(count):
    return list(range(count))


def with_rejects(count):
    for number in range(count):
        yield REJECT if number % 2 else number


def plus_ten(value):
    return value + 10


async def plus_ten_async(value):
    return value + 10


def twice(value):
    yield value
    yield -value


SOURCES = [numbers, numbers_async, as_list, as_list_async]
each_source = pytest.mark.parametrize("function", SOURCES, ids=[it.__name__ for it in SOURCES])


@each_source
async def test_elements_come_in_order_and_the_end_is_seen_by_asking_once_more(function):
    source = open_source(runner(pipeline("Sk"), function), 0, 5, CONTEXT)
    assert (await source.take(2), source.ended) == ([0, 1], False)
    assert (await source.take(3), source.ended) == ([2, 3, 4], False)
    assert (await source.take(1), source.ended) == ([], True)
    await source.close()


@each_source
@pytest.mark.parametrize("after", [plus_ten, plus_ten_async])
async def test_the_steps_behind_it_run_an_item_at_a_time(function, after):
    odd = PlainStep(after, accepts=lambda value: value % 2 == 1)
    source = open_source(runner(pipeline("Ssk"), function, odd), 0, 4, CONTEXT)
    assert await source.take(9) == [0, 11, 2, 13]
    assert source.ended


@pytest.mark.parametrize("after", [plus_ten, plus_ten_async])
async def test_rejects_pass_by_the_steps(after):
    source = open_source(runner(pipeline("Ssk"), with_rejects, after), 0, 3, CONTEXT)
    assert await source.take(9) == [10, REJECT, 12]


async def test_a_source_within_a_source_and_a_step_before_it():
    source = open_source(runner(pipeline("sSSk"), plus_ten, lambda count: range(count - 10), twice), 0, 3, CONTEXT)
    assert await source.take(9) == [0, 0, 1, -1, 2, -2]
    source = open_source(runner(pipeline("sSSk"), plus_ten_async, numbers_async, twice), 0, -8, CONTEXT)
    assert await source.take(9) == [0, 0, 1, -1]


async def test_a_source_step_that_does_not_take_the_value_passes_it_by():
    none = PlainStep(numbers, accepts=lambda _: False)
    assert await open_source(runner(pipeline("Sk"), none), 0, 7, CONTEXT).take(9) == [7]
    none = PlainStep(numbers_async, accepts=lambda _: False)
    assert await open_source(runner(pipeline("Sk"), none), 0, 7, CONTEXT).take(9) == [7]


def broken_behind_two(count):
    yield from range(2)
    raise OSError("the disk is gone")


async def broken_behind_two_async(count):
    yield 0
    yield 1
    raise OSError("the disk is gone")


@pytest.mark.parametrize("function", [broken_behind_two, broken_behind_two_async])
async def test_an_error_waits_behind_the_good_elements(function):
    source = open_source(runner(pipeline("Sk"), function), 0, 1, CONTEXT)
    assert (await source.take(5), source.ended) == ([0, 1], False)
    for _ in range(2):
        with pytest.raises(OSError, match="the disk is gone"):
            await source.take(5)


@pytest.mark.parametrize("function", [broken_behind_two, broken_behind_two_async])
async def test_an_error_before_any_element_is_raised_at_once(function):
    source = open_source(runner(pipeline("Sk"), function), 0, 1, CONTEXT)
    await source.take(2)
    with pytest.raises(OSError, match="the disk is gone"):
        await source.take(1)


async def test_an_item_that_is_none_is_no_item():
    source = open_source(runner(pipeline("Sk"), lambda count: [1, None]), 0, 1, CONTEXT)
    assert await source.take(1) == [1]
    with pytest.raises(TerminalError, match="returned nothing"):
        await source.take(1)


class Watched:
    """A generator that says when it was begun and closed."""

    def __init__(self) -> None:
        self.begun = self.closed = False
        self.going_on = threading.Event()
        self.waiting = threading.Event()

    def slow(self, count):
        self.begun = True
        try:
            yield 0
            self.waiting.set()
            self.going_on.wait(5)
            yield 1
        finally:
            self.closed = True

    async def quick(self, count):
        self.begun = True
        try:
            yield 0
            yield 1
        finally:
            self.closed = True


@pytest.mark.parametrize("kind", ["slow", "quick"])
async def test_nothing_runs_before_the_first_element_and_closing_reaches_the_generator(kind):
    watched = Watched()
    source = open_source(runner(pipeline("Sk"), getattr(watched, kind)), 0, 1, CONTEXT)
    assert not watched.begun
    assert await source.take(1) == [0]
    await source.close()
    assert watched.closed


async def test_a_cancelled_pull_that_still_runs_in_its_thread_is_closed_after_it():
    watched = Watched()
    with ThreadPoolExecutor(2) as pool:
        source = open_source(runner(pipeline("Sk"), watched.slow, executor=pool), 0, 1, CONTEXT)
        await source.take(1)
        pull = asyncio.ensure_future(source.take(1))
        await asyncio.to_thread(watched.waiting.wait, 5)
        pull.cancel()
        closing = asyncio.ensure_future(source.close())
        await asyncio.sleep(0.01)
        assert not closing.done()
        watched.going_on.set()
        await asyncio.wait_for(closing, 5)
    assert watched.closed


async def test_a_pull_is_one_hop_to_the_pool():
    threads = []

    def where(count):
        for _ in range(count):
            threads.append(threading.get_ident())
            yield 1

    with ThreadPoolExecutor(1) as pool:
        source = open_source(runner(pipeline("Sk"), where, executor=pool), 0, 100, CONTEXT)
        assert await source.take(100) == [1] * 100
        await source.close()
    assert set(threads) != {threading.get_ident()}


async def test_a_sync_source_before_an_async_step_still_works_in_the_pool():
    threads = set()

    def where(count):
        try:
            for number in range(count):
                threads.add(threading.get_ident())
                yield number
        finally:
            threads.add(threading.get_ident())

    with ThreadPoolExecutor(1) as pool:
        source = open_source(runner(pipeline("Ssk"), where, plus_ten_async, executor=pool), 0, 5, CONTEXT)
        assert await source.take(2) == [10, 11]
        await source.close()
    assert threads
    assert threading.get_ident() not in threads

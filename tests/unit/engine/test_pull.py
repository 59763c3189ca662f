"""A pull takes many elements where they come quickly; the first ones of a slow source do not wait for the next."""

from __future__ import annotations

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

from tests.unit.core.machine import pipeline
from tests.unit.engine.shell import CONTEXT, runner
from tpf_streams.engine.source import open_source
from tpf_streams.testing.clock import ManualClock


class Slow:
    """Two sources that stop behind their first element until they may go on."""

    def __init__(self) -> None:
        self.waiting = threading.Event()
        self.going_on = threading.Event()

    def in_a_thread(self, count):
        yield 0
        self.waiting.set()
        assert self.going_on.wait(10)
        yield from range(1, count + 1)

    async def on_the_loop(self, count):
        yield 0
        self.waiting.set()
        while not self.going_on.is_set():
            await asyncio.sleep(0)
        for number in range(1, count + 1):
            yield number


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


each_kind = pytest.mark.parametrize("kind", ["in_a_thread", "on_the_loop"])


@asynccontextmanager
async def held_up(kind, items, count):
    """A source of `1 + items` elements that is being pulled for `count` and waits behind its first."""
    slow, clock = Slow(), ManualClock()
    with ThreadPoolExecutor(2) as pool:
        steps = runner(pipeline("Sk"), getattr(slow, kind), clock=clock, executor=pool)
        source = open_source(steps, 0, items, CONTEXT)
        pull = asyncio.create_task(source.take(count))
        await until(slow.waiting.is_set)
        assert not pull.done()
        yield slow, clock, source, pull


@each_kind
async def test_the_first_element_of_a_slow_source_comes_alone(kind):
    async with held_up(kind, items=1, count=5) as (slow, clock, source, pull):
        clock.advance(20)
        assert (await pull, source.ended) == ([0], False)
        slow.going_on.set()
        assert (await source.take(5), source.ended) == ([1], True)
        assert (await source.take(5), source.ended) == ([], True)
        await source.close()


@each_kind
async def test_a_slow_source_can_be_closed_in_the_middle(kind):
    async with held_up(kind, items=1, count=5) as (slow, _, source, pull):
        pull.cancel()
        await asyncio.gather(pull, return_exceptions=True)
        closing = asyncio.create_task(source.close())
        await asyncio.sleep(0)
        slow.going_on.set()
        await closing


class Odd(BaseException):
    """What no `except Exception` catches."""


def raises_oddly(count):
    yield 0
    raise Odd


async def meets_a_cancelled_task(count):
    yield 0
    other = asyncio.ensure_future(asyncio.Event().wait())
    other.cancel()
    await other
    yield 1


def exits(count):
    yield 0
    sys.exit(0)


@pytest.mark.parametrize(
    ("function", "error"),
    [(raises_oddly, Odd), (exits, SystemExit), (meets_a_cancelled_task, asyncio.CancelledError)],
)
async def test_no_error_is_taken_for_the_end_of_the_source(function, error):
    """A generator that raised gives nothing more: were its error lost, the stream would succeed without the rest."""
    with ThreadPoolExecutor(1) as pool:
        source = open_source(runner(pipeline("Sk"), function, executor=pool), 0, 1, CONTEXT)
        assert await source.take(5) == [0]
        with pytest.raises(error):
            await source.take(5)
        assert not source.ended
        await source.close()


@each_kind
async def test_a_pull_that_ends_with_all_its_elements_taken_is_no_end(kind):
    """A session that came back after a crash took the empty hand for the end of the source: SOURCE_CHANGED."""
    async with held_up(kind, items=4, count=2) as (slow, clock, source, pull):
        clock.advance(20)
        assert await pull == [0]
        slow.going_on.set()
        filling = source._filling
        assert filling is not None
        await until(filling.done)
        assert await source.take(2) == [1]
        assert (await source.take(2), source.ended) == ([2, 3], False)
        await source.close()

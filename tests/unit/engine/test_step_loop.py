"""Async steps on another loop: where they run, what is cancelled, and that closing waits for nobody."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Iterator

import pytest

from tests.unit.core.machine import pipeline
from tests.unit.engine.shell import CONTEXT, runner
from tpf_streams.engine.source import open_source
from tpf_streams.engine.step_loop import StepLoop


@pytest.fixture
def elsewhere() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="elsewhere")
    thread.start()
    yield loop
    asyncio.run_coroutine_threadsafe(quiet(), loop).result(5)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


async def quiet() -> None:
    """Nothing may be under way any more when its loop is closed."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)


async def where() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


async def test_a_step_runs_on_the_loop_it_is_given(elsewhere):
    assert await StepLoop(elsewhere).run(where) == "elsewhere"
    assert await StepLoop().run(where) == threading.current_thread().name
    assert await StepLoop(asyncio.get_running_loop()).run(where) == threading.current_thread().name


async def test_what_a_step_raises_comes_back(elsewhere):
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await StepLoop(elsewhere).run(fail)


async def test_a_cancelled_step_is_cancelled_over_there(elsewhere):
    begun, cancelled = threading.Event(), threading.Event()

    async def last() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    step = asyncio.ensure_future(StepLoop(elsewhere).run(last))
    await asyncio.to_thread(begun.wait, 5)
    step.cancel()
    await asyncio.gather(step, return_exceptions=True)
    assert await asyncio.to_thread(cancelled.wait, 5)


async def test_a_step_whose_application_has_ended_stays_owed():
    """A failure would be recorded, and the execution would end with it."""
    closed = asyncio.new_event_loop()
    closed.close()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await StepLoop(closed).run(where)


async def test_a_generator_runs_over_there_to_its_end(elsewhere):
    places: list[str] = []

    async def items() -> AsyncGenerator[int, None]:
        try:
            for number in range(3):
                places.append(await where())
                yield number
        finally:
            places.append(await where())

    assert [item async for item in StepLoop(elsewhere).iterate(items())] == [0, 1, 2]
    assert places == ["elsewhere"] * 4


async def test_letting_a_generator_go_does_not_wait_for_a_loop_that_stands_still(elsewhere):
    gone = threading.Event()

    async def items() -> AsyncGenerator[int, None]:
        try:
            yield 1
            yield 2
        finally:
            gone.set()

    results = StepLoop(elsewhere).iterate(items())
    assert await anext(results) == 1
    elsewhere.call_soon_threadsafe(time.sleep, 1)
    began = time.monotonic()
    await results.aclose()
    assert time.monotonic() - began < 0.5
    assert await asyncio.to_thread(gone.wait, 5)


async def test_a_generator_that_is_let_go_in_mid_pull_is_closed_behind_it(elsewhere):
    order: list[str] = []
    gone = threading.Event()

    async def items() -> AsyncGenerator[int, None]:
        yield 1
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)
            order.append("cancelled")
            raise
        finally:
            order.append("closed")
            gone.set()

    results = StepLoop(elsewhere).iterate(items())
    await anext(results)
    pull = asyncio.ensure_future(anext(results))
    await asyncio.sleep(0.05)
    pull.cancel()
    await asyncio.gather(pull, return_exceptions=True)
    assert await asyncio.to_thread(gone.wait, 5)
    assert order == ["cancelled", "closed"]


async def test_every_kind_of_async_step_runs_over_there(elsewhere):
    """A generator, and a function behind it."""
    places: list[str] = []

    async def numbers(count: int) -> AsyncGenerator[int, None]:
        for number in range(count):
            places.append(await where())
            yield number

    async def plus_ten(value: int) -> int:
        places.append(await where())
        return value + 10

    found = runner(pipeline("Ssk"), numbers, plus_ten)
    found.step_loop = StepLoop(elsewhere)
    source = open_source(found, 0, 3, CONTEXT)
    assert await source.take(9) == [10, 11, 12]
    await source.close()
    assert set(places) == {"elsewhere"}

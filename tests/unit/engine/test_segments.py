"""Segments: every kind of step, what is tried again and when, and what ends at once."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.unit.core.machine import pipeline
from tests.unit.engine.shell import CONTEXT, PlainStep, runner
from tpf_streams.core.events import SegmentCompleted, SegmentFailed
from tpf_streams.core.execution import OwedKind, OwedRecord
from tpf_streams.core.step import StepDefinition
from tpf_streams.engine.jobs import Pause
from tpf_streams.engine.retry import RetryPolicy, code_of, message_of
from tpf_streams.errors import RetryableError, TerminalError
from tpf_streams.testing.clock import ManualClock

OWED = OwedRecord("execution-1", OwedKind.SEGMENT, None, 0)


def plus_one(value):
    return value + 1


async def times_two(value):
    await asyncio.sleep(0)
    return value * 2


async def with_context(value, context):
    return f"{value} of {context.tenant_id}, try {context.attempt}"


@pytest.fixture(params=["this thread", "a pool"])
def executor(request):
    if request.param == "this thread":
        yield None
    else:
        with ThreadPoolExecutor(1) as pool:
            yield pool


async def test_steps_of_every_kind_run_in_their_order(executor):
    segment = runner(pipeline("sss"), plus_one, times_two, with_context, executor=executor)
    assert await segment.run(OWED, 4, False, CONTEXT) == SegmentCompleted(OWED, ["10 of tenant-1, try 1"])


async def test_a_segment_ends_before_the_next_await():
    segment = runner(pipeline("skss"), plus_one, times_two, plus_one)
    assert await segment.run(OWED, 1, False, CONTEXT) == SegmentCompleted(OWED, [2])
    later = replace(OWED, step_index=2)
    assert await segment.run(later, 1, True, CONTEXT) == SegmentCompleted(later, [3])


async def test_a_value_that_a_step_does_not_take_passes_by():
    odd = PlainStep(plus_one, accepts=lambda value: value % 2 == 1)
    segment = runner(pipeline("ss"), odd, times_two)
    assert await segment.run(OWED, 2, False, CONTEXT) == SegmentCompleted(OWED, [4])


async def test_sync_steps_run_in_the_pool_in_the_callers_context():
    seen = contextvars.ContextVar("seen", default="nothing")
    seen.set("the caller's")

    def where(value):
        return [threading.current_thread() is threading.main_thread(), seen.get()]

    with ThreadPoolExecutor(1) as pool:
        segment = runner(pipeline("s"), where, executor=pool)
        done = await segment.run(OWED, 0, False, CONTEXT)
    assert done == SegmentCompleted(OWED, [[False, "the caller's"]])


class Failing:
    """Raises one error after the other, then gives its value back."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.attempts: list[int] = []

    def __call__(self, value, context):
        self.attempts.append(context.attempt)
        if self.errors:
            raise self.errors.pop(0)
        return value

    __name__ = "failing"


async def run_through(segment, clock: ManualClock):
    """-> (the event, the pauses before it in ms)."""
    found, pauses = await segment.run(OWED, 7, False, CONTEXT), []
    while isinstance(found, Pause):
        pauses.append(round(found.seconds * 1000))
        found = await found.then()
    return found, pauses


async def test_what_fails_is_tried_again_after_growing_pauses():
    clock, step = ManualClock(), Failing(RetryableError("a"), ValueError("b"), OSError("c"))
    policy = RetryPolicy(limit=3, wait_ms=100, max_backoff_ms=250)
    event, pauses = await run_through(runner(pipeline("s"), step, clock=clock, policy=policy), clock)
    assert event == SegmentCompleted(OWED, [7])
    assert pauses == [100, 200, 250]
    assert step.attempts == [1, 2, 3, 4]


async def test_when_the_tries_are_used_up_it_fails_with_the_last_reason():
    clock, step = ManualClock(), Failing(*[ValueError(f"no {n}") for n in range(9)])
    event, pauses = await run_through(
        runner(pipeline("s"), step, clock=clock, policy=RetryPolicy(limit=2, wait_ms=10)), clock
    )
    assert isinstance(event, SegmentFailed)
    assert (event.owed, event.code, event.message) == (OWED, "ValueError", "no 2")
    assert "ValueError: no 2" in event.detail
    assert "Traceback" in event.detail
    assert pauses == [10, 20]


async def test_a_terminal_error_ends_it_at_once():
    clock, step = ManualClock(), Failing(TerminalError("never", "NEVER"))
    event, pauses = await run_through(runner(pipeline("s"), step, clock=clock), clock)
    assert (event.code, event.message, pauses) == ("NEVER", "never", [])


async def test_a_step_that_gives_nothing_ends_it_at_once():
    event, pauses = await run_through(runner(pipeline("s"), lambda value: None, clock=ManualClock()), ManualClock())
    assert (event.code, pauses) == ("NO_OUTPUT", [])
    assert "returned nothing" in event.message


async def test_a_stop_iteration_is_an_error_like_others(executor):
    """In a pool it would never be heard of: a future refuses to hold one."""
    segment = runner(pipeline("s"), lambda value: next(iter([])), policy=RetryPolicy(limit=0), executor=executor)
    event = await asyncio.wait_for(segment.run(OWED, 1, False, CONTEXT), 5)
    assert isinstance(event, SegmentFailed)
    assert (event.code, event.message) == ("RuntimeError", "the step raised StopIteration")


async def test_an_interrupt_is_no_failure_of_the_step():
    segment = runner(pipeline("s"), Failing(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        await segment.run(OWED, 1, False, CONTEXT)


async def test_a_step_that_exits_fails(executor):
    """`sys.exit(0)` ended the process in the middle with exit code 0, which says that every execution succeeded."""
    segment = runner(pipeline("s"), Failing(SystemExit(0)), policy=RetryPolicy(limit=0), executor=executor)
    event = await segment.run(OWED, 1, False, CONTEXT)
    assert isinstance(event, SegmentFailed)
    assert event.code == "SystemExit"


async def met_a_cancelled_task(value):
    other = asyncio.ensure_future(asyncio.Event().wait())
    other.cancel()
    return await other


async def test_a_step_that_waits_for_something_cancelled_fails():
    """Taken for a cancellation of the run it would end without an event, and its item would wait for ever."""
    segment = runner(pipeline("s"), met_a_cancelled_task, policy=RetryPolicy(limit=0))
    event = await segment.run(OWED, 1, False, CONTEXT)
    assert isinstance(event, SegmentFailed)
    assert event.code == "CancelledError"


async def test_a_run_that_is_cancelled_itself_just_ends():
    began = asyncio.Event()

    async def waits(value):
        began.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(runner(pipeline("s"), waits).run(OWED, 1, False, CONTEXT))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


class Unprintable(Exception):
    def __str__(self):
        raise ValueError("no text")


class Numbered(Exception):
    code = 404


class Asked(Exception):
    def code(self):
        return "UNAVAILABLE"


class Guarded(Exception):
    @property
    def code(self):
        raise RuntimeError("not connected")


class Blank(Exception):
    code = ""


class Named(Exception):
    code = "OUT_OF_STOCK"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (Unprintable(), "Unprintable", "Unprintable"),
        (Numbered("gone"), "Numbered", "gone"),
        (Asked(), "Asked", "Asked"),
        (Guarded("x"), "Guarded", "x"),
        (Blank("x"), "Blank", "x"),
        (Named("x"), "OUT_OF_STOCK", "x"),
        (TerminalError("x"), "TERMINAL", "x"),
    ],
)
async def test_whatever_a_library_raises_has_a_code_and_a_message(error, code, message):
    """Codes of other libraries are numbers, or methods, which no row could hold; or they raise when they are asked."""
    assert (code_of(error), message_of(error)) == (code, message)
    segment = runner(pipeline("s"), Failing(error), policy=RetryPolicy(limit=0))
    event = await segment.run(OWED, 1, False, CONTEXT)
    assert isinstance(event, SegmentFailed)
    assert (event.code, event.message) == (code, message)


def inlined(shape: str, *functions) -> list[bool]:
    definition = pipeline(shape)
    steps = tuple(replace(it, inline=True) if isinstance(it, StepDefinition) else it for it in definition.steps)
    segment = runner(replace(definition, steps=steps), *functions)
    return [segment.inline(index) for index in range(len(shape))]


async def generated(value):
    yield value


def test_only_pure_quick_functions_run_inside_the_turn():
    assert runner(pipeline("s"), plus_one).inline(0) is False
    assert inlined("s", plus_one) == [True]
    assert inlined("ss", plus_one, times_two) == [False, False]
    assert inlined("S", generated) == [False]
    assert inlined("sks", plus_one, plus_one) == [True, False, True]


def test_an_inline_run_gives_outputs_or_raises():
    segment = runner(pipeline("ss"), plus_one, PlainStep(plus_one, accepts=lambda value: value < 10))
    assert segment.run_inline(OWED, 1, False, CONTEXT) == [3]
    assert segment.run_inline(OWED, 10, True, CONTEXT) == [11]
    with pytest.raises(TerminalError):
        runner(pipeline("s"), lambda value: None).run_inline(OWED, 1, True, CONTEXT)

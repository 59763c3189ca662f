"""The engine in its own thread: ready, asked from another loop, stopped in order, its failure told."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tpf_streams.dsl.load import load_pipeline
from tpf_streams.engine.clock import SystemClock
from tpf_streams.errors import LogError, LogFailedError
from tpf_streams.runtime.application import Application
from tpf_streams.runtime.build import build
from tpf_streams.runtime.engine_thread import Engine, EngineStoppedError, EngineThread
from tpf_streams.runtime.open_log import open_memory_log

FRAUD_CHECK = Path(__file__).parents[3] / "topologies/fraud_check/pipeline.yaml"
ORDER = {"orderId": "o-1", "amount": "12.50", "currency": "EUR"}


async def make() -> Engine:
    secret = {"pipeline.orchestrator.resume-token-secret": "a-secret-for-tests-only"}
    loaded = load_pipeline(FRAUD_CHECK, settings_overrides=secret, environ={})
    log = open_memory_log(loaded)
    return Engine(log, build(loaded, log, SystemClock()))


async def reached(thread: EngineThread) -> None:
    async with asyncio.timeout(10):
        await asyncio.shield(asyncio.wrap_future(thread.ready))


@pytest.fixture
async def thread() -> AsyncIterator[EngineThread]:
    thread = EngineThread(make)
    thread.start()
    await reached(thread)
    yield thread
    await thread.stop()


async def where(application: Application) -> str:
    return threading.current_thread().name


async def test_it_is_asked_from_another_loop(thread):
    assert thread.is_ready
    assert await thread.call(where) == "tpf-engine"
    execution = await thread.call(lambda it: it.submit(ORDER, key="o-1"))
    assert execution == await thread.call(lambda it: it.submit(ORDER, key="o-1"))
    assert await thread.call(lambda it: it.complete(b"{}")) == "invalid_envelope"


async def test_what_a_question_raises_comes_back(thread):
    async def refuse(application: Application) -> None:
        raise LogError("no")

    with pytest.raises(LogError, match="no"):
        await thread.call(refuse)


async def test_a_loop_that_stands_still_does_not_stop_it(thread):
    ticks: list[float] = []

    async def tick(application: Application) -> None:
        while len(ticks) < 5:
            await asyncio.sleep(0.02)
            ticks.append(time.monotonic())

    asked = asyncio.ensure_future(thread.call(tick))
    await asyncio.sleep(0)
    time.sleep(0.5)
    stood_still_until = time.monotonic()
    await asked
    assert ticks[-1] < stood_still_until


async def test_stopping_is_orderly_and_idempotent(thread):
    never = asyncio.ensure_future(thread.call(lambda it: asyncio.sleep(60)))
    await asyncio.sleep(0.05)
    await thread.stop()
    await thread.stop()
    assert thread.ended.result(0) is None
    assert not thread.is_ready
    with pytest.raises(EngineStoppedError):
        await never
    with pytest.raises(EngineStoppedError):
        await thread.call(where)


async def test_one_that_never_began_cannot_be_asked():
    thread = EngineThread(make)
    await thread.stop()
    with pytest.raises(EngineStoppedError):
        await thread.call(where)


async def test_a_log_that_cannot_be_opened_is_told_everywhere():
    async def fail() -> Engine:
        raise LogError("no Kafka there")

    thread = EngineThread(fail)
    thread.start()
    states: list[Future[Any]] = [thread.opened, thread.ready, thread.ended]
    for state in states:
        with pytest.raises(LogError, match="no Kafka there"):
            await asyncio.wrap_future(state)


async def test_a_stop_does_not_wait_for_a_cluster_that_does_not_answer():
    async def wait() -> Engine:
        await asyncio.sleep(60)
        raise AssertionError

    thread = EngineThread(wait)
    thread.start()
    await asyncio.sleep(0.05)
    began = time.monotonic()
    await thread.stop()
    assert time.monotonic() - began < 5
    assert thread.ended.result(0) is None
    with pytest.raises(EngineStoppedError):
        thread.ready.result(0)


async def test_the_failure_that_ends_it_is_told(thread):
    async def break_it(application: Application) -> None:
        application.worker._fail(LogFailedError("the disk is full"))

    await thread.call(break_it)
    with pytest.raises(LogFailedError, match="the disk is full"):
        await asyncio.wrap_future(thread.ended)


async def test_companions_begin_when_it_is_open_and_end_with_it():
    story: list[str] = []

    async def companion(stop: asyncio.Event) -> None:
        story.append("begun")
        await stop.wait()
        story.append("ended")

    async def make_both() -> Engine:
        engine = await make()
        return Engine(engine.log, engine.application, [companion])

    thread = EngineThread(make_both)
    thread.start()
    await reached(thread)
    await thread.stop()
    assert story == ["begun", "ended"]

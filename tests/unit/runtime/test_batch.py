"""A run with an end, on a log in memory: what is submitted, what is followed, what is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tpf_streams.core.step import SourceObject
from tpf_streams.dsl.load import LoadedPipeline, load_pipeline
from tpf_streams.engine.clock import SystemClock
from tpf_streams.errors import LogFailedError, TerminalError
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.ports import Turn
from tpf_streams.runtime.batch import BatchRun
from tpf_streams.runtime.build import build
from tpf_streams.runtime.inputs import Submission
from tpf_streams.runtime.open_log import open_memory_log
from tpf_streams.runtime.run_result import RunResult
from tpf_streams.runtime.run_tally import RunTally
from tpf_streams.runtime.views import LogViews

PLAIN = """\
version: 3
appName: plain
transport: LOCAL
types:
  Order:
    fields:
      - [orderId, string]
steps:
  - {name: Step, cardinality: ONE_TO_ONE, input: Order, output: Order, terminal: true}
"""
ASKING = """\
version: 3
appName: asking
transport: LOCAL
types:
  Order:
    fields:
      - [orderId, string]
steps:
  - name: Ask
    kind: await
    input: Order
    output: Order
    timeout: PT10S
    await:
      correlation: {strategy: interactionId}
      transport: {type: interaction-api}
  - {name: Step, cardinality: ONE_TO_ONE, input: Order, output: Order, terminal: true}
"""


class Bench:
    """Runs after one another over one log, as one process after another would have them."""

    def __init__(self, folder: Path, text: str, step: Callable[..., Any], **settings: str) -> None:
        file = folder / "pipeline.yaml"
        file.write_text(text)
        given = {"pipeline.defaults.retry-limit": "0", **settings}
        self.loaded: LoadedPipeline = load_pipeline(
            file, settings_overrides=given, environ={}, functions={"Step": step}
        )
        self.log: MemoryLog = open_memory_log(self.loaded)
        self.views = LogViews(self.log, self.loaded.definition)
        self.last: BatchRun | None = None

    def batch(self, **options: Any) -> BatchRun:
        tally = RunTally()
        application = build(self.loaded, self.log, SystemClock(), tally=tally)
        self.last = BatchRun(application, self.views, tally, ThreadPoolExecutor(1), **options)
        return self.last

    async def run(self, *found: Submission, **options: Any) -> RunResult:
        return await asyncio.wait_for(self.batch(**options).run(iter(found)), 20)

    def open_interaction(self) -> str | None:
        return next((it.interaction_id for it in self.views.pending(1)), None)


def order(name: str, **more: Any) -> Submission:
    return Submission(name, {"orderId": name}, **more)


def same(value: Any) -> Any:
    return value


async def until(reached: Callable[[], Any]) -> Any:
    async with asyncio.timeout(10):
        while not (found := reached()):
            await asyncio.sleep(0.01)
    return found


async def test_every_input_is_an_execution_that_ends(tmp_path):
    bench = Bench(tmp_path, PLAIN, same)
    result = await bench.run(*(order(str(number)) for number in range(300)))
    assert (result.items, result.completed, result.executions) == (300, 300, {"SUCCEEDED": 300})
    assert result.items_per_s > 0


async def test_an_input_given_twice_is_one_execution(tmp_path):
    bench = Bench(tmp_path, PLAIN, same)
    result = await bench.run(order("a"), order("a"))
    assert result.executions == {"SUCCEEDED": 1}
    again = await bench.run(order("a"))
    assert (again.items, again.items_per_s, again.continued) == (1, 0.0, 0)


async def test_nothing_to_do_is_an_end(tmp_path):
    result = await Bench(tmp_path, PLAIN, same).run()
    assert (result.items, result.executions, result.failed) == (0, {}, [])


async def test_a_failure_is_told_and_the_others_go_on(tmp_path):
    def step(value: Any) -> Any:
        if "bad" in str(value):
            raise TerminalError("no such order", "NO_ORDER")
        return value

    result = await Bench(tmp_path, PLAIN, step).run(order("good"), order("bad"))
    assert result.executions == {"FAILED": 1, "SUCCEEDED": 1}
    assert [(it["code"], it["message"]) for it in result.failed] == [("NO_ORDER", "no such order")]


async def test_an_input_that_is_none_is_told(tmp_path):
    result = await Bench(tmp_path, PLAIN, same).run(Submission("", None, problem="a.json:1: not JSON"), order("a"))
    assert [(it["executionId"], it["code"]) for it in result.failed] == [(None, "INVALID_INPUT")]
    assert result.completed == 1


async def test_an_interrupt_leaves_what_waits_to_the_next_run(tmp_path):
    bench = Bench(tmp_path, ASKING, same)
    batch = bench.batch()
    running = asyncio.ensure_future(batch.run(iter([order("a")])))
    interaction_id = await until(bench.open_interaction)
    batch.interrupt.set()
    result = await asyncio.wait_for(running, 10)
    assert (result.executions, result.waiting, result.completed) == ({"WAITING_EXTERNAL": 1}, 1, 0)

    batch = bench.batch()
    running = asyncio.ensure_future(batch.run(iter(())))
    await until(lambda: batch.application.worker.tasks)
    envelope = f'{{"tenantId": "default", "interactionId": "{interaction_id}", "responsePayload": {{"orderId": "a"}}}}'
    assert await batch.application.complete(envelope.encode()) == "admitted"
    result = await asyncio.wait_for(running, 10)
    assert (result.executions, result.continued, result.completed) == ({"SUCCEEDED": 1}, 1, 1)


async def test_an_interrupt_is_heard_amid_the_noise(tmp_path):
    """It was not: a wait that ended in the moment of its cancellation went on as if nothing had been asked."""
    bench = Bench(tmp_path, ASKING, same)
    batch = bench.batch()
    running = asyncio.ensure_future(batch.run(iter([order("a")])))
    await until(bench.open_interaction)

    async def noise() -> None:
        while not running.done():
            batch.tally.moved.set()
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(noise())
    await asyncio.sleep(0.05)
    batch.interrupt.set()
    assert (await asyncio.wait_for(running, 5)).waiting == 1
    await beside


async def test_a_deadline_ends_a_run_that_nobody_answers(tmp_path):
    bench = Bench(tmp_path, ASKING.replace("PT10S", "PT0.2S"), same)
    result = await bench.run(order("a"))
    assert (result.executions, result.waiting) == ({"FAILED": 1}, 0)
    assert [it["code"] for it in result.failed] == ["AWAIT_TIMEOUT"]


class Full:
    """A disk that takes no more."""

    def before(self, partition: int, turn: Turn) -> None:
        raise LogFailedError("no space left")

    def after(self, partition: int, turn: Turn) -> None: ...


async def test_what_stops_the_log_stops_the_run(tmp_path):
    """The error of the engine is the error of the run, and nothing of it stays behind."""
    bench = Bench(tmp_path, ASKING, same)
    batch = bench.batch()
    running = asyncio.ensure_future(batch.run(iter([order("a")])))
    interaction_id = await until(bench.open_interaction)
    bench.log.faults = Full()
    wish = asyncio.ensure_future(batch.application.cancel_interaction(interaction_id, "any event"))
    with pytest.raises(LogFailedError, match="no space left"):
        await asyncio.wait_for(running, 10)
    wish.cancel()
    await asyncio.wait([wish])
    assert len(asyncio.all_tasks()) == 1


async def test_companions_work_until_the_end(tmp_path):
    ended: list[bool] = []

    async def companion(stop: asyncio.Event) -> None:
        await stop.wait()
        ended.append(True)

    await Bench(tmp_path, PLAIN, same).run(order("a"), companions=[companion, companion])
    assert ended == [True, True]


def listed(etag: str) -> SourceObject:
    return SourceObject("files", "file", "in", "a.json", etag, "in/a.json")


async def test_other_content_waits_for_the_execution_of_the_same_object(tmp_path, caplog):
    """Contract 0.23."""
    bench = Bench(tmp_path, ASKING, same)
    batch = bench.batch()
    running = asyncio.ensure_future(batch.run(iter([order("one", source=listed("1"))])))
    await until(bench.open_interaction)
    batch.interrupt.set()
    await running

    def inputs() -> Iterator[Submission]:
        yield order("one", source=listed("1"))
        yield order("two", source=listed("2"))

    batch = bench.batch()
    running = asyncio.ensure_future(batch.run(inputs()))
    await until(lambda: batch.intake.skipped)
    batch.interrupt.set()
    result = await asyncio.wait_for(running, 10)
    assert [(it["source"], it["code"]) for it in result.skipped] == [("a.json", "SOURCE_CHANGED")]
    assert result.executions == {"WAITING_EXTERNAL": 1}
    assert "SOURCE_CHANGED: a.json" in caplog.text


@pytest.mark.parametrize("command", ["status", "describe"])
async def test_views_let_others_work(tmp_path, command, monkeypatch):
    """Rows are read some at a time: the owner's loop goes on between."""
    monkeypatch.setattr("tpf_streams.runtime.views.AT_ONCE", 10)
    bench = Bench(tmp_path, PLAIN, same, **{"topology.partitions": "1"})
    await bench.run(*(order(str(number)) for number in range(100)))
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.ensure_future(other())
    if command == "status":
        answer = await bench.views.status(5)
        assert (answer["counts"], len(answer["executions"])) == ({"SUCCEEDED": 100}, 5)
    else:
        assert (await bench.views.row_counts())["executions"] == 100
    beside.cancel()
    assert turns >= 9

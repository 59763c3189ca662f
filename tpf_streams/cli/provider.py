"""`tpf-streams provider`: the simulated provider of a pipeline as a process of its own, on Kafka."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import AsyncExitStack
from enum import StrEnum
from typing import Annotated, Any

import typer

from tpf_streams.cli.console import Exit, fail, out, print_json, say, told
from tpf_streams.cli.options import AsJson, Config, Overrides, Pipeline, overrides_of
from tpf_streams.cli.progress import show_line
from tpf_streams.cli.providers import Simulation
from tpf_streams.cli.run import run_loop
from tpf_streams.dsl.load import LoadedPipeline, load_pipeline
from tpf_streams.engine.clock import SystemClock
from tpf_streams.runtime.kafka import open_kafka_client
from tpf_streams.testing.provider import ProviderOptions, SimulatedProvider

STOP_S = 3.0
"""An answer under way is waited for this long: a broker that is gone must not hold the end up."""
RATE_S = 1.0


class KeyKind(StrEnum):
    CORRELATION = "correlation"
    NONE = "none"
    CONSTANT = "constant"


def provider(
    pipeline: Pipeline,
    bootstrap: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="The brokers; the same as --set kafka.bootstrap.servers=HOST:PORT."),
    ] = None,
    reject: Annotated[float, typer.Option(help="Share of the answers that refuse.")] = 0.0,
    timeout: Annotated[float, typer.Option(help="Share of the requests that get no answer.")] = 0.0,
    delay_ms: Annotated[int, typer.Option(help="From reading a request to answering it.")] = 0,
    duplicates: Annotated[float, typer.Option(help="Share of the answers that are sent twice.")] = 0.0,
    key: Annotated[KeyKind, typer.Option(help="What keys an answer.")] = KeyKind.CORRELATION,
    burst: Annotated[
        int, typer.Option(help="How many answers leave together; after a second those that are there do.")
    ] = 1,
    permits_per_second: Annotated[float | None, typer.Option(help="Answers a second; default: any number.")] = None,
    seed: Annotated[int, typer.Option(help="Chooses which answers are sent twice.")] = 0,
    group: Annotated[
        str | None, typer.Option(help="Its consumer group; default: the request topic's name and -provider.")
    ] = None,
    read_uncommitted: Annotated[
        bool, typer.Option("--read-uncommitted", help="Answer requests, too, whose transaction may fail.")
    ] = False,
    config: Config = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Answer the requests of a pipeline on Kafka until stopped (SIGINT, SIGTERM), and say what was done.

    What it answers is answer(request, options) of provider.py beside the steps. Topics that are missing are created as
    the pipeline would. Several share the requests; a request that was read and not answered is read again by the next.

    [bold]Examples[/bold]

        tpf-streams provider csv-payments --bootstrap localhost:9092 --reject 0.08 --delay-ms 5 --duplicates 0.02

        tpf-streams provider pipeline.yaml --config production.properties --key none --burst 100
    """
    given = overrides_of(overrides)
    if bootstrap is not None:
        given["kafka.bootstrap.servers"] = bootstrap
    with told():
        try:
            options = ProviderOptions(reject, timeout, delay_ms, permits_per_second, duplicates, key.value, seed, burst)
            loaded = load_pipeline(pipeline, settings_overrides=given, config=config, require_secret=False)
            simulation = Simulation.of(loaded.definition)
            summary = run_loop(_run(loaded, simulation, options, group, read_uncommitted=read_uncommitted))
        except ValueError as error:
            fail(str(error), Exit.USAGE)
    if as_json:
        print_json(summary)
    else:
        out.print(_sentence(summary), markup=False, soft_wrap=True)


async def _run(
    loaded: LoadedPipeline,
    simulation: Simulation,
    options: ProviderOptions,
    group: str | None,
    *,
    read_uncommitted: bool,
) -> dict[str, Any]:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        client = await open_kafka_client(loaded, read_uncommitted=read_uncommitted)
        stack.push_async_callback(client.close)
        providers = simulation.providers(options, client, SystemClock(), group)
        for each in providers:
            await each.open()
            say(f"answering {each.request_topic} on {each.response_topic} as group {each.group}; Ctrl-C stops")
        began_s, cpu_s = time.monotonic(), time.process_time()
        work = [asyncio.create_task(each.run(stop)) for each in providers]
        try:
            await show_line(Line(providers).text, stop)
        finally:
            stop.set()
            await _end(work)
        return summary_of(providers, time.monotonic() - began_s, time.process_time() - cpu_s)


async def _end(work: list[asyncio.Task[None]]) -> None:
    _, late = await asyncio.wait(work, timeout=STOP_S)
    for each in late:
        each.cancel()
    await asyncio.wait(work, timeout=STOP_S)


class Line:
    """The line that moves: the rate is that of the last second."""

    def __init__(self, providers: list[SimulatedProvider]) -> None:
        self._providers = providers
        self._rate = 0.0
        self._mark: tuple[float, int] = (time.monotonic(), 0)

    def text(self) -> str:
        answered = sum(each.answered for each in self._providers)
        now_s = time.monotonic()
        since_s, before = self._mark
        if now_s - since_s >= RATE_S:
            self._rate = (answered - before) / (now_s - since_s)
            self._mark = (now_s, answered)
        waiting = sum(each.open_count for each in self._providers)
        return f"{answered:,} answered · {self._rate:,.0f} a second · {waiting:,} open"


def summary_of(providers: list[SimulatedProvider], seconds: float, cpu_s: float) -> dict[str, Any]:
    """What was done. `busySeconds`: from the first request read to the last answer sent."""
    answered = sum(each.answered for each in providers)
    busy_s = max((each.busy_s for each in providers), default=0.0)
    return {
        "answered": answered,
        "repeated": sum(each.repeated for each in providers),
        "unanswered": sum(each.unanswered for each in providers),
        "skipped": sum(each.skipped for each in providers),
        "openMax": max((each.open_max for each in providers), default=0),
        "seconds": round(seconds, 3),
        "busySeconds": round(busy_s, 3),
        "answersPerS": round(answered / busy_s, 1) if busy_s > 0 else 0.0,
        "cpuUsAnAnswer": round(cpu_s / answered * 1e6, 1) if answered else 0.0,
    }


def _sentence(summary: dict[str, Any]) -> str:
    return (
        f"{summary['answered']:,} requests answered in {summary['busySeconds']:.2f} s "
        f"({summary['answersPerS']:,.0f} a second, {summary['cpuUsAnAnswer']:.0f} CPU µs each), "
        f"{summary['repeated']:,} of them twice; {summary['unanswered']:,} left without an answer, "
        f"{summary['skipped']:,} records that are no requests; at most {summary['openMax']:,} open"
    )

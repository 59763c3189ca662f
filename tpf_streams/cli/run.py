"""`tpf-streams run`: inputs in, every execution to its end, outputs out; in one process, or on Kafka with others."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from tpf_streams.cli.console import Exit, fail, print_json, say, told
from tpf_streams.cli.logs import LogKind, open_log
from tpf_streams.cli.options import Config, Overrides, Pipeline, load_to_run, overrides_of
from tpf_streams.cli.progress import Watch
from tpf_streams.cli.providers import Simulation, simulated_steps
from tpf_streams.cli.serving import Address, ServedApi, address_of, peers_of, served_metrics
from tpf_streams.cli.summary import print_summary
from tpf_streams.core.step import AwaitDefinition, PipelineDefinition
from tpf_streams.dsl.load import LoadedPipeline
from tpf_streams.engine.clock import SystemClock
from tpf_streams.errors import DefinitionError, Problem
from tpf_streams.logs.kafka import KafkaLog
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.ports import Clock
from tpf_streams.runtime.advertised import advertised, worker_id
from tpf_streams.runtime.batch import BatchRun, Companion
from tpf_streams.runtime.build import build, submissions
from tpf_streams.runtime.control import ControlServer
from tpf_streams.runtime.elsewhere import Elsewhere
from tpf_streams.runtime.inputs import Submission
from tpf_streams.runtime.loops import new_event_loop, spare_the_collector
from tpf_streams.runtime.open_log import ViewableLog
from tpf_streams.runtime.operator import Operator
from tpf_streams.runtime.pending_feed import PendingFeed
from tpf_streams.runtime.run_result import RunResult
from tpf_streams.runtime.run_tally import RunTally
from tpf_streams.runtime.sampler import Sampler
from tpf_streams.runtime.views import LogViews
from tpf_streams.testing.provider import SimulatedProvider, parse_provider_spec

T = TypeVar("T")
STEP_THREADS = "tpf-step"
LEFT_S = 2.0


class SyncKind(StrEnum):
    COMMIT = "commit"
    INTERVAL = "interval"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The command line of one run."""

    pipeline: Path
    inputs: list[str]
    output_dir: Path | None
    data_dir: Path | None
    provider: str | None
    config: Path | None
    overrides: dict[str, str]
    park: bool
    metrics_at: Address | None = None
    http_at: Address | None = None


def run(
    pipeline: Pipeline,
    more_inputs: Annotated[
        list[Path] | None, typer.Argument(metavar="INPUT", help="More inputs: what a shell makes of a pattern.")
    ] = None,
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--input",
            help="A file or a folder; give it again for more. Where the pipeline has no source, a .json file is one "
            "execution, and each line of a .jsonl file.",
        ),
    ] = None,
    output_dir: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Where output files go; default: the pipeline's publish folder."),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            file_okay=False, help="Where the log lives, or what it keeps here of Kafka; the next run there goes on."
        ),
    ] = None,
    log: Annotated[
        LogKind,
        typer.Option(
            help="local survives everything; memory ends with the process; kafka shares the work with every other "
            "worker of the application (kafka.* settings)."
        ),
    ] = (LogKind.LOCAL),
    sync: Annotated[
        SyncKind | None, typer.Option(help="When a commit is on disk: before it is answered, or soon after.")
    ] = None,
    simulate_provider: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="Answer kafka requests here, by answer(request, options) of provider.py beside the steps; e.g. "
            "reject=0.08,delay-ms=5,duplicates=0.02. Also timeout, permits-per-second, key, seed, burst.",
        ),
    ] = None,
    config: Config = None,
    overrides: Overrides = None,
    park: Annotated[
        bool, typer.Option("--park", help="When stopped, end live sessions: they go on by the durable path.")
    ] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Serve metrics at /metrics on this port while it runs; 0: any free one."),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(help="Where that port listens; 0.0.0.0 lets other machines scrape it.")
    ] = "127.0.0.1",
    http: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Serve the HTTP API there, and go on until stopped; without a host for this machine alone, and 0 is "
            "any free port.",
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 3 when rows were rejected.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout at the end.")] = False,
) -> None:
    """Run a pipeline on files until every execution has ended; with --http until it is stopped.

    A second run with the same --data-dir goes on where the first one stopped, however it stopped. On Kafka every run
    of the application goes on with what is unfinished, and each may do the work of the other: give all of them the same
    inputs' folder and the same --output-dir.

    [bold]Examples[/bold]

        tpf-streams run pipeline.yaml --input payments.csv --output-dir out --data-dir data

        tpf-streams run pipeline.yaml --input in/ --output-dir out --data-dir data --simulate-provider reject=0.08

        tpf-streams run pipeline.yaml --data-dir data

        tpf-streams run pipeline.yaml --input in/ --data-dir data --metrics-port 9400

        tpf-streams run pipeline.yaml --data-dir data --http 8080

        tpf-streams run pipeline.yaml --input in/ --output-dir out --data-dir data --log kafka \
            --set kafka.bootstrap.servers=localhost:9092
    """
    if data_dir is None and log is not LogKind.MEMORY:
        fail(f"--data-dir is needed with the {log.value} log: what is to survive must lie somewhere", Exit.USAGE)
    given = overrides_of(overrides)
    if sync is not None:
        given["sync"] = sync.value
    named = [*(inputs or ()), *(more_inputs or ())]
    for path in named:
        if not os.path.lexists(path):
            fail(f"--input {path}: there is no such file or folder", Exit.USAGE)
    options = RunOptions(
        pipeline,
        [str(path) for path in named],
        output_dir,
        data_dir,
        simulate_provider,
        config,
        given,
        park,
        None if metrics_port is None else (metrics_host, metrics_port),
        None if http is None else address_of(http),
    )
    with told():
        loaded = load_to_run(options.pipeline, options.config, options.overrides)
        result, stopped_by = execute(options, log, loaded)
    if as_json:
        print_json(asdict(result))
    else:
        print_summary(result, output_dir)
        if data_dir is not None and result.failed:
            say(f"more of one: tpf-streams status --data-dir {shlex.quote(str(data_dir))} EXECUTION")
    raise typer.Exit(exit_code(result, stopped_by, strict=strict))


def exit_code(result: RunResult, stopped_by: signal.Signals | None, *, strict: bool) -> Exit:
    if stopped_by is not None:
        return Exit.INTERRUPTED if stopped_by is signal.SIGINT else Exit.TERMINATED
    if result.failed:
        return Exit.FAILED
    if strict and result.rejected_rows:
        return Exit.REJECTED_ROWS
    return Exit.OK


def execute(options: RunOptions, kind: LogKind, loaded: LoadedPipeline) -> tuple[RunResult, signal.Signals | None]:
    """Run what is loaded, and say what happened. Raises TpfError, OSError."""
    missing = "" if options.http_at is not None else _missing_source(options, loaded)
    found = iter(()) if missing else submissions(loaded, options.inputs, str(options.pipeline))
    for line in loaded.warnings:
        say(f"warning: {line}")
    for line in loaded.notes:
        say(f"note: {line}")
    if loaded.publish is None:
        unused = "; --output-dir has nothing to do" if options.output_dir else ""
        say(f"note: no publish in {options.pipeline}: outputs go to topic {loaded.definition.output_topic}{unused}")
    result, stopped_by = run_loop(_run(options, kind, loaded, found))
    if missing and not result.continued:
        raise DefinitionError([Problem(str(options.pipeline), 0, "sources", missing)])
    return result, stopped_by


def _missing_source(options: RunOptions, loaded: LoadedPipeline) -> str:
    """Without --input and without the source's own folder there is only what an earlier run left."""
    if options.inputs or loaded.source is None or loaded.source.directory.is_dir():
        return ""
    return f"{loaded.source.directory} is no folder, no --input is given, and no earlier run left anything to do"


def run_loop(work: Coroutine[Any, Any, T]) -> T:
    spare_the_collector()
    runner = asyncio.Runner(loop_factory=new_event_loop)
    try:
        return runner.run(work)
    finally:
        if _all_ended(runner.get_loop()):
            runner.close()


def _all_ended(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether no task is left when all have been asked to end. One of a client whose broker hangs may stay for minutes,
    and the close of the runner would wait for it."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=LEFT_S))
    return all(task.done() for task in left)


async def _run(
    options: RunOptions, kind: LogKind, loaded: LoadedPipeline, found: Iterator[Submission]
) -> tuple[RunResult, signal.Signals | None]:
    definition, clock, tally = loaded.definition, SystemClock(), RunTally()
    async with AsyncExitStack() as stack:
        pool = ThreadPoolExecutor(thread_name_prefix=STEP_THREADS)
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        log, control_dir = await open_log(
            kind, loaded, options.pipeline, options.data_dir, options.config, options.overrides, options.output_dir
        )
        stack.push_async_callback(log.close)
        providers = []
        if options.provider is not None:
            providers = _providers(options.provider, definition, log, clock)
        metrics = served_metrics(options.metrics_at, options.http_at, loaded, stack)
        feed = PendingFeed()
        application = build(
            loaded,
            log,
            clock,
            output_dir=options.output_dir,
            executor=pool,
            tally=tally,
            metrics=metrics,
            watchers=() if options.http_at is None else (feed,),
        )
        operator = Operator(
            definition, log, application, loaded.settings.required_text("pipeline.orchestrator.default-tenant")
        )
        views = LogViews(log, definition)
        answered = {step.index for step in simulated_steps(definition)} if providers else set()
        unanswered = [it for it in definition.steps if isinstance(it, AwaitDefinition) and it.index not in answered]
        watch = Watch(tally, views, unanswered, control_dir)
        companions: list[Companion] = [watch.run, *(provider.run for provider in providers)]
        if metrics is not None:
            companions.append(Sampler(application, metrics.measures, _store_of(log, options.data_dir)).run)
        elsewhere = Elsewhere(log, tally) if isinstance(log, KafkaLog) else None
        name, served_at = worker_id(), None
        if options.http_at is not None:
            peers = await peers_of(log, loaded, name)
            served = ServedApi(loaded, operator, application, feed, metrics, peers)
            await served.open(options.http_at, stack)
            companions.append(served.run)
            served_at = served.url
        if isinstance(log, KafkaLog):
            application.environment.advertised = advertised(loaded.settings, name, served_at)
        batch = BatchRun(
            application,
            views,
            tally,
            pool,
            companions=companions,
            park=options.park,
            elsewhere=elsewhere,
            serves=options.http_at is not None,
        )
        if control_dir is not None:
            server = ControlServer(control_dir, operator)
            await server.open()
            stack.push_async_callback(server.close)
        stopped = _stop_on_signals(batch)
        result = await batch.run(found)
        return result, stopped[0] if stopped else None


def _store_of(log: ViewableLog, data_dir: Path | None) -> Path | None:
    if isinstance(log, KafkaLog):
        return log.directory
    return None if isinstance(log, MemoryLog) else data_dir


def _providers(spec: str, definition: PipelineDefinition, log: ViewableLog, clock: Clock) -> list[SimulatedProvider]:
    try:
        return Simulation.of(definition).providers(parse_provider_spec(spec), log, clock)
    except ValueError as error:
        fail(f"--simulate-provider: {error}", Exit.USAGE)


def _stop_on_signals(batch: BatchRun) -> list[signal.Signals]:
    """The first signal asks for an orderly end, the second one is the system's own again."""
    stopped: list[signal.Signals] = []
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        stopped.append(number)
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)
        say(f"{number.name}: the turn under way is finished; the next run goes on from there")
        batch.interrupt.set()

    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stop, each)
    return stopped

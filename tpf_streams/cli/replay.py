"""`tpf-streams replay`: everything that became true of one execution, in the order of its causes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from tpf_streams.cli.console import Exit, fail, say, told
from tpf_streams.cli.desk_directory import DirectoryDesk
from tpf_streams.cli.logs import LogKind
from tpf_streams.cli.options import Config, Overrides, overrides_of, pipeline_file
from tpf_streams.cli.run import run_loop
from tpf_streams.cli.timeline import print_timeline
from tpf_streams.dsl.load import LoadedPipeline, load_pipeline
from tpf_streams.engine.lifecycle import LifecycleEvent
from tpf_streams.runtime.history import HistoryError, events_of, history_page
from tpf_streams.runtime.kafka import open_history
from tpf_streams.runtime.replay import Part, head, parts, pipeline_part, whole

Page = dict[str, Any]


def replay(
    execution: Annotated[str, typer.Argument(metavar="EXECUTION", help="The id of the execution; see status.")],
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", exists=True, file_okay=False, help="The data directory of a run, or of a worker."),
    ] = None,
    log: Annotated[
        LogKind, typer.Option(help="kafka reads the topic itself, without any worker (kafka.* settings).")
    ] = LogKind.LOCAL,
    pipeline: Annotated[
        Path | None,
        typer.Option(
            "--pipeline",
            parser=pipeline_file,
            metavar="PIPELINE",
            help="The pipeline.yaml, or the name of a folder of topologies; default: the one that last ran there.",
        ),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="The brokers; the same as --set kafka.bootstrap.servers=HOST:PORT."),
    ] = None,
    item: Annotated[int | None, typer.Option(min=0, help="Only what became of this item of a stream.")] = None,
    each: Annotated[
        bool, typer.Option("--each", help="A line for every event, instead of one for many items.")
    ] = False,
    config: Config = None,
    overrides: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="The replay document on stdout.")] = False,
) -> None:
    """Show what became of one execution: its events with their times, while it runs and after.

    Events of many items in one turn share a line; an event becomes true when its turn is committed. How long events
    are kept say lifecycle.retention and lifecycle.retention-bytes.

    [bold]Examples[/bold]

        tpf-streams replay --data-dir data 7b0c5f7a-4a3e-8d60-9a51-0f4f7f1a2b3c

        tpf-streams replay --data-dir data 7b0c5f7a-4a3e-8d60-9a51-0f4f7f1a2b3c --item 17

        tpf-streams replay 7b0c5f7a-4a3e-8d60-9a51-0f4f7f1a2b3c --json --log kafka --bootstrap localhost:9092
            --pipeline csv-payments
    """
    with told():
        if log is LogKind.KAFKA:
            if pipeline is None:
                fail("--pipeline is needed with --log kafka: it names the topic", Exit.USAGE)
            given = overrides_of(overrides) | ({} if bootstrap is None else {"kafka.bootstrap.servers": bootstrap})
            loaded = load_pipeline(pipeline, settings_overrides=given, config=config, require_secret=False)
            pages = run_loop(_from_kafka(loaded, execution))
        elif data_dir is None:
            fail("--data-dir is needed, or --log kafka", Exit.USAGE)
        else:
            pages = list(_asked(data_dir, pipeline, execution))
        events = [event for page in pages for event in events_of(execution, page["records"])]
        if not events:
            raise HistoryError(_why_none(execution, known=pages[-1].get("known")))
    if not whole(events):
        say("the first events are past retention (lifecycle.retention, lifecycle.retention-bytes)")
    chosen = [event for event in events if item is None or event.item_index == item]
    if not chosen:
        fail(f"nothing is known of item {item} of this execution", Exit.FAILED)
    if as_json:
        _print_document(pages[0], events, chosen)
    else:
        print_timeline(head(pages[0], events), chosen, events[0].at_ms, each=each or item is not None)


def _asked(data_dir: Path, pipeline: Path | None, execution: str) -> Iterator[Page]:
    start: int | None = 0
    while start is not None:
        arguments = {"executionId": execution, "start": start}
        page = DirectoryDesk(data_dir, pipeline).ask("lifecycle", arguments)
        yield page
        start = page["next"]


async def _from_kafka(loaded: LoadedPipeline, execution: str) -> list[Page]:
    async with open_history(loaded) as log:
        pages: list[Page] = []
        start: int | None = 0
        while start is not None:
            page = await history_page(log, loaded.definition, execution, start)
            pages.append({**page, **pipeline_part(loaded.definition)})
            start = page["next"]
        return pages


def _why_none(execution: str, *, known: bool | None) -> str:
    if known is False:
        return f"there is no execution {execution}: it never was, or it is past retention"
    off = "or they were not written (pipeline.telemetry.replay.enabled)"
    if known:
        return f"the events of execution {execution} are past retention (lifecycle.retention), {off}"
    return f"there are no events of an execution {execution}: it never was, they are past retention, {off}"


def _print_document(pipeline: Part, events: list[LifecycleEvent], chosen: list[LifecycleEvent]) -> None:
    """Pretty, and event by event: that of a large execution is never in memory as a whole."""
    write: Callable[[str], int] = sys.stdout.write
    top = orjson.dumps(head(pipeline, events), option=orjson.OPT_INDENT_2).decode()
    write(f'{top[:-2]},\n  "events": [')
    comma = ""
    for part in parts(pipeline, chosen, events[0].at_ms):
        write(f"{comma}\n    {orjson.dumps(part).decode()}")
        comma = ","
    write("\n  ]\n}\n")
    sys.stdout.flush()

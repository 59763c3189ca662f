"""`tpf-streams status`: where executions stand."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
import typer
from rich.table import Table

from tpf_streams.cli.console import out, print_json, told
from tpf_streams.cli.desk import desk_of
from tpf_streams.cli.options import AsJson, DataDirToAsk, Limit, OtherPipeline, Tenant, Url

COLUMNS = ("execution", "source", "status", "step", "items", "in flight", "out", "rejected", "error")


def status(
    execution: Annotated[str | None, typer.Argument(metavar="[EXECUTION]", help="The id of one execution.")] = None,
    limit: Limit = 20,
    url: Url = None,
    data_dir: DataDirToAsk = None,
    tenant: Tenant = None,
    pipeline: OtherPipeline = None,
    as_json: AsJson = False,
) -> None:
    """Show executions with their status, step, items and errors; one execution with its output and traceback.

    The output is that of an execution without a stream; streams give files, or records of the output topic. A worker
    tells of one execution, without output and traceback; see show.

    [bold]Examples[/bold]

        tpf-streams status --data-dir data

        tpf-streams status --data-dir data 7b0c5f7a-4a3e-8d60-9a51-0f4f7f1a2b3c --json

        tpf-streams status --url http://127.0.0.1:8080 7b0c5f7a-4a3e-8d60-9a51-0f4f7f1a2b3c
    """
    arguments = {"limit": limit} if execution is None else {"executionId": execution}
    with told():
        answer = desk_of(url, data_dir, pipeline, tenant).ask("status", arguments)
    if as_json:
        print_json(answer)
    elif execution is None:
        _print_all(answer)
    else:
        print_fields(answer)


def _print_all(answer: dict[str, Any]) -> None:
    if answer["executions"]:
        table = Table()
        for name in COLUMNS:
            table.add_column(name, overflow="fold", no_wrap=name == "execution")
        for it in answer["executions"]:
            table.add_row(*_row(it))
        out.print(table)
    counts = ", ".join(f"{count:,} {name}" for name, count in answer["counts"].items())
    out.print(counts or "no execution yet", markup=False)


def _row(it: dict[str, Any]) -> list[str]:
    rejected = it["rejectedRows"] + it["rejectedItems"]
    error = f"{it['errorCode']}: {it['errorMessage']}" if it["errorCode"] else ""
    counts = [f"{it[name]:,}" for name in ("items", "inFlight", "outputs")]
    texts = [it["executionId"], it["source"] or "", it["status"], it["step"], *counts, f"{rejected:,}", error]
    return [text.replace("[", "\\[") for text in texts]


def print_fields(it: dict[str, Any]) -> None:
    """One line for each that has a value; long texts as they are."""
    for name, value in it.items():
        if name == "output" and value is not None:
            for payload in value:
                out.print(f"{name:18} {orjson.dumps(payload).decode()}", markup=False, soft_wrap=True)
        elif value not in (None, {}) and name != "errorDetail":
            out.print(f"{name:18} {value}", markup=False, soft_wrap=True)
    if it.get("errorDetail"):
        out.print(it["errorDetail"], markup=False, soft_wrap=True)

"""`tpf-streams pending`: who is waited for."""

from __future__ import annotations

import time
from typing import Annotated, Any

import orjson
import typer
from rich.table import Table

from tpf_streams.cli.console import out, print_json, told
from tpf_streams.cli.desk import desk_of
from tpf_streams.cli.options import AsJson, DataDirToAsk, Limit, OtherPipeline, Tenant, Url


def pending(
    limit: Limit = 50,
    payload: Annotated[bool, typer.Option("--payload", help="Show what was asked, too.")] = False,
    token: Annotated[
        bool, typer.Option("--token", help="Show resume tokens, too: who has one may answer. Mind your screen.")
    ] = False,
    url: Url = None,
    data_dir: DataDirToAsk = None,
    tenant: Tenant = None,
    pipeline: OtherPipeline = None,
    as_json: AsJson = False,
) -> None:
    """List interactions that wait for an answer, the next deadline first.

    [bold]Examples[/bold]

        tpf-streams pending --data-dir data --limit 20

        tpf-streams pending --url http://127.0.0.1:8080 --payload

        tpf-streams pending --data-dir data --payload --token --json
    """
    arguments = {"limit": limit, "payload": payload, "token": token, "tenantId": tenant}
    with told():
        answer = desk_of(url, data_dir, pipeline, tenant).ask("pending", arguments)
    if as_json:
        print_json(answer)
        return
    shown = answer["interactions"]
    if shown:
        out.print(_table(shown))
    for it in shown if payload or token else ():
        out.print(it["interactionId"], markup=False)
        if token and "resumeToken" in it:
            out.print(f"  token    {it['resumeToken']}", markup=False, soft_wrap=True)
        if payload:
            out.print(f"  payload  {orjson.dumps(it['requestPayload']).decode()}", markup=False, soft_wrap=True)
    if "count" in answer:
        out.print(f"{answer['count']:,} waiting, {len(shown):,} shown", markup=False)
    else:
        more = "there are more" if answer["nextCursor"] else "that is all"
        out.print(f"{len(shown):,} shown, {more}", markup=False)


def _table(shown: list[dict[str, Any]]) -> Table:
    table = Table()
    for name in ("interaction", "step", "item", "age", "time left", "for"):
        table.add_column(name, no_wrap=name == "interaction", overflow="fold")
    now_ms = time.time_ns() // 1_000_000
    for it in shown:
        item = "" if it["itemIndex"] is None else str(it["itemIndex"])
        who = it["assignee"] or it["group"] or ""
        left = span(it["deadlineEpochMs"] - now_ms)
        table.add_row(it["interactionId"], it["step"], item, span(it["ageMs"]), left, who.replace("[", "\\["))
    return table


def span(ms: int) -> str:
    """A duration for people: the two largest units."""
    if ms < 0:
        return "over"
    seconds = ms // 1000
    for size, name, small_size, small in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= size:
            return f"{seconds // size}{name} {seconds % size // small_size}{small}"
    return f"{seconds}s"

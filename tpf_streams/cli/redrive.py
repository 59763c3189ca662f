"""`tpf-streams redrive`: let a failed execution go on where it failed."""

from __future__ import annotations

from typing import Annotated

import typer

from tpf_streams.cli.console import Exit, out, print_json, say, told
from tpf_streams.cli.desk import desk_of
from tpf_streams.cli.options import AsJson, DataDirToAsk, OtherPipeline, Tenant, Url

HINTS = {
    "not_found": "there is no such execution; see status",
    "not_failed": "only a FAILED execution can be redriven; see status",
    "failed_not_allowed": "it is FAILED; leave --no-allow-failed out",
    "version_mismatch": "it has changed since; see its version with status EXECUTION --json",
    "closing": "what it had open is still being closed; try again",
    "not_redrivable": "its rows do not hold its input, or where its source stood; submit it under another key",
}


def redrive(
    execution: Annotated[str, typer.Argument(help="The id of the execution; see status.")],
    expected_version: Annotated[
        int | None, typer.Option(help="Only if its row has this version still; see status --json.")
    ] = None,
    allow_failed: Annotated[
        bool, typer.Option(help="Take FAILED executions; without, only those in the status DLQ.")
    ] = True,
    reason: Annotated[str, typer.Option(help="Why; kept with the event.")] = "",
    url: Url = None,
    data_dir: DataDirToAsk = None,
    tenant: Tenant = None,
    pipeline: OtherPipeline = None,
    as_json: AsJson = False,
) -> None:
    """Let a failed execution go on where it failed, and print the outcome; exit 0 for redriven, 1 for every other.

    A stored answer is used again. What has none is asked for once more, under new ids and the same idempotency key;
    items with an output keep it. Answers to the old requests are not admitted any more.

    While a run owns the data directory it goes on there; else the log is opened, and the pipeline goes on until the
    execution waits or has ended.

    [bold]Examples[/bold]

        tpf-streams redrive --data-dir data 7b0c5f7a-4a3e-8d60-9a51-0f4f7f1a2b3c

        tpf-streams redrive --url http://127.0.0.1:8080 ID --expected-version 7 --reason "the desk is open again" --json
    """
    arguments = {
        "executionId": execution,
        "expectedVersion": expected_version,
        "allowFailed": allow_failed,
        "reason": reason,
        "tenantId": tenant,
    }
    with told():
        answer = desk_of(url, data_dir, pipeline, tenant).ask("redrive", arguments)
    if as_json:
        print_json(answer)
    else:
        out.print(answer["outcome"], markup=False)
    hint = HINTS.get(answer["outcome"])
    if hint:
        say(hint)
    raise typer.Exit(Exit.OK if answer["outcome"] == "redriven" else Exit.FAILED)

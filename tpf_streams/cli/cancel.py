"""`tpf-streams cancel`: end an execution, or one interaction of it."""

from __future__ import annotations

from typing import Annotated

import typer

from tpf_streams.cli.console import Exit, out, print_json, say, told
from tpf_streams.cli.desk import desk_of
from tpf_streams.cli.options import AsJson, DataDirToAsk, OtherPipeline, Tenant, Url

HINTS = {
    "not_found": "there is no execution and no interaction of that id; see status and pending, and name its --tenant",
    "terminal": "it has ended; see status",
}


def cancel(
    ident: Annotated[
        str, typer.Argument(metavar="EXECUTION|INTERACTION", help="The id of either; see status and pending.")
    ],
    reason: Annotated[str, typer.Option(help="Why; kept with what is cancelled.")] = "cancelled by an operator",
    url: Url = None,
    data_dir: DataDirToAsk = None,
    tenant: Tenant = None,
    pipeline: OtherPipeline = None,
    as_json: AsJson = False,
) -> None:
    """Cancel an execution or an interaction, and print the outcome; exit 0 for cancelled, 1 for every other.

    A cancelled execution is FAILED with CANCELLED, and everything it has open is closed. A cancelled interaction ends
    its item or its execution, as a time-out would (await.onItemTimeout).

    While a run owns the data directory it does so; else the log is opened for it.

    [bold]Examples[/bold]

        tpf-streams cancel --data-dir data 7b0c5f7a-4a3e-8d60-9a51-0f4f7f1a2b3c --reason "sent twice by the client"

        tpf-streams cancel --url http://127.0.0.1:8080 ID --json
    """
    with told():
        answer = desk_of(url, data_dir, pipeline, tenant).ask(
            "cancel", {"id": ident, "reason": reason, "tenantId": tenant}
        )
    if as_json:
        print_json(answer)
    else:
        out.print(f"{answer['kind']} {answer['outcome']}", markup=False)
    hint = HINTS.get(answer["outcome"])
    if hint:
        say(hint)
    raise typer.Exit(Exit.OK if answer["outcome"] == "cancelled" else Exit.FAILED)

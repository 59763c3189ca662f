"""`tpf-streams cancel`: end an execution, or one interaction of it."""

from __future__ import annotations

from typing import Annotated

import typer

from tpf_streams.cli.ask import Question, answer_to
from tpf_streams.cli.console import Exit, out, print_json, say, told
from tpf_streams.cli.options import AsJson, DataDir, OtherPipeline

HINTS = {
    "not_found": "there is no execution and no interaction of that id; see status and pending",
    "terminal": "it has ended; see status",
}


def cancel(
    data_dir: DataDir,
    ident: Annotated[
        str, typer.Argument(metavar="EXECUTION|INTERACTION", help="The id of either; see status and pending.")
    ],
    reason: Annotated[str, typer.Option(help="Why; kept with what is cancelled.")] = "cancelled by an operator",
    pipeline: OtherPipeline = None,
    as_json: AsJson = False,
) -> None:
    """Cancel an execution or an interaction, and print the outcome; exit 0 for cancelled, 1 for every other.

    A cancelled execution is FAILED with CANCELLED, and everything it has open is closed. A cancelled interaction ends
    its item or its execution, as a time-out would (await.onItemTimeout).

    While a run owns the data directory it does so; else the log is opened for it.

    [bold]Examples[/bold]

        tpf-streams cancel --data-dir data 7b0c5f7a-4a3e-8d60-9a51-0f4f7f1a2b3c --reason "sent twice by the client"

        tpf-streams cancel --data-dir data ID --json
    """
    with told():
        answer = answer_to(Question(data_dir, pipeline, "cancel", {"id": ident, "reason": reason}))
    if as_json:
        print_json(answer)
    else:
        out.print(f"{answer['kind']} {answer['outcome']}", markup=False)
    hint = HINTS.get(answer["outcome"])
    if hint:
        say(hint)
    raise typer.Exit(Exit.OK if answer["outcome"] == "cancelled" else Exit.FAILED)

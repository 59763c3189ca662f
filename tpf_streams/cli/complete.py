"""`tpf-streams complete`: answer an interaction by hand."""

from __future__ import annotations

from typing import Annotated

import typer

from tpf_streams.cli.console import Exit, fail, out, print_json, say, told
from tpf_streams.cli.desk import desk_of
from tpf_streams.cli.options import AsJson, DataDirToAsk, OtherPipeline, Tenant, Url, text_of

ACCEPTED = ("admitted", "duplicate", "held")
HINTS = {
    "held": "its interaction is not there yet; it is decided as soon as it is",
    "conflict": "another answer was admitted before, and stands",
    "late": "the deadline had passed",
    "terminal": "the interaction or its execution has ended; see status",
    "not_found": "there is no such interaction; see pending",
    "tenant_mismatch": "the interaction belongs to another tenant; give it with --tenant",
    "identity_mismatch": "--interaction-id and --correlation-id name different interactions",
    "resume_token_rejected": "give the token of this interaction with --token; see pending --token",
    "invalid_payload": "the payload does not fit the output type of the step",
    "payload_too_large": "the payload is over pipeline.max-payload-bytes",
}


def complete(
    payload: Annotated[
        str, typer.Option(metavar="JSON|@FILE|-", help="The answer: JSON, a file that holds it, or - for stdin.")
    ],
    interaction_id: Annotated[str | None, typer.Option(help="Which interaction; see pending.")] = None,
    correlation_id: Annotated[str | None, typer.Option(help="The same by its correlation id.")] = None,
    token: Annotated[
        str | None, typer.Option(help="The resume token of the request, or @FILE; see pending --token.")
    ] = None,
    tenant: Tenant = None,
    actor: Annotated[str, typer.Option(help="Who answers; kept with the answer.")] = "operator",
    url: Url = None,
    data_dir: DataDirToAsk = None,
    pipeline: OtherPipeline = None,
    as_json: AsJson = False,
) -> None:
    """Complete an interaction, and print the outcome; exit 0 for admitted, duplicate and held, 1 for every other.

    What a refusal means is told on stderr.

    While a run owns the data directory it admits the answer; else the log is opened, and the pipeline goes on until
    the answered execution waits again or has ended.

    [bold]Examples[/bold]

        tpf-streams complete --data-dir data --interaction-id ID --payload '{"accepted": {"orderId": "o-1"}}'

        tpf-streams complete --url http://127.0.0.1:8080 --interaction-id ID --payload @answer.json

        tpf-streams complete --data-dir data --interaction-id ID --token @token.txt --payload @answer.json
    """
    if interaction_id is None and correlation_id is None:
        fail("--interaction-id or --correlation-id is wanted", Exit.USAGE)
    arguments = {
        "interactionId": interaction_id,
        "correlationId": correlation_id,
        "resumeToken": None if token is None else text_of(token).strip(),
        "tenantId": tenant,
        "actor": actor,
        "payload": text_of(payload),
    }
    with told():
        answer = desk_of(url, data_dir, pipeline, tenant).ask("complete", arguments)
    if as_json:
        print_json(answer)
    else:
        out.print(answer["outcome"], markup=False)
    hint = answer.get("reason") or HINTS.get(answer["outcome"])
    if hint:
        say(hint)
    raise typer.Exit(Exit.OK if answer["outcome"] in ACCEPTED else Exit.FAILED)

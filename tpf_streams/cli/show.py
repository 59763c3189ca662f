"""`tpf-streams show`: one execution with what it waits for and what it gave, or one interaction."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
import typer

from tpf_streams.cli.console import Exit, fail, out, print_json, told
from tpf_streams.cli.desk import Desk, desk_of
from tpf_streams.cli.options import AsJson, DataDirToAsk, OtherPipeline, Tenant, Url
from tpf_streams.cli.status import print_fields
from tpf_streams.errors import TpfError
from tpf_streams.runtime.views import Answer

UNKNOWN = "not_found"
PAYLOADS = ("requestPayload", "responsePayload")


def show(
    ident: Annotated[
        str, typer.Argument(metavar="EXECUTION|INTERACTION", help="The id of either; see status and pending.")
    ],
    url: Url = None,
    data_dir: DataDirToAsk = None,
    tenant: Tenant = None,
    pipeline: OtherPipeline = None,
    as_json: AsJson = False,
) -> None:
    """Show an execution with its await units, what is asked and answered in them, and its result; or an interaction.

    Of a unit that has an interaction for each item of a stream the items are counted; pending lists those that wait.

    [bold]Examples[/bold]

        tpf-streams show 7b0c5f7a-4a3e-8d60-9a51-0f4f7f1a2b3c --url http://127.0.0.1:8080

        tpf-streams show 7b0c5f7a-4a3e-8d60-9a51-0f4f7f1a2b3c --data-dir data --json
    """
    with told():
        found = _found(desk_of(url, data_dir, pipeline, tenant), ident, tenant)
    if as_json:
        print_json(found)
    elif found["kind"] == "execution":
        _print_execution(found)
    else:
        _print_interaction(found["interaction"])


def _found(desk: Desk, ident: str, tenant: str | None) -> Answer:
    """Ids of executions and interactions look alike. Raises TpfError, OSError."""
    execution = _or_none(desk, "execution", {"executionId": ident, "tenantId": tenant})
    if execution is None:
        interaction = _or_none(desk, "interaction", {"interactionId": ident, "tenantId": tenant})
        if interaction is None:
            fail("there is no execution and no interaction of that id; see status and pending", Exit.FAILED, UNKNOWN)
        return {"kind": "interaction", "interaction": interaction}
    units = desk.ask("units", {"executionId": ident, "tenantId": tenant})["units"]
    result = desk.result(ident) if execution["status"] == "SUCCEEDED" else None
    return {"kind": "execution", "execution": execution, "units": units, "result": result}


def _or_none(desk: Desk, command: str, arguments: dict[str, Any]) -> Answer | None:
    try:
        return desk.ask(command, arguments)
    except TpfError as error:
        if error.code != UNKNOWN:
            raise
        return None


def _print_execution(found: Answer) -> None:
    print_fields(found["execution"])
    for unit in found["units"]:
        counted = "" if not unit["itemized"] else f", {unit['completedItemCount']:,} items completed"
        out.print()
        out.print(f"[{unit['stepIndex']}] {unit['step']}: {unit['status']}{counted}", markup=False, style="bold")
        if unit["interaction"] is not None:
            _print_interaction(unit["interaction"])
    if found["result"] is not None:
        out.print()
        out.print(f"{'result':18} {_text(found['result'])}", markup=False, soft_wrap=True)


def _print_interaction(it: Answer) -> None:
    print_fields({name: value for name, value in it.items() if name not in PAYLOADS})
    for name in PAYLOADS:
        if it.get(name) is not None:
            out.print(f"{name:18} {_text(it[name])}", markup=False, soft_wrap=True)


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()

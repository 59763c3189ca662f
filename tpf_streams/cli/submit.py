"""`tpf-streams submit`: begin an execution, and wait for its result if that is wanted."""

from __future__ import annotations

import time
from typing import Annotated

import orjson
import typer

from tpf_streams.cli.console import Exit, fail, out, print_json, say, told
from tpf_streams.cli.desk import Desk, desk_of
from tpf_streams.cli.options import AsJson, DataDirToAsk, OtherPipeline, Tenant, Url, text_of
from tpf_streams.core.execution import ExecutionStatus
from tpf_streams.core.json_policy import parse_json
from tpf_streams.core.step import Json
from tpf_streams.errors import JsonPolicyError
from tpf_streams.runtime.views import Answer

INPUT_BYTES_MAX = 8 * 1024 * 1024
"""The most that a worker's http.max-body-bytes, and the socket of a data directory, can be made to take."""
TIMEOUT_S, TIMEOUT_MAX_S = 60.0, 86_400.0
FIRST_PAUSE_S, PAUSE_MAX_S = 0.1, 2.0
HINTS = {
    "duplicate": "an execution of this key is there already, with the same input",
    "conflict": "the idempotency key was used before, with another input",
}


def submit(
    payload: Annotated[
        str, typer.Argument(metavar="JSON|@FILE|-", help="The input: JSON, a file that holds it, or - for stdin.")
    ],
    key: Annotated[
        str | None, typer.Option(help="The idempotency key: the same one again meets the same execution.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end, and print what it gave.")] = False,
    timeout: Annotated[
        float, typer.Option(min=0, max=TIMEOUT_MAX_S, help="Seconds that --wait waits; then the exit code is 1.")
    ] = TIMEOUT_S,
    url: Url = None,
    data_dir: DataDirToAsk = None,
    tenant: Tenant = None,
    pipeline: OtherPipeline = None,
    as_json: AsJson = False,
) -> None:
    """Begin an execution, and print its id and where its status is; exit 0 also where its key had begun it before.

    The id is printed when the execution is durable, before its first step. Without --key the input itself is the key:
    the same input again is the same execution.

    While a run owns the data directory it takes the input; else the log is opened, and the pipeline goes on until the
    execution waits or has ended.

    [bold]Examples[/bold]

        tpf-streams submit @order.json --url http://127.0.0.1:8080 --key order-17

        echo '{"number": "i-1", "amount": "12.50"}' | tpf-streams submit - --url http://127.0.0.1:8080 --wait

        tpf-streams submit @order.json --data-dir data --json
    """
    value = _input(payload)
    with told():
        desk = desk_of(url, data_dir, pipeline, tenant)
        answer = desk.ask("submit", {"payload": value, "key": key, "tenantId": tenant})
        if answer["outcome"] == "conflict":
            fail(f"{HINTS['conflict']}: {answer['executionId']}", Exit.FAILED, "conflict")
        if not as_json:
            _print(answer)
        ended = _end_of(desk, answer["executionId"], tenant, timeout) if wait else {}
    if as_json:
        print_json(answer | ended)
    elif ended.get("result") is not None:
        out.print(orjson.dumps(ended["result"]).decode(), markup=False, soft_wrap=True)
    raise typer.Exit(Exit.FAILED if wait and ended["status"] != "SUCCEEDED" else Exit.OK)


def _input(text: str) -> Json:
    try:
        return parse_json(text_of(text).encode(), INPUT_BYTES_MAX)
    except JsonPolicyError as error:
        fail(f"the input is no JSON value that is taken here: {error}", Exit.USAGE)


def _print(answer: Answer) -> None:
    out.print(answer["executionId"], markup=False)
    if "statusUrl" in answer:
        out.print(answer["statusUrl"], markup=False, soft_wrap=True)
    if answer["outcome"] in HINTS:
        say(HINTS[answer["outcome"]])


def _end_of(desk: Desk, execution_id: str, tenant: str | None, timeout_s: float) -> Answer:
    """`status` when it has ended, when nobody is there to go on, or when the time is over; with its `result`."""
    end_s, pause_s = time.monotonic() + timeout_s, FIRST_PAUSE_S
    while True:
        found = desk.ask("execution", {"executionId": execution_id, "tenantId": tenant})
        if found["status"] == "SUCCEEDED":
            return {"status": found["status"], "result": desk.result(execution_id)}
        if ExecutionStatus(found["status"]).terminal:
            say(f"{found['status']}, {found['errorCode']}: {found['errorMessage']}")
            return {name: found[name] for name in ("status", "errorCode", "errorMessage")}
        if not desk.goes_on:
            say(f"{found['status']} at step {found['step']}; nobody runs there: it goes on with the next run")
            return {"status": found["status"]}
        if time.monotonic() + pause_s > end_s:
            say(f"{found['status']} at step {found['step']} after {timeout_s:g} s; see tpf-streams show")
            return {"status": found["status"]}
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, PAUSE_MAX_S)

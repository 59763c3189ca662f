"""Executions: begin one, where it stands, what it gave, end it, let it go on."""

from __future__ import annotations

import asyncio
import logging

import orjson
from aiohttp import web

from tpf_streams.api.models import Cancel, Execution, Redrive, Submitted, Wished
from tpf_streams.api.problems import WISH_STATUS, ProblemError, refused
from tpf_streams.api.reading import KEY_HEADER, json_of, model_of
from tpf_streams.api.saying import said
from tpf_streams.api.service import Call, Parameter, Route

log = logging.getLogger(__name__)

ROOT = "/pipeline/executions"
WRITE_S = 30.0
"""For a client to take the next piece of a long result."""


async def run_async(call: Call) -> web.StreamResponse:
    key = _key_of(call)
    payload = await json_of(call.request, call.api.limits)
    found = await call.ask("submit", payload=payload, key=key)
    if found["outcome"] == "conflict":
        detail = f"the {KEY_HEADER} was used before, with another input"
        raise ProblemError(409, "conflict", detail, more={"executionId": found["executionId"]})
    return said(Submitted, {**found, "statusUrl": f"{ROOT}/{found['executionId']}"}, 202)


def _key_of(call: Call) -> str | None:
    """By the policy of the pipeline. Raises ProblemError."""
    policy = call.api.loaded.settings.required_text("pipeline.orchestrator.idempotency-policy")
    key = call.request.headers.get(KEY_HEADER, "").strip()
    if policy == "SERVER_KEY_ONLY":
        return None
    if policy == "CLIENT_KEY_REQUIRED" and not key:
        raise ProblemError(400, "idempotency_key_required", f"the header {KEY_HEADER} is required")
    if not key.isprintable():
        raise ProblemError(400, "invalid_argument", f"{KEY_HEADER}: printable characters are wanted")
    return key or None


async def status(call: Call) -> web.StreamResponse:
    return said(Execution, await call.ask("execution", executionId=call.request.match_info["id"]))


async def result(call: Call) -> web.StreamResponse:
    execution_id = call.request.match_info["id"]
    page = await call.ask("result", executionId=execution_id)
    if not page["listed"]:
        return web.json_response(body=orjson.dumps(page["outputs"][0] if page["outputs"] else None))
    if page["next"] is None:
        return web.json_response(body=orjson.dumps(page["outputs"]))
    return await _long_result(call, execution_id, page)


async def _long_result(call: Call, execution_id: str, page: dict[str, object]) -> web.StreamResponse:
    """Page by page, so that neither this process nor the engine's loop ever holds all of it. A page that cannot be had
    breaks the connection in the middle of the body, which no client can take for the end."""
    response = web.StreamResponse(headers={"Content-Type": "application/json", **call.marks})
    await response.prepare(call.request)
    if call.request.method == "HEAD":
        return response
    try:
        await _write_pages(call, execution_id, page, response)
    except Exception as error:
        # A refusal would be written into the middle of the body, and look like a part of it.
        log.info("a result broke off: %s", type(error).__name__)
        if call.request.transport is not None:
            call.request.transport.abort()
    return response


async def _write_pages(call: Call, execution_id: str, page: dict[str, object], response: web.StreamResponse) -> None:
    first = True
    while True:
        text = orjson.dumps(page["outputs"])[1:-1]
        async with asyncio.timeout(WRITE_S):
            await response.write((b"[" if first else b",") + text if text or first else b"")
        if page["next"] is None:
            break
        first = False
        page = await call.ask("result", executionId=execution_id, start=page["next"])
    await response.write(b"]")
    await response.write_eof()


async def cancel(call: Call) -> web.StreamResponse:
    wanted = await model_of(call.request, call.api.limits, Cancel, optional=True)
    found = await call.ask("cancel", id=call.request.match_info["id"], kind="execution", reason=by(call, wanted.reason))
    return wished(found["outcome"])


async def redrive(call: Call) -> web.StreamResponse:
    wanted = await model_of(call.request, call.api.limits, Redrive, optional=True)
    found = await call.ask(
        "redrive",
        executionId=call.request.match_info["id"],
        expectedVersion=wanted.expected_version,
        allowFailed=wanted.allow_failed,
        reason=by(call, wanted.reason),
    )
    return wished(found["outcome"])


def by(call: Call, reason: str | None) -> str:
    """The reason, and whose it is, where that is known."""
    principal = call.caller.principal
    if principal is None:
        return reason or ""
    # First: what is too long loses its end, and nobody else's name may stand in its place.
    return f"by {principal}: {reason}" if reason else f"by {principal}"


def wished(outcome: str) -> web.StreamResponse:
    """Raises ProblemError for what did not come true."""
    if WISH_STATUS[outcome] != 200:
        raise refused(WISH_STATUS, outcome)
    return said(Wished, {"outcome": outcome})


_KEY = Parameter(
    KEY_HEADER,
    "The same key again meets the same execution. Whether it is wanted says pipeline.orchestrator.idempotency-policy.",
    "header",
)

ROUTES = (
    Route(
        "POST",
        "/pipeline/run-async",
        run_async,
        "Begin an execution. Answered when it is durable, before its first step.",
        {202: Submitted},
        body="input",
        parameters=(_KEY,),
        refusals=(400, 408, 409, 413, 415, 422),
    ),
    Route("GET", ROOT + "/{id}", status, "Where an execution stands.", {200: Execution}, refusals=(404, 410)),
    Route(
        "GET",
        ROOT + "/{id}/result",
        result,
        "What an execution gave: its output, or the list of its outputs in the order of its items.",
        {200: {}},
        refusals=(404, 409, 410),
    ),
    Route(
        "POST",
        ROOT + "/{id}/cancel",
        cancel,
        "End an execution. What it has open is cancelled with it.",
        {200: Wished},
        body=Cancel,
        body_optional=True,
        refusals=(400, 404, 408, 409, 410, 413, 415),
    ),
    Route(
        "POST",
        ROOT + "/{id}/redrive",
        redrive,
        "Let a failed execution go on where it failed.",
        {200: Wished},
        body=Redrive,
        body_optional=True,
        refusals=(400, 404, 408, 409, 410, 413, 415),
    ),
)

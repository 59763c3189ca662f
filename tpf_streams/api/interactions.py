"""Interactions: who is waited for, an answer, a cancellation, and what an answer has to look like."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from aiohttp import web

from tpf_streams.api.executions import ROOT as EXECUTIONS
from tpf_streams.api.executions import by, wished
from tpf_streams.api.models import AwaitStep, AwaitUnit, Cancel, Completed, Completion, Interaction, Pending, Wished
from tpf_streams.api.peers import Peers, Share
from tpf_streams.api.problems import OUTCOME_STATUS, ProblemError, refused, unavailable
from tpf_streams.api.reading import json_of, model_of, whole_number
from tpf_streams.api.saying import said, said_all, shaped
from tpf_streams.api.service import Call, Parameter, Route
from tpf_streams.runtime.cursor import Place, place_of
from tpf_streams.runtime.pages import Part, merged
from tpf_streams.runtime.refusals import ElsewhereError

ROOT = "/pipeline/interactions"
LIMIT, LIMIT_MAX = 50, 500
CURSOR_HEADER = "x-next-cursor"
FILTERS = ("assignee", "group", "stepId")


async def pending(call: Call) -> web.StreamResponse:
    query = call.request.query
    limit = whole_number(query, "limit", LIMIT, LIMIT_MAX)
    filters = {name: query.get(name, "").strip() for name in FILTERS}
    cursor = query.get("cursor", "")
    arguments = {"limit": limit, "cursor": cursor, "payload": True, "count": False, **filters}
    found, following = await _page(call, arguments)
    return said_all(Pending, found, _links(call, following))


async def _page(call: Call, arguments: dict[str, Any]) -> tuple[Sequence[dict[str, Any]], str | None]:
    """One page, and the cursor of the next. A client's is of all workers, a worker's of what it asks for."""
    peers = call.api.peers
    if call.hop is not None or peers is None:
        page = await call.ask("pending", **arguments)
        return [_shown(it) for it in page["interactions"]], page["nextCursor"]
    if arguments["cursor"]:
        place_of(arguments["cursor"])  # refused here, before others are asked
    parts = await asyncio.gather(*(_part(call, peers, share, arguments) for share in peers.shares()))
    whole = merged(parts, arguments["limit"], _place)
    return whole.entries, whole.looked_to and whole.looked_to.cursor()


async def _part(call: Call, peers: Peers, share: Share, arguments: dict[str, Any]) -> Part[dict[str, Any], Place]:
    """What one worker has of a page. Raises ProblemError: without it the page would only look whole."""
    if share.url is None:
        try:
            page = await call.ask("pending", owned=share.owned, **arguments)
        except ElsewhereError as error:
            # Not passed on: the partition's owner would answer for the whole list.
            raise unavailable(error.code, str(error)) from None
        found, following = [_shown(it) for it in page["interactions"]], page["nextCursor"]
    else:
        status, body, headers = await peers.fetch(call.request, share)
        if status != 200:
            raise unavailable("elsewhere", "a worker has not given its part of the list")
        found, following = orjson.loads(body), headers.get(CURSOR_HEADER)
    return Part(found, None if following is None else place_of(following))


def _place(shown: Mapping[str, Any]) -> Place:
    return Place(shown["deadlineEpochMs"], shown["interactionId"])


def _links(call: Call, cursor: str | None) -> dict[str, str]:
    """Where the list goes on. In headers: the body is the array that clients of this path know."""
    if cursor is None:
        return {}
    following = call.request.rel_url.update_query(cursor=cursor)
    return {CURSOR_HEADER: cursor, "Link": f'<{following}>; rel="next"'}


async def one(call: Call) -> web.StreamResponse:
    found = await call.ask("interaction", interactionId=call.request.match_info["id"])
    return said(Interaction, _shown(found))


async def units(call: Call) -> web.StreamResponse:
    found = (await call.ask("units", executionId=call.request.match_info["id"]))["units"]
    return said_all(AwaitUnit, [{**it, "interaction": _single(it)} for it in found])


def _single(unit: dict[str, Any]) -> dict[str, Any] | None:
    found = unit["interaction"]
    return None if found is None else shaped(Interaction, _shown(found))


def _shown(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "transportType": found["transport"], "completionSchema": schema_path(found["stepId"])}


async def complete(call: Call) -> web.StreamResponse:
    body = await json_of(call.request, call.api.limits)
    if not isinstance(body, dict):
        raise ProblemError(400, "invalid_envelope", "completion request is required: a JSON object")
    if str(body.get("tenantId") or call.caller.tenant).strip() != call.caller.tenant:
        raise refused(OUTCOME_STATUS, "tenant_mismatch")
    envelope = {**body, "tenantId": call.caller.tenant}
    if call.caller.principal is not None:
        envelope["actor"] = call.caller.principal
    found = await call.ask("complete", envelope=envelope, row=True)
    outcome = found["outcome"]
    if OUTCOME_STATUS[outcome] >= 400:
        more = {**found, "statusOfInteraction": found.pop("status", None)}
        known = ("reason", "interactionId", "executionId", "stepId", "statusOfInteraction", "responsePayload", "actor")
        raise refused(OUTCOME_STATUS, outcome, {name: more[name] for name in known if more.get(name) is not None})
    status = "HELD" if outcome == "held" else "COMPLETED"
    answer = {"status": status, "responsePayload": None, **found, "duplicate": outcome == "duplicate"}
    return said(Completed, answer, OUTCOME_STATUS[outcome])


async def cancel(call: Call) -> web.StreamResponse:
    wanted = await model_of(call.request, call.api.limits, Cancel, optional=True)
    ident, reason = call.request.match_info["id"], by(call, wanted.reason)
    found = await call.ask("cancel", id=ident, kind="interaction", reason=reason)
    return wished(found["outcome"])


async def steps(call: Call) -> web.StreamResponse:
    found = [
        {
            "step": step.name,
            "stepId": step.step_id,
            "stepIndex": step.index,
            "cardinality": step.cardinality.value,
            "transportType": step.transport.type,
            "outputType": step.output_type,
            "timeoutMs": step.timeout_ms,
            "needsToken": step.require_token,
            "completionSchema": schema_path(step.step_id),
        }
        for step in call.api.await_steps()
    ]
    return said_all(AwaitStep, found)


async def schema(call: Call) -> web.StreamResponse:
    found = call.api.schemas.get(call.request.match_info["stepId"])
    if found is None:
        raise ProblemError(404, "not_found", "there is no await step of that id")
    return web.Response(body=orjson.dumps(found), content_type="application/schema+json")


def schema_path(step_id: str) -> str:
    return f"/pipeline/steps/{step_id}/completion-schema"


_COUNT = {"type": "integer", "minimum": 0, "maximum": LIMIT_MAX, "default": LIMIT}

ROUTES = (
    Route(
        "GET",
        ROOT + "/pending",
        pending,
        "Interactions that wait for an answer, the next deadline first, then by id. A page may be short, even empty: "
        f"there is more as long as {CURSOR_HEADER} is there.",
        {200: {"type": "array", "items": Pending}},
        parameters=(
            Parameter("assignee", "Only this assignee's."),
            Parameter("group", "Only this group's."),
            Parameter("stepId", "Only of this step."),
            Parameter("limit", "At most so many; 0: the default.", schema=_COUNT),
            Parameter("cursor", f"Goes on behind a page: its {CURSOR_HEADER}."),
        ),
        refusals=(400,),
        tenant="named",
    ),
    Route(
        "POST",
        ROOT + "/complete",
        complete,
        "Answer an interaction. Answered when the decision is durable; a repeat of the same answer is a duplicate.",
        {200: Completed, 202: Completed},
        body=Completion,
        refusals=(400, 403, 404, 408, 409, 413, 415, 422),
        tenant="named",
    ),
    Route(
        "GET",
        ROOT + "/{id}",
        one,
        "One interaction, with what was asked and, once it is completed, what was answered.",
        {200: Interaction},
        refusals=(404,),
    ),
    Route(
        "POST",
        ROOT + "/{id}/cancel",
        cancel,
        "End an interaction without an answer.",
        {200: Wished},
        body=Cancel,
        body_optional=True,
        refusals=(400, 404, 408, 409, 413, 415),
    ),
    Route(
        "GET",
        EXECUTIONS + "/{id}/units",
        units,
        "What an execution waits for, or has waited for: its await units, in the order of its steps.",
        {200: {"type": "array", "items": AwaitUnit}},
        refusals=(404, 410),
    ),
    Route(
        "GET",
        "/pipeline/steps",
        steps,
        "The steps that wait for answers from outside.",
        {200: {"type": "array", "items": AwaitStep}},
    ),
    Route(
        "GET",
        "/pipeline/steps/{stepId}/completion-schema",
        schema,
        "The JSON Schema of the `responsePayload` that a step takes.",
        {200: {"type": "object"}},
        refusals=(404,),
    ),
)

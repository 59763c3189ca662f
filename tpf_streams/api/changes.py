"""Live changes of pending work, as server-sent events.

    event: interaction
    data: {"interactionId": "…", "executionId": "…", "stepId": "…", "assignee": null, "group": "…", "status": "…"}

`event: resync`: list anew, some changes were not sent. Connect first, then list, and nothing is missed. Only what is in
this process is told; whoever shows the work of several workers lists now and then besides.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence

import orjson
from aiohttp import web

from tpf_streams.api.interactions import FILTERS
from tpf_streams.api.interactions import ROOT as INTERACTIONS
from tpf_streams.api.problems import unavailable
from tpf_streams.api.service import Call, Parameter, Route
from tpf_streams.runtime.pending_feed import Change

IDLE_S = 15.0
"""A comment this often keeps proxies from closing the connection, and shows that the client has gone."""
WRITE_S = 10.0
"""A client that takes nothing for so long is given up: its place is wanted."""


async def changes(call: Call) -> web.StreamResponse:
    feed, request = call.api.feed, call.request
    if len(feed) >= call.api.limits.streams:
        raise unavailable("too_many_streams", "as many clients listen as may (http.max-streams)")
    wanted = {name: text for name in FILTERS if (text := request.query.get(name, "").strip())}
    with feed.listening(call.caller.tenant) as listener:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        try:
            await _write(response, b"retry: 2000\n\n")
            written_s = time.monotonic()
            async for found, lost in listener.lots(IDLE_S):
                events = b"".join(_events([it for it in found if _fits(it, wanted)], lost=lost))
                # Also where others are busy and nothing fits: only a write shows that a client has gone.
                if events or not found or time.monotonic() - written_s >= IDLE_S:
                    await _write(response, events or b": still here\n\n")
                    written_s = time.monotonic()
            await response.write_eof()
        except (TimeoutError, ConnectionError):
            if request.transport is not None:
                request.transport.abort()
        return response


async def _write(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(WRITE_S):
        await response.write(data)


def _fits(change: Change, wanted: dict[str, str]) -> bool:
    return all(_shown(change)[name] == text for name, text in wanted.items())


def _shown(change: Change) -> dict[str, str | None]:
    return {
        "interactionId": change.interaction_id,
        "executionId": change.execution_id,
        "stepId": change.step_id,
        "assignee": change.assignee,
        "group": change.group,
        "status": change.status,
    }


def _events(found: Sequence[Change], *, lost: bool) -> Iterator[bytes]:
    for change in found:
        yield b"event: interaction\ndata: " + orjson.dumps(_shown(change)) + b"\n\n"
    if lost:
        yield b"event: resync\ndata: {}\n\n"


ROUTES = (
    Route(
        "GET",
        INTERACTIONS + "/changes",
        changes,
        "Changes of pending work as they happen: server-sent events `interaction`, and `resync` where some were lost.",
        {200: None},
        parameters=(
            Parameter("assignee", "Only this assignee's."),
            Parameter("group", "Only this group's."),
            Parameter("stepId", "Only of this step."),
        ),
        refusals=(400,),
        tenant="named",
        endless=True,
    ),
)

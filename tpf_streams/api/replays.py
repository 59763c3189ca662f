"""What became true of an execution, page by page: the replay document (contract 10.3) for programs and for its page."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from tpf_streams.api.executions import ROOT
from tpf_streams.api.models import Replay
from tpf_streams.api.reading import whole_number
from tpf_streams.api.saying import said
from tpf_streams.api.service import Call, Parameter, Route
from tpf_streams.runtime.history import events_of
from tpf_streams.runtime.replay import parts

PAGE_BYTES = 256 * 1024
"""Of records in one page: as events they are about ten times as much."""
OFFSET_MAX = 2**53 - 1
"""What a browser's number holds."""
_ENDS = {"SUCCEEDED": "completed", "FAILED": "failed"}


async def replay(call: Call) -> web.StreamResponse:
    execution_id = call.request.match_info["id"]
    start = whole_number(call.request.query, "start", 0, OFFSET_MAX)
    row = await call.ask("execution", executionId=execution_id)
    page = await call.ask("lifecycle", executionId=execution_id, start=start, pageBytes=PAGE_BYTES)
    # In a thread of its own: the events of a long stream would keep the others of this loop waiting.
    return said(Replay, await asyncio.to_thread(_document, row, page))


def _document(row: dict[str, Any], page: dict[str, Any]) -> dict[str, Any]:
    """The row says what it is now; a page that is not the first one does not know how it began."""
    began_ms = row["createdAtEpochMs"]
    return {
        "pipeline": page["pipeline"],
        "startedAt": datetime.fromtimestamp(began_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        "durationMs": row["updatedAtEpochMs"] - began_ms,
        "status": _ENDS.get(row["status"], "running"),
        "failureType": row["errorCode"],
        "failureMessage": row["errorMessage"],
        "topology": page["topology"],
        "events": list(parts(page, events_of(row["executionId"], page["records"]), began_ms)),
        "next": page["end"],
        "more": page["next"] is not None,
    }


ROUTES = (
    Route(
        "GET",
        ROOT + "/{id}/replay",
        replay,
        "What became true of an execution, in the order of its causes: a page of its replay document.",
        {200: Replay},
        parameters=(
            Parameter(
                "start",
                "Where the page begins: `next` of the one before.",
                schema={"type": "integer", "minimum": 0, "maximum": OFFSET_MAX, "default": 0},
            ),
        ),
        refusals=(400, 404, 410),
    ),
)

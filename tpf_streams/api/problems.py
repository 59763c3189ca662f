"""Refusals as problem+json, and which status each has (contract 0.4)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import web

PROBLEM_TYPE = "application/problem+json"
RETRY_AFTER_S = 1

OUTCOME_STATUS = {
    "admitted": 200,
    "duplicate": 200,
    "held": 202,
    "invalid_envelope": 400,
    "resume_token_rejected": 403,
    "identity_mismatch": 403,
    "not_found": 404,
    "tenant_mismatch": 404,
    "conflict": 409,
    "late": 409,
    "terminal": 409,
    "payload_too_large": 413,
    "invalid_payload": 422,
}
"""Of completions."""

WISH_STATUS = {
    "cancelled": 200,
    "redriven": 200,
    "not_found": 404,
    "terminal": 409,
    "not_failed": 409,
    "failed_not_allowed": 409,
    "version_mismatch": 409,
    "closing": 409,
    "not_redrivable": 409,
}
"""Of what operators want."""

TOLD = {
    "not_found": "there is nothing of that id",
    "tenant_mismatch": "there is nothing of that id",
    "conflict": "another answer was admitted before, and stands",
    "late": "the deadline had passed",
    "terminal": "it has ended",
    "resume_token_rejected": "the resume token is missing, or not the one of this interaction",
    "identity_mismatch": "the ids name different interactions",
    "invalid_payload": "the payload does not fit the type that the step takes; see its completion schema",
    "payload_too_large": "the payload is over its limit",
    "invalid_envelope": "this is no completion",
    "not_failed": "only what has failed can be redriven",
    "failed_not_allowed": "it is FAILED, and allowFailed is false",
    "version_mismatch": "it has changed since: look at its status again",
    "closing": "what it had open is still being closed; ask again soon",
    "not_redrivable": "its rows do not hold what it would begin with",
}


class ProblemError(Exception):
    """The answer to a request that is refused. `more`: further members of the problem."""

    def __init__(
        self, status: int, outcome: str, detail: str, *, retry: bool = False, more: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.outcome = outcome
        self.detail = detail
        self.headers = {"Retry-After": str(RETRY_AFTER_S)} if retry else {}
        self.more = more or {}

    def response(self) -> web.Response:
        body = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "outcome": self.outcome,
            **self.more,
        }
        return web.Response(
            body=orjson.dumps(body), status=self.status, content_type=PROBLEM_TYPE, headers=self.headers
        )


def refused(status: Mapping[str, int], outcome: str, more: Mapping[str, Any] | None = None) -> ProblemError:
    """The problem of an outcome that is no success."""
    detail = str((more or {}).get("reason") or TOLD[outcome])
    rest = {name: value for name, value in (more or {}).items() if name != "reason"}
    return ProblemError(status[outcome], outcome, detail, retry=outcome == "closing", more=rest)


def unavailable(outcome: str, detail: str) -> ProblemError:
    return ProblemError(503, outcome, detail, retry=True)

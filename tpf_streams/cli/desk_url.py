"""Asking a worker over HTTP. A question becomes one or more requests; what is told is shaped as an operator's answer.

The bearer token goes into one header and nowhere else: redirects are not followed, so that no other host is sent it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import orjson

from tpf_streams.api.problems import OUTCOME_STATUS, WISH_STATUS
from tpf_streams.cli.console import Exit, fail
from tpf_streams.cli.http_client import HttpClient, RefusedError
from tpf_streams.cli.options import check_texts
from tpf_streams.core.json_policy import dumps
from tpf_streams.core.step import Json
from tpf_streams.runtime.asked_interactions import completion_bytes
from tpf_streams.runtime.views import Answer

PAGE = 500
"""Of a pending list: the most that a worker sends at once."""
EXECUTIONS, INTERACTIONS = "/pipeline/executions/", "/pipeline/interactions/"
SUBMIT_OUTCOMES = {"conflict": 409}
TENANT = "default"


class UrlDesk:
    """`tenant` None: the one that the token is of, and `default` without a token."""

    def __init__(self, url: str, token: str | None = None, tenant: str | None = None) -> None:
        self._tenant = tenant or (None if token else TENANT)
        self._http = HttpClient(url, token, self._tenant)
        self.goes_on = True
        self._questions = {
            "status": self._status,
            "execution": self._execution,
            "units": self._units,
            "interaction": self._interaction,
            "pending": self._pending,
            "submit": self._submit,
            "complete": self._complete,
            "cancel": self._cancel,
            "redrive": self._redrive,
        }

    def ask(self, command: str, arguments: Mapping[str, Any]) -> Answer:
        """Raises RefusedError, HttpError."""
        check_texts(arguments)
        return self._questions[command](arguments)

    def result(self, execution_id: str) -> Json:
        return self._http.get(f"{EXECUTIONS}{_id(execution_id)}/result")

    def _status(self, arguments: Mapping[str, Any]) -> Answer:
        if arguments.get("executionId") is None:
            fail("a worker tells of one execution: name it, or list those of a --data-dir", Exit.USAGE)
        return self._execution(arguments)

    def _execution(self, arguments: Mapping[str, Any]) -> Answer:
        return dict(self._http.get(EXECUTIONS + _id(arguments["executionId"])))

    def _units(self, arguments: Mapping[str, Any]) -> Answer:
        found = self._http.get(f"{EXECUTIONS}{_id(arguments['executionId'])}/units")
        return {"units": [{**it, "interaction": it["interaction"] and _shown(it["interaction"])} for it in found]}

    def _interaction(self, arguments: Mapping[str, Any]) -> Answer:
        return _shown(self._http.get(INTERACTIONS + _id(arguments["interactionId"])))

    def _pending(self, arguments: Mapping[str, Any]) -> Answer:
        """Page by page. How many there are in all a worker does not count."""
        if arguments.get("token"):
            fail("--token: resume tokens are shown of a --data-dir alone", Exit.USAGE)
        found: list[Answer] = []
        cursor: str | None = ""
        while cursor is not None and len(found) < arguments["limit"]:
            query = {"limit": str(min(PAGE, arguments["limit"] - len(found))), "cursor": cursor}
            page, headers = self._http.get_with_headers(INTERACTIONS + "pending", query)
            found += map(_shown, page)
            cursor = headers.get("x-next-cursor")
        if not arguments.get("payload"):
            found = [{name: value for name, value in it.items() if name != "requestPayload"} for it in found]
        return {"interactions": found, "nextCursor": cursor}

    def _submit(self, arguments: Mapping[str, Any]) -> Answer:
        key = arguments.get("key")
        headers = {} if key is None else {"Idempotency-Key": key}
        body = dumps(arguments["payload"])
        answer = self._outcome("/pipeline/run-async", body, SUBMIT_OUTCOMES, headers, again=True)
        if "outcome" not in answer:
            answer["outcome"] = "duplicate" if answer["duplicate"] else "submitted"
            answer["statusUrl"] = self._http.url + answer["statusUrl"]
        return answer

    def _complete(self, arguments: Mapping[str, Any]) -> Answer:
        """Asked again where no outcome came: the same answer twice is a duplicate."""
        body = completion_bytes(arguments, self._tenant or "")  # a blank one: that of the token
        return self._outcome(INTERACTIONS + "complete", body, OUTCOME_STATUS, again=True)

    def _cancel(self, arguments: Mapping[str, Any]) -> Answer:
        """Ids of executions and interactions look alike: what is no interaction is asked for as an execution."""
        body = orjson.dumps({"reason": arguments["reason"]})
        found = self._outcome(f"{INTERACTIONS}{_id(arguments['id'])}/cancel", body, WISH_STATUS)
        if found["outcome"] != "not_found":
            return {**found, "kind": "interaction"}
        found = self._outcome(f"{EXECUTIONS}{_id(arguments['id'])}/cancel", body, WISH_STATUS)
        return {**found, "kind": "execution"}

    def _redrive(self, arguments: Mapping[str, Any]) -> Answer:
        named = ("expectedVersion", "allowFailed", "reason")
        body = orjson.dumps({name: arguments[name] for name in named if arguments.get(name) is not None})
        return self._outcome(f"{EXECUTIONS}{_id(arguments['executionId'])}/redrive", body, WISH_STATUS)

    def _outcome(
        self,
        path: str,
        body: bytes,
        outcomes: Mapping[str, int],
        headers: Mapping[str, str] | None = None,
        *,
        again: bool = False,
    ) -> Answer:
        """A refusal that is one of `outcomes` is an answer. `again`: a repeat does no harm."""
        try:
            return dict(self._http.post(path, body, headers or {}, again=again))
        except RefusedError as error:
            if outcomes.get(error.code) != error.status:
                raise
            return {**error.more, "outcome": error.code, "reason": error.detail}


def _id(text: str) -> str:
    return quote(text, safe="")


def _shown(found: Answer) -> Answer:
    """As a data directory shows it."""
    age_ms = max(0, time.time_ns() // 1_000_000 - found["createdAtEpochMs"])
    return {**found, "transport": found["transportType"], "ageMs": age_ms}

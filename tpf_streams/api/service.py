"""What the routes stand on: who answers, for whom, within which bounds."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry
from pydantic import BaseModel

from tpf_streams.api.access import Access, Caller, check_origin
from tpf_streams.api.hops import LIFE_HEADER, WORKER_HEADER, Owned, hop_of, life_of, life_text
from tpf_streams.api.limits import ApiLimits
from tpf_streams.api.peers import Peers
from tpf_streams.api.problems import ProblemError, unavailable
from tpf_streams.core.step import AwaitDefinition, PipelineDefinition
from tpf_streams.dsl.load import LoadedPipeline
from tpf_streams.dsl.payload_schema import Schema, completion_schema, input_schema
from tpf_streams.errors import LogError, RetryableError
from tpf_streams.runtime.control import Answers
from tpf_streams.runtime.engine_thread import EngineStoppedError
from tpf_streams.runtime.pending_feed import PendingFeed
from tpf_streams.runtime.refusals import (
    DeletedError,
    ElsewhereError,
    FailedError,
    MisfitError,
    NotFinishedError,
    NotFoundError,
    OperatorError,
    TooLargeError,
    UndecidedError,
)

log = logging.getLogger(__name__)

_STATUS: Mapping[type[OperatorError], int] = {
    NotFoundError: 404,
    DeletedError: 410,
    NotFinishedError: 409,
    FailedError: 409,
    MisfitError: 422,
    TooLargeError: 413,
}


class Api:
    """`answers`: the operator's commands, wherever the engine runs. `ready`: whether every partition of this process is
    open; `partitions`: those. `metrics`: None where they are switched off. `peers`: None where there is no other
    worker."""

    def __init__(
        self,
        answers: Answers,
        loaded: LoadedPipeline,
        feed: PendingFeed,
        *,
        ready: Callable[[], bool],
        partitions: Callable[[], Sequence[int]],
        metrics: CollectorRegistry | None = None,
        peers: Peers | None = None,
    ) -> None:
        self.answers = answers
        self.loaded = loaded
        self.feed = feed
        self.ready = ready
        self.partitions = partitions
        self.metrics = metrics
        self.peers = peers
        self.limits = ApiLimits.of(loaded.settings)
        self.access = Access.of(loaded.settings)
        self.schemas: Mapping[str, Schema] = {
            step.step_id: completion_schema(loaded.types, step) for step in self.await_steps()
        }
        """Of completions, by step id."""
        self.input_schema = input_schema(loaded.types, loaded.definition)
        self.document = b""
        """The OpenAPI document, once it has been asked for."""

    @property
    def definition(self) -> PipelineDefinition:
        return self.loaded.definition

    def await_steps(self) -> list[AwaitDefinition]:
        return [step for step in self.definition.steps if isinstance(step, AwaitDefinition)]


@dataclass(frozen=True, slots=True)
class Call:
    """One request, and who makes it."""

    api: Api
    request: web.Request
    caller: Caller
    hop: Owned | None = None
    """The partitions that are asked for, where another worker asks on behalf of its client."""
    life: int = 0
    """Of a submission whose key is used again: the life that it is for, as the home of the first one has said."""

    @property
    def marks(self) -> dict[str, str]:
        """Headers of an answer, for that worker."""
        return {} if self.hop is None or self.api.peers is None else {WORKER_HEADER: self.api.peers.worker_id}

    async def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """The operator's answer, of rows of the caller's tenant alone. Raises OperatorError, LogError, TimeoutError."""
        named = {"tenantId": self.caller.tenant, **arguments}
        if self.hop is not None:
            named["owned"] = self.hop
        if self.life:
            named["life"] = self.life
        async with asyncio.timeout(self.api.limits.answer_s):
            return await self.api.answers.answer(command, named)


Handler = Callable[[Call], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """Of the query, or a header. The path's own are in the path."""

    name: str
    help: str
    place: str = "query"
    required: bool = False
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})


@dataclass(frozen=True, slots=True)
class Route:
    """One row of the table. `answers`: status -> model, a JSON Schema, or None where the body is no JSON.

    `tenant`: "named" (the header is wanted), "default" (it may be left out), or "none": the route is about the process.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    answers: Mapping[int, type[BaseModel] | Schema | None]
    body: type[BaseModel] | str | None = None
    """A model; or `input`: the pipeline's own input."""
    body_optional: bool = False
    parameters: tuple[Parameter, ...] = ()
    refusals: tuple[int, ...] = ()
    tenant: str = "default"
    endless: bool = False
    """Its body is a stream that goes on: what it would begin with is told nobody without it (HEAD)."""


def guarded(api_of: Callable[[], Api | None], route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """The handler as aiohttp calls it, with every refusal said in HTTP. Bad input is never a 5xx (contract 0.4).

    `api_of` is asked with every request: a web server may listen before its engine is there.
    """

    async def answer(request: web.Request) -> web.StreamResponse:
        marks: Mapping[str, str] = {}
        api = api_of()
        if api is None:
            return unavailable("starting", "the engine is not there yet").response()
        try:
            caller = Caller("")
            if route.method == "POST":
                check_origin(request)
            if route.tenant != "none":
                caller = api.access.caller(request, explicit=route.tenant == "named")
            # Nobody passes anything on to a worker that is alone: who says so there is no worker.
            hop = None if api.peers is None else hop_of(request)
            call = Call(api, request, caller, hop, 0 if hop is None else life_of(request))
            marks = call.marks
            response = await _answered(route, call)
        except Exception as error:
            response = problem_of(error).response()
        if not response.prepared:
            response.headers.update(marks)
            response.headers.setdefault("Cache-Control", "no-store")  # the tenant is in a header, which no cache asks
        return response

    return answer


async def _answered(route: Route, call: Call) -> web.StreamResponse:
    """Here, or by the worker that has the rows. Who is asked by another worker never asks a third."""
    try:
        return await route.handler(call)
    except ElsewhereError as error:
        if call.hop is not None and error.life and not call.life:
            response = problem_of(error).response()
            response.headers[LIFE_HEADER] = life_text(error)
            return response
        if call.hop is not None or call.api.peers is None or error.assigned:
            raise
        found = await call.api.peers.forward(call.request, error.partition, error.life or call.life)
    if isinstance(found, ElsewhereError):
        # Said by the home of the key's first life, which has taken the submission. This worker may have the later one.
        return await _answered(route, replace(call, life=found.life))
    return found


def problem_of(error: Exception) -> ProblemError:
    """What a client is told of what went wrong. Raises aiohttp's own refusals."""
    match error:
        case ProblemError():
            return error
        case ElsewhereError():
            # Never a 404: the rows are somewhere, or about to be.
            return unavailable(error.code, str(error))
        case UndecidedError() | TimeoutError():
            return unavailable("undecided", "no outcome in time; it may still come true: ask again")
        case OperatorError():
            status = _STATUS.get(type(error), 400)
            outcome = "invalid_argument" if error.code == OperatorError.code else error.code
            return ProblemError(status, outcome, str(error), retry=isinstance(error, NotFinishedError))
        case EngineStoppedError() | LogError() | RetryableError():
            return unavailable("unavailable", "the engine cannot answer just now")
        case web.HTTPException():
            raise error
    # Without its message, which may hold what was sent.
    where = traceback.extract_tb(error.__traceback__)[-1]
    log.error("a request failed: %s in %s:%s", type(error).__name__, where.filename, where.lineno)
    return ProblemError(500, "internal_error", type(error).__name__)

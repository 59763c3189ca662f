"""What an operator may ask of an application and tell it; the same behind the socket and on a log nobody runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson

from tpf_streams.core.completion import check_pinned, project, read
from tpf_streams.core.execution import ExecutionStatus
from tpf_streams.core.identity import partition_of, route_of
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.json_policy import parse_json
from tpf_streams.core.outcome import OperatorOutcome, Outcome
from tpf_streams.core.step import AnyStep, AwaitDefinition, Json, PipelineDefinition
from tpf_streams.engine.lifecycle import lifecycle_topic
from tpf_streams.engine.wire import dead_letters_topic, events_topic
from tpf_streams.errors import JsonPolicyError, PayloadError, TpfError
from tpf_streams.runtime.application import Application
from tpf_streams.runtime.history import history_page
from tpf_streams.runtime.open_log import ViewableLog
from tpf_streams.runtime.replay import pipeline_part
from tpf_streams.runtime.topology import described
from tpf_streams.runtime.views import Answer, LogViews

ENVELOPE_BYTES_MAX = 5 * 1024 * 1024
"""Above every limit of a payload: what is larger is refused before anybody looks into it."""
SETTLE_S = 10.0
LIMIT_MAX = 10_000
REASON_CHARS = 512


class OperatorError(TpfError):
    """A question that has no answer: unknown command, unknown execution, bad argument."""

    code = "OPERATOR"


class Operator:
    """Answers by command name. `application`: a running one, which completions need."""

    def __init__(
        self,
        definition: PipelineDefinition,
        log: ViewableLog,
        application: Application | None = None,
        default_tenant: str = "default",
    ) -> None:
        self.views = LogViews(log, definition)
        self._definition = definition
        self._log = log
        self._application = application
        self._default_tenant = default_tenant
        self._commands: dict[str, Callable[[Mapping[str, Any]], Awaitable[Answer]]] = {
            "status": self._status,
            "pending": self._pending,
            "complete": self._complete,
            "redrive": self._redrive,
            "cancel": self._cancel,
            "describe": self._describe,
            "lifecycle": self._lifecycle,
        }

    async def answer(self, command: str, arguments: Mapping[str, Any]) -> Answer:
        """The answer, with the partitions it knows little of. Raises OperatorError, and what the log raises."""
        found = self._commands.get(command)
        if found is None:
            raise OperatorError(f"unknown command; known are {', '.join(self._commands)}")
        answer = await found(arguments)
        if command == "lifecycle":
            return answer  # from the log itself, whoever has the partition
        return {**answer, "unseenPartitions": list(self._log.unseen)} if self._log.unseen else answer

    async def _status(self, arguments: Mapping[str, Any]) -> Answer:
        execution_id = arguments.get("executionId")
        if execution_id is None:
            return await self.views.status(_limit(arguments))
        found = self.views.detail(str(execution_id))
        if found is None:
            self._refuse_deleted(str(execution_id))
            raise OperatorError("there is no execution of that id")
        return found

    async def _pending(self, arguments: Mapping[str, Any]) -> Answer:
        shown = [
            self._shown(interaction, payload=bool(arguments.get("payload")), token=bool(arguments.get("token")))
            for interaction in self.views.pending(_limit(arguments))
        ]
        return {"count": self.views.pending_count(), "interactions": shown}

    def _shown(self, interaction: InteractionRecord, *, payload: bool, token: bool) -> Answer:
        step = self._definition.steps[interaction.step_index]
        found: Answer = {
            "interactionId": interaction.interaction_id,
            "correlationId": interaction.correlation_id,
            "executionId": interaction.execution_id,
            "tenantId": interaction.tenant_id,
            "step": step.name,
            "itemIndex": interaction.item_index,
            "status": interaction.status.value,
            "transport": interaction.transport_type,
            "assignee": interaction.assignee,
            "group": interaction.group,
            "createdAtEpochMs": interaction.created_at_epoch_ms,
            "deadlineEpochMs": interaction.deadline_epoch_ms,
            "ageMs": max(0, time.time_ns() // 1_000_000 - interaction.created_at_epoch_ms),
            "needsToken": isinstance(step, AwaitDefinition) and step.require_token,
        }
        if payload:
            found["requestPayload"] = _asked(step, self.views.request_payload(interaction))
        if token and self._definition.resume_token_secrets:
            found["resumeToken"] = resume_token(self._definition, interaction)
        return found

    async def _complete(self, arguments: Mapping[str, Any]) -> Answer:
        if self._application is None:
            raise OperatorError("nothing runs here that could admit a completion")
        self._refuse_unseen(arguments)
        envelope = completion_bytes(arguments, self._default_tenant)
        try:
            outcome = await self._application.complete(envelope)
        except TimeoutError:
            raise OperatorError("no outcome in time; the completion may still be admitted: look with status") from None
        reason = self._misfit(arguments) if outcome == Outcome.INVALID_PAYLOAD else None
        return {"outcome": outcome} if reason is None else {"outcome": outcome, "reason": reason}

    async def _redrive(self, arguments: Mapping[str, Any]) -> Answer:
        """A failed execution goes on where it failed (contract 0.14)."""
        version, allowed = arguments.get("expectedVersion"), arguments.get("allowFailed", True)
        if not (version is None or type(version) is int) or type(allowed) is not bool:
            raise OperatorError("expectedVersion: a whole number; allowFailed: true or false")
        execution_id, reason = str(arguments.get("executionId") or ""), _reason(arguments)
        return await self._wished(
            lambda it: it.redrive(execution_id, expected_version=version, allow_failed=allowed, reason=reason),
            execution_id,
        )

    async def _cancel(self, arguments: Mapping[str, Any]) -> Answer:
        """An execution, or one interaction: their ids look alike, and the rows say which it is."""
        ident, reason = str(arguments.get("id") or ""), _reason(arguments)
        if self.views.interaction(ident) is not None:
            found = await self._wished(lambda it: it.cancel_interaction(ident, reason), ident)
            return {"kind": "interaction", **found}
        return {"kind": "execution", **await self._wished(lambda it: it.cancel_execution(ident, reason), ident)}

    async def _wished(self, wish: Callable[[Application], Awaitable[str]], ident: str) -> Answer:
        if self._application is None:
            raise OperatorError("nothing runs here that could do it")
        if route_of(ident) is None:
            return {"outcome": OperatorOutcome.NOT_FOUND.value}
        self._refuse_elsewhere(ident, "ask that one")
        self._refuse_deleted(ident)
        try:
            return {"outcome": str(await wish(self._application))}
        except TimeoutError:
            raise OperatorError("no outcome in time; it may still come true: look with status") from None

    def _refuse_deleted(self, execution_id: str) -> None:
        stone = self.views.tombstone(execution_id)
        if stone is not None and self.views.execution(execution_id) is None:
            raise OperatorError(
                f"execution {execution_id} ended and has been deleted (pipeline.orchestrator.execution-ttl-days): "
                "nothing of it is left; submit its key again for a new one"
            )

    def _refuse_unseen(self, arguments: Mapping[str, Any]) -> None:
        ident = str(arguments.get("interactionId") or arguments.get("correlationId") or "")
        self._refuse_elsewhere(ident, "ask that one, or write the completion to the response topic")

    def _refuse_elsewhere(self, ident: str, instead: str) -> None:
        """Of what another worker decides nothing comes back here: the operator would wait, and then know nothing."""
        route = route_of(ident)
        home = None if route is None else partition_of(route, self._log.partitions)
        if home in self._log.unseen:
            raise OperatorError(f"partition {home}, where it is waited for, is with another worker: {instead}")

    def _misfit(self, arguments: Mapping[str, Any]) -> str | None:
        """Why the payload does not fit, for the person who wrote it: providers read it in the dead letter."""
        interaction = self.views.interaction(str(arguments.get("interactionId") or ""))
        step = None if interaction is None else self._definition.steps[interaction.step_index]
        if not isinstance(step, AwaitDefinition):
            return None
        assert interaction is not None
        try:
            value = read(step, parse_json(str(arguments.get("payload", "")).encode(), ENVELOPE_BYTES_MAX))
            check_pinned(step, interaction)
            if step.completion is not None:
                project(step.completion, interaction, value)
        except PayloadError as error:
            return str(error)
        return None

    async def _lifecycle(self, arguments: Mapping[str, Any]) -> Answer:
        """One page of an execution's events; `known` says whether its row is here."""
        execution_id, start = str(arguments.get("executionId") or ""), arguments.get("start", 0)
        if not isinstance(start, int) or start < 0:
            raise OperatorError("start: an offset is wanted, 0 or more")
        page = await history_page(self._log, self._definition, execution_id, start)
        return {**page, "known": self.views.execution(execution_id) is not None, **pipeline_part(self._definition)}

    async def _describe(self, arguments: Mapping[str, Any]) -> Answer:
        status = await self.views.status(0)
        ends = await self._log.end_offsets(topics_of(self._definition))
        records: dict[str, int] = dict.fromkeys(topics_of(self._definition), 0)
        for part, offset in ends.items():
            records[part.topic] += offset
        return {
            "applicationId": self._definition.application_id,
            "partitions": self._log.partitions,
            "steps": [described(step, self._definition) for step in self._definition.steps],
            "topics": records,
            "rows": await self.views.row_counts(),
            "executions": status["counts"],
            "interactions": await self.views.interaction_statuses(),
        }


@asynccontextmanager
async def running(application: Application) -> AsyncIterator[None]:
    """The application at work, for the time of the block. Raises what stops it."""
    await application.open()
    stop = asyncio.Event()
    work = asyncio.ensure_future(application.run(stop))
    try:
        yield
    finally:
        stop.set()
        await work


async def settled(views: LogViews, execution_id: str) -> None:
    """Return when an execution waits or has ended, or after some seconds."""
    end_s = time.monotonic() + SETTLE_S
    while time.monotonic() < end_s:
        found = views.execution(execution_id)
        if found is None or found.status.terminal or found.status is ExecutionStatus.WAIT_RETRY:
            return
        if found.await_unit_id and not views.owed_count():
            return
        await asyncio.sleep(0.02)


def _asked(step: AnyStep, stored: Json) -> Json:
    """The request as its provider reads it. One that an earlier release stored, and no message of this one can hold, is
    shown as it was stored: an inbox must not be hidden by one of its entries."""
    try:
        return step.request_payload(stored) if isinstance(step, AwaitDefinition) else stored
    except PayloadError:
        return stored


def completion_bytes(arguments: Mapping[str, Any], default_tenant: str) -> bytes:
    """The envelope (contract 1.2), with the payload as the operator wrote it. Raises OperatorError."""
    payload = str(arguments.get("payload", "")).encode()
    try:
        parse_json(payload, ENVELOPE_BYTES_MAX)
    except JsonPolicyError as error:
        raise OperatorError(f"the payload is no JSON value that is taken here: {error}") from None
    fields = {
        "tenantId": arguments.get("tenantId") or default_tenant,
        "interactionId": arguments.get("interactionId"),
        "correlationId": arguments.get("correlationId"),
        "resumeToken": arguments.get("resumeToken"),
        "actor": arguments.get("actor"),
    }
    head = orjson.dumps({name: value for name, value in fields.items() if value is not None})
    return head[:-1] + b',"responsePayload":' + payload + b"}"


def resume_token(definition: PipelineDefinition, interaction: InteractionRecord) -> str:
    """The token that the request carries: the same row gives the same bytes."""
    return definition.signer.sign(interaction.claims())


def topics_of(definition: PipelineDefinition) -> list[str]:
    """The application's own topics and those of its await steps."""
    own = (events_topic, dead_letters_topic, lifecycle_topic)
    found = [topic(definition.application_id) for topic in own]
    for step in definition.steps:
        if isinstance(step, AwaitDefinition) and step.transport.type == "kafka":
            found += [step.transport.options[way]["topic"] for way in ("request", "response")]
    return list(dict.fromkeys([*found, definition.output_topic]))


def _reason(arguments: Mapping[str, Any]) -> str:
    return str(arguments.get("reason") or "")[:REASON_CHARS]


def _limit(arguments: Mapping[str, Any]) -> int:
    limit = arguments.get("limit", 50)
    if not isinstance(limit, int) or not 1 <= limit <= LIMIT_MAX:
        raise OperatorError(f"limit: 1 to {LIMIT_MAX} is wanted")
    return limit

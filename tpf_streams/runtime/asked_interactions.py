"""What is asked about interactions: who is waited for, and what came of it."""

from __future__ import annotations

import asyncio
import time

import orjson

from tpf_streams.core.completion import check_pinned, project, read
from tpf_streams.core.envelope import EnvelopeRefusedError, parse_completion
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.joining import elements
from tpf_streams.core.json_policy import dumps, parse_json, row_bytes
from tpf_streams.core.outcome import Outcome
from tpf_streams.core.step import AnyStep, AwaitDefinition, Json, PipelineDefinition
from tpf_streams.core.token import hinted
from tpf_streams.engine.wire import payload_bytes_max
from tpf_streams.errors import JsonPolicyError, PayloadError
from tpf_streams.runtime.asked import Arguments, Asked, decided, is_of, limit_in, reason_in
from tpf_streams.runtime.cursor import Place, place_of
from tpf_streams.runtime.refusals import OperatorError
from tpf_streams.runtime.views import Answer

ENVELOPE_BYTES_MAX = 5 * 1024 * 1024
"""Above every limit of a payload: what is larger is refused before anybody looks into it."""
PAGE_BYTES_MAX = 4 * 1024 * 1024
"""Of requests shown at once: an inbox of large ones has shorter pages."""
LOOKED_AT_MAX = 2_000
"""Rows looked at for one page: one filter that fits nothing must not read everything there is."""
SHOWN = frozenset({Outcome.ADMITTED, Outcome.DUPLICATE, Outcome.CONFLICT, Outcome.LATE, Outcome.TERMINAL})
"""Outcomes behind every check of ids and token: who is told less might be anybody (contract 0.3)."""
BREATH = 100
"""Rows looked at before others on the owner's loop get their turn."""


class InteractionQuestions:
    """Answers by command name."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self.commands = {
            "pending": self.pending,
            "interaction": self.interaction,
            "complete": self.complete,
            "cancel": self.cancel,
        }

    async def pending(self, arguments: Arguments) -> Answer:
        """Open ones in the order of their deadlines, from behind `cursor` on.

        `assignee`, `group`, `stepId` and `tenantId` leave out the others; a blank one is as good as none. A page may be
        short of `limit`, and even empty: `nextCursor` alone says whether there is more. `owned`: of these partitions
        alone, which must be here all the while.
        """
        cursor, owned = arguments.get("cursor"), arguments.get("owned")
        page = _Page(limit_in(arguments))
        payload, token = bool(arguments.get("payload")), bool(arguments.get("token"))
        for place in self._asked.views.waiting(place_of(str(cursor)) if cursor else None, owned):
            if page.full:
                break
            interaction = self._asked.views.interaction(place.interaction_id)
            if interaction is None or interaction.status.terminal or not _wanted(arguments, interaction):
                await page.passed(place)
            else:
                await page.take(place, self.shown(interaction, payload=payload, token=token))
        else:
            page.last = None
        if owned is not None:
            self._asked.whereabouts.confirm(owned)
        found: Answer = {"interactions": page.shown, "nextCursor": page.last and page.last.cursor()}
        return {"count": self._asked.views.pending_count(), **found} if arguments.get("count", True) else found

    async def interaction(self, arguments: Arguments) -> Answer:
        """One of them, open or not, with what was asked and what was answered."""
        found = self._asked.interaction(str(arguments.get("interactionId") or ""), arguments)
        return self.whole(found)

    def whole(self, interaction: InteractionRecord) -> Answer:
        """With what was asked and what was answered."""
        return {**self.shown(interaction, payload=True, token=False), **_answered(interaction)}

    def shown(self, interaction: InteractionRecord, *, payload: bool, token: bool) -> Answer:
        """As a person wants to see it."""
        step = self._step(interaction)
        found: Answer = {
            "interactionId": interaction.interaction_id,
            "correlationId": interaction.correlation_id,
            "executionId": interaction.execution_id,
            "tenantId": interaction.tenant_id,
            "step": interaction.step_id if step is None else step.name,
            "stepId": interaction.step_id,
            "stepIndex": interaction.step_index,
            "itemIndex": interaction.item_index,
            "outputType": interaction.output_type,
            "status": interaction.status.value,
            "transport": interaction.transport_type,
            "transportMetadata": _metadata(interaction),
            "assignee": interaction.assignee,
            "group": interaction.group,
            "createdAtEpochMs": interaction.created_at_epoch_ms,
            "updatedAtEpochMs": interaction.updated_at_epoch_ms,
            "deadlineEpochMs": interaction.deadline_epoch_ms,
            "ageMs": max(0, time.time_ns() // 1_000_000 - interaction.created_at_epoch_ms),
            "needsToken": isinstance(step, AwaitDefinition) and step.require_token,
        }
        if payload:
            found["requestPayload"] = _requested(step, self._asked.views.request_payload(interaction))
        if token and self._asked.definition.resume_token_secrets:
            found["resumeToken"] = resume_token(self._asked.definition, interaction)
        return found

    async def complete(self, arguments: Arguments) -> Answer:
        """The outcome (contract 0.4) of the answer in `payload`, JSON text, or of a whole `envelope`.

        An envelope may name its interaction by its token alone. With `row` what the answer met is told, too.
        """
        application = self._asked.running("admit a completion")
        envelope = dict(arguments.get("envelope") or arguments)
        if not (envelope.get("interactionId") or envelope.get("correlationId")) and envelope.get("resumeToken"):
            envelope["interactionId"] = hinted(envelope["resumeToken"])
            if envelope["interactionId"] is None:
                application.dropped(Outcome.RESUME_TOKEN_REJECTED)
                return {"outcome": Outcome.RESUME_TOKEN_REJECTED.value}
        ident = str(envelope.get("interactionId") or envelope.get("correlationId") or "").strip()
        self._asked.whereabouts.check(ident, "ask that one, or write the completion to the response topic")
        whole = "envelope" in arguments
        data = dumps(envelope) if whole else completion_bytes(envelope, self._asked.default_tenant)
        outcome = await decided(application.complete(data))
        found: Answer = {"outcome": outcome}
        reason = self._reason(outcome, data, ident)
        if reason is not None:
            found["reason"] = reason
        return {**found, **self._row_of(ident, envelope)} if arguments.get("row") and outcome in SHOWN else found

    def _reason(self, outcome: str, data: bytes, ident: str) -> str | None:
        """What is wrong with an answer, for the person who wrote it: providers read it in the dead letter."""
        if outcome not in (Outcome.INVALID_ENVELOPE, Outcome.INVALID_PAYLOAD):
            return None
        definition = self._asked.definition
        try:
            limit = payload_bytes_max(definition.limits)
            envelope = parse_completion(data, max_bytes=limit, strict=definition.strict_envelopes)
        except EnvelopeRefusedError as error:
            return str(error)
        return self._misfit(ident, envelope.response_payload)

    def _row_of(self, ident: str, envelope: Arguments) -> Answer:
        """What the answer met, for who may see it."""
        interaction = self._asked.views.interaction_by(ident)
        tenant = {"tenantId": envelope.get("tenantId") or self._asked.default_tenant}
        if interaction is None or not is_of(tenant, interaction.tenant_id):
            return {}
        return {
            "interactionId": interaction.interaction_id,
            "executionId": interaction.execution_id,
            "stepId": interaction.step_id,
            "status": interaction.status.value,
            **_answered(interaction),
        }

    def _step(self, interaction: InteractionRecord) -> AnyStep | None:
        """None where an earlier pipeline had more steps: a list must not be hidden by one of its entries."""
        steps = self._asked.definition.steps
        return steps[interaction.step_index] if interaction.step_index < len(steps) else None

    def _misfit(self, ident: str, payload: Json) -> str | None:
        interaction = self._asked.views.interaction_by(ident)
        step = None if interaction is None else self._step(interaction)
        if not isinstance(step, AwaitDefinition):
            return None
        assert interaction is not None
        try:
            values = [read(step, it) for it in (elements(payload) if step.expands else [payload])]
            check_pinned(step, interaction)
            if step.completion is not None:
                project(step.completion, interaction, values[0])
        except PayloadError as error:
            return str(error)
        return None

    async def cancel(self, arguments: Arguments) -> Answer:
        """An execution, or one interaction: their ids look alike, and the rows say which it is, unless `kind` does."""
        ident, reason = str(arguments.get("id") or ""), reason_in(arguments)
        kind = arguments.get("kind") or ("execution" if self._asked.views.interaction(ident) is None else "interaction")
        if kind == "interaction":
            outcome = await self._asked.wished(ident, arguments, lambda it: it.cancel_interaction(ident, reason))
        else:
            outcome = await self._asked.wished(ident, arguments, lambda it: it.cancel_execution(ident, reason))
        return {"kind": kind, "outcome": outcome}


class _Page:
    """A page in the making. `last`: the place behind which the next one begins."""

    def __init__(self, limit: int) -> None:
        self.shown: list[Answer] = []
        self.last: Place | None = None
        self._limit = limit
        self._bytes = self._looked_at = 0

    @property
    def full(self) -> bool:
        return len(self.shown) >= self._limit or self._bytes >= PAGE_BYTES_MAX or self._looked_at >= LOOKED_AT_MAX

    async def take(self, place: Place, shown: Answer) -> None:
        self.shown.append(shown)
        self._bytes += row_bytes(shown.get("requestPayload"))
        await self.passed(place)

    async def passed(self, place: Place) -> None:
        self.last = place
        self._looked_at += 1
        if self._looked_at % BREATH == 0:
            await asyncio.sleep(0)


def _metadata(interaction: InteractionRecord) -> dict[str, Json]:
    """Of its dispatch (contract 9.4), and what the row says besides."""
    found: dict[str, Json] = {"adapter": interaction.transport_type}
    if interaction.dispatched_at_epoch_ms:
        found["dispatchedAtEpochMs"] = interaction.dispatched_at_epoch_ms
    return {**found, **interaction.transport_metadata}


def _wanted(arguments: Arguments, interaction: InteractionRecord) -> bool:
    return is_of(arguments, interaction.tenant_id) and all(
        not arguments.get(name) or arguments[name] == value
        for name, value in (
            ("assignee", interaction.assignee),
            ("group", interaction.group),
            ("stepId", interaction.step_id),
        )
    )


def _answered(interaction: InteractionRecord) -> Answer:
    """The answer that was admitted. That of a step which expands lies in rows that its items have used up."""
    return {
        "responsePayload": interaction.response_payload,
        "actor": interaction.actor,
        "updatedAtEpochMs": interaction.updated_at_epoch_ms,
    }


def _requested(step: AnyStep | None, stored: Json) -> Json:
    """The request as its provider reads it. One that an earlier release stored, and no message of this one can hold, is
    shown as it was stored: an inbox must not be hidden by one of its entries."""
    try:
        return step.request_payload(stored) if isinstance(step, AwaitDefinition) else stored
    except PayloadError:
        return stored


def completion_bytes(arguments: Arguments, default_tenant: str) -> bytes:
    """The envelope (contract 1.2), with the payload as the operator wrote it. Raises OperatorError."""
    payload = str(arguments.get("payload", "")).encode()
    try:
        parse_json(payload, ENVELOPE_BYTES_MAX)
    except JsonPolicyError as error:
        raise OperatorError(f"the payload is no JSON value that is taken here: {error}") from None
    names = ("interactionId", "correlationId", "resumeToken", "idempotencyKey", "actor")
    fields = {"tenantId": arguments.get("tenantId") or default_tenant, **{name: arguments.get(name) for name in names}}
    head = orjson.dumps({name: value for name, value in fields.items() if value is not None})
    return head[:-1] + b',"responsePayload":' + payload + b"}"


def resume_token(definition: PipelineDefinition, interaction: InteractionRecord) -> str:
    """The token that the request carries: the same row gives the same bytes."""
    return definition.signer.sign(interaction.claims())

"""Completion admission: one completion, one outcome, the same on every transport (contract 0.4)."""

from __future__ import annotations

from tpf_streams.core.completion import DIGEST, check_pinned, digest, project, read
from tpf_streams.core.continuation import interaction_ended, resume_scalar
from tpf_streams.core.dispatch import check_payload
from tpf_streams.core.early import held, named_step, without_row
from tpf_streams.core.effects import DeadLetter
from tpf_streams.core.ending import await_steps, close_interaction, return_slot
from tpf_streams.core.envelope import CompletionEnvelope
from tpf_streams.core.events import CompletionReceived
from tpf_streams.core.evolve import replace
from tpf_streams.core.execution import ExecutionRecord, OwedKind, OwedRecord
from tpf_streams.core.fallback import arm_of, start_item
from tpf_streams.core.gates import gates_open, item_answered
from tpf_streams.core.identity import id_bytes
from tpf_streams.core.interaction import EarlyRecord, InteractionRecord, InteractionStatus
from tpf_streams.core.joining import (
    OUTPUT_ITEMS,
    check_list,
    elements,
    plain_answer,
    put_list,
    stored_answer,
)
from tpf_streams.core.json_policy import canonical, row_bytes
from tpf_streams.core.outcome import Outcome
from tpf_streams.core.rows import text_id
from tpf_streams.core.state import Draft
from tpf_streams.core.step import AwaitDefinition, Json
from tpf_streams.core.token import check_token
from tpf_streams.errors import PayloadError, TokenError

_DEAD_LETTERED = frozenset({Outcome.INVALID_PAYLOAD, Outcome.PAYLOAD_TOO_LARGE})
_UNDROPPED = frozenset({Outcome.ADMITTED, Outcome.DUPLICATE, Outcome.HELD})


def completion_received(draft: Draft, event: CompletionReceived) -> None:
    """Decide one completion and whatever follows from it."""
    interaction = None
    try:
        interaction = find_row(draft, event.envelope)
        outcome = without_row(draft, event) if interaction is None else with_row(draft, event, interaction)
        message = ""
    except _Refused as refusal:
        outcome, message = refusal.outcome, refusal.message
    draft.outcome = outcome.value
    report(draft, event, outcome, message, interaction)


class _Refused(Exception):
    """A completion stops at this outcome."""

    def __init__(self, outcome: Outcome, message: str = "") -> None:
        self.outcome = outcome
        self.message = message


def find_row(draft: Draft, envelope: CompletionEnvelope) -> InteractionRecord | None:
    """The one row that every id of the envelope names (contract 0.3).

    Raises _Refused: payload_too_large, tenant_mismatch or identity_mismatch. Says nothing about another row.
    """
    by_interaction = row_of(draft, envelope.interaction_id)
    by_correlation = by_interaction
    if envelope.correlation_id is not None and not (
        by_interaction is not None and by_interaction.correlation_id == envelope.correlation_id
    ):
        by_correlation = row_of(draft, interaction_of(draft, envelope.correlation_id))
    found = by_interaction or by_correlation
    limit = draft.definition.limits.max_payload_bytes
    if envelope.payload_bytes_max > limit and (size := row_bytes(envelope.response_payload)) > limit:
        check_large(draft, envelope, found, size)
    if found is None:
        return None
    if found.tenant_id != envelope.tenant_id:
        raise _Refused(Outcome.TENANT_MISMATCH)
    if envelope.interaction_id is not None and by_interaction is not by_correlation:
        raise _Refused(Outcome.IDENTITY_MISMATCH)
    return found


def check_large(draft: Draft, envelope: CompletionEnvelope, found: InteractionRecord | None, size: int) -> None:
    """More than one item may have: only the answer of a step that expands is allowed it. Without a row the step is that
    of the token, where it is genuine."""
    limits, step_id = draft.definition.limits, found.step_id if found is not None else named_step(draft, envelope)
    expands = any(step.step_id == step_id and step.expands for step in await_steps(draft))
    limit = limits.max_aggregate_bytes if expands else limits.max_payload_bytes
    if size > limit:
        raise _Refused(Outcome.PAYLOAD_TOO_LARGE, f"responsePayload is over {limit} bytes")


def row_of(draft: Draft, interaction_id: str | None) -> InteractionRecord | None:
    raw = None if interaction_id is None else id_bytes(interaction_id)
    return None if raw is None else draft.get(draft.keys.interaction_of(raw), InteractionRecord)


def interaction_of(draft: Draft, correlation_id: str) -> str | None:
    raw = id_bytes(correlation_id)
    if raw is None:
        return None
    found = draft.state.get_bytes(draft.keys.correlation(text_id(raw)))
    return None if found is None else text_id(found)


def early_due(draft: Draft, interaction_id: str) -> None:
    """The row exists now: decide what was held for it, one by one, each by its own arrival time."""
    early = draft.get(draft.keys.early(interaction_id), EarlyRecord)
    if early is None:
        return
    draft.delete(draft.keys.early(interaction_id))
    draft.delete(draft.keys.early_expiry(early.expires_at_epoch_ms, interaction_id))
    for event in held(early):
        completion_received(draft, event)


def with_row(draft: Draft, event: CompletionReceived, interaction: InteractionRecord) -> Outcome:
    step = draft.step(interaction.step_index)
    check_row_token(draft, event.envelope, interaction, step)
    payload = event.envelope.response_payload
    if step.expands:
        check_answer(draft, step, payload)
    try:
        value = [read(step, it) for it in elements(payload)] if step.expands else read(step, payload)
    except PayloadError as error:
        raise _Refused(Outcome.INVALID_PAYLOAD, str(error)) from error
    if interaction.status is InteractionStatus.COMPLETED:
        return Outcome.DUPLICATE if is_repeat(draft, step, interaction, payload) else Outcome.CONFLICT
    if interaction.status in (InteractionStatus.CANCELLED, InteractionStatus.FAILED):
        return Outcome.TERMINAL
    late = event.arrived_at_ms > interaction.deadline_epoch_ms
    if interaction.status is InteractionStatus.TIMED_OUT:
        return Outcome.LATE if late else Outcome.TERMINAL
    execution = draft.execution(interaction.execution_id)
    if execution is None or execution.status.terminal:
        # The bounded closing of an ended execution has not come to this row yet: it counts as cancelled already.
        close_interaction(draft, interaction, InteractionStatus.CANCELLED)
        return Outcome.TERMINAL
    if late:
        message = f"Await interaction timed out: {interaction.interaction_id}"
        interaction_ended(draft, interaction, InteractionStatus.TIMED_OUT, "AWAIT_TIMEOUT", message)
        return Outcome.LATE
    value, payload, metadata = projected(draft, step, interaction, payload, value)
    admit(draft, event, execution, step, interaction, value, payload, metadata)
    return Outcome.ADMITTED


def check_answer(draft: Draft, step: AwaitDefinition, payload: Json) -> None:
    """The limits of an answer that flows on item by item. Raises _Refused."""
    items, limit = elements(payload), draft.definition.limits.max_aggregate_output_items
    if 0 < limit < len(items):
        message = (
            f"Await step {step.step_id} materialized at least {limit + 1} output items for {step.cardinality}, "
            f"exceeding {OUTPUT_ITEMS}={limit}."
        )
        raise _Refused(Outcome.PAYLOAD_TOO_LARGE, message)
    try:
        check_list(draft, "responsePayload", items)
    except PayloadError as error:
        raise _Refused(Outcome.PAYLOAD_TOO_LARGE, str(error)) from error


def is_repeat(draft: Draft, step: AwaitDefinition, interaction: InteractionRecord, payload: Json) -> bool:
    """Whether the completed interaction was answered with this very payload."""
    kept = interaction.transport_metadata.get(DIGEST)
    if kept is not None:
        return bool(kept == digest(payload))
    return canonical(plain_answer(step, payload)) == canonical(stored_answer(draft, step, interaction))


def projected(
    draft: Draft, step: AwaitDefinition, interaction: InteractionRecord, payload: Json, value: object
) -> tuple[object, Json, dict[str, Json]]:
    """What flows on, what the row keeps of it, and the row's metadata. Nothing is changed yet.

    Raises _Refused with invalid_payload: the interaction stays open, for a better answer or another release.
    """
    metadata = interaction.transport_metadata
    try:
        check_pinned(step, interaction)
        if step.completion is None:
            return value, payload, metadata
        value, kept = project(step.completion, interaction, value)
        check_payload(draft, kept, "the answer of", step)
        return value, kept, {**metadata, DIGEST: digest(payload)}
    except PayloadError as error:
        raise _Refused(Outcome.INVALID_PAYLOAD, str(error)) from error


def check_row_token(
    draft: Draft, envelope: CompletionEnvelope, interaction: InteractionRecord, step: AwaitDefinition
) -> None:
    """Contract 0.2: required where the step says so, checked whenever supplied. The row decides about time."""
    token = envelope.resume_token
    if token is None:
        if step.require_token:
            raise _Refused(Outcome.RESUME_TOKEN_REJECTED, "a resume token is required")
        return
    if draft.state.signer is None:
        raise _Refused(Outcome.RESUME_TOKEN_REJECTED, "no resume token secret is configured")
    if draft.state.signer.gave(token, interaction.claims()):
        return
    try:
        check_token(
            draft.state.signer.verify(token),
            tenant_id=interaction.tenant_id,
            interaction_id=interaction.interaction_id,
            correlation_id=interaction.correlation_id,
            execution_id=interaction.execution_id,
            step_id=interaction.step_id,
        )
    except TokenError as error:
        raise _Refused(Outcome.RESUME_TOKEN_REJECTED, str(error)) from error


def admit(
    draft: Draft,
    event: CompletionReceived,
    execution: ExecutionRecord,
    step: AwaitDefinition,
    interaction: InteractionRecord,
    value: object,
    payload: Json,
    metadata: dict[str, Json],
) -> None:
    """Record the answer, once, and let the execution go on as its path allows."""
    if interaction.status is InteractionStatus.WAITING:
        # The answer has overtaken the acknowledgement of its dispatch, which will find nothing to tell any more.
        draft.fact("interaction.dispatched.total", step.labels, about=interaction)
    if step.expands and interaction.item_index is None:
        put_list(draft, interaction.execution_id, step.index + 1, elements(payload))
        payload = None
    interaction = replace(
        interaction,
        status=InteractionStatus.COMPLETED,
        version=interaction.version + 1,
        response_payload=payload,
        actor=event.envelope.actor,
        updated_at_epoch_ms=draft.now_ms,
        transport_metadata=metadata,
    )
    draft.put_interaction(interaction)
    draft.delete(draft.keys.deadline(interaction.deadline_epoch_ms, interaction.interaction_id))
    if step.transport.owed:
        draft.delete(draft.keys.owed(interaction.execution_id, OwedKind.SEND, interaction.item_index))
    facts = step.labels
    latency_ms = draft.now_ms - interaction.created_at_epoch_ms
    draft.fact("completion.admitted.total", facts, about=interaction, latencyMs=latency_ms)
    if interaction.item_index is None:
        return_slot(draft, step.index, interaction)
        owed = OwedRecord(
            interaction.execution_id,
            OwedKind.SEGMENT,
            None,
            step.index + 1,
            interaction_id=interaction.interaction_id,
            unit_id=interaction.unit_id,
            arm=arm_of(step, interaction),
        )
        resume_scalar(draft, execution, step, owed, value)
    else:
        admit_item(draft, execution, step, interaction, value)


def admit_item(
    draft: Draft, execution: ExecutionRecord, step: AwaitDefinition, interaction: InteractionRecord, value: object
) -> None:
    """An answered item goes to the live session, or through the gates of the durable path."""
    session = draft.session(execution.execution_id)
    if session is None:
        return
    session = item_answered(draft, execution, session, step)
    facts = step.labels
    completed = session.completed[str(step.index)]
    draft.fact("item.completed.total", step.unit_labels, about=interaction, completedItemCount=completed)
    if session.live:
        draft.fact("live.handoff.total", facts)
        start_item(draft, execution, step, interaction, holds_slot=step.index, value=value, converted=True)
        return
    return_slot(draft, step.index, interaction)
    unit = draft.unit(interaction.unit_id)
    releasing = draft.owed(execution.execution_id, OwedKind.RELEASE, step.index)
    item = interaction.item_index or 0
    passed = releasing is None or item < releasing.cursor
    if unit is not None and passed and gates_open(draft, execution, session, unit):
        draft.fact("resume.released.total", step.unit_labels, about=interaction)
        start_item(draft, execution, step, interaction, holds_slot=None, value=value, converted=True)
    else:
        held = {**step.unit_labels, "status": interaction.status.value}
        draft.fact("completion.early_held.total", held, about=interaction)


def report(
    draft: Draft, event: CompletionReceived, outcome: Outcome, message: str, interaction: InteractionRecord | None
) -> None:
    """Count what was not admitted, and keep what an operator may have to repair (contract 0.4, 0.10)."""
    transport = "unknown" if interaction is None else interaction.transport_type
    if event.envelope.unknown_fields:
        draft.fact("completion.unknown_fields.total", {"transport": transport}, len(event.envelope.unknown_fields))
    if outcome is Outcome.DUPLICATE:
        draft.fact("completion.duplicate.total", {"transport": transport}, about=interaction)
    if outcome not in _UNDROPPED:
        draft.fact("completion.dropped.total", {"transport": transport, "reason": outcome.value}, about=interaction)
    if outcome in _DEAD_LETTERED:
        draft.effect(DeadLetter(outcome.value, message, event.origin, event.raw))
        draft.fact("dead_letter.total", {"reason": outcome.value})

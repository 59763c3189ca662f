"""Going out: interactions are created and handed to their transport, once they hold a slot of the budget."""

from __future__ import annotations

from tpf_streams.core.effects import AdmitEarly, RequestSlot, SendOwed, SendRequest
from tpf_streams.core.envelope import idempotency_key
from tpf_streams.core.evolve import replace
from tpf_streams.core.execution import ExecutionRecord, ExecutionStatus, OwedKind, OwedRecord
from tpf_streams.core.interaction import EarlyRecord, InteractionRecord, InteractionStatus
from tpf_streams.core.joining import check_request
from tpf_streams.core.json_policy import row_bytes
from tpf_streams.core.rows import raw_id
from tpf_streams.core.state import Draft
from tpf_streams.core.step import AnyStep, AwaitDefinition, Json
from tpf_streams.core.unit import AwaitUnitRecord, UnitStatus
from tpf_streams.errors import PayloadError


def dispatch_when_allowed(draft: Draft, execution: ExecutionRecord, owed: OwedRecord) -> None:
    """Dispatch `owed.payload` at the await step `owed.step_index`, at once or when a slot is held.

    The deadline starts with the slot, not with the wait for it (contract 0.17). Raises PayloadError.
    """
    if draft.definition.wants_slot(draft.step(owed.step_index)):
        draft.put_owed(owed)
        draft.effect(RequestSlot(owed))
    else:
        dispatch(draft, execution, owed.step_index, owed.item_index, owed.payload)


def dispatch(draft: Draft, execution: ExecutionRecord, index: int, item_index: int | None, payload: Json) -> None:
    """Create the interaction of one item, of a list, or of a scalar execution, and send its request.

    Raises PayloadError when the payload is too large or no JSON, or a field of the idempotency key is missing.
    """
    step = draft.step(index)
    if step.joins:
        check_request(draft, index, len(payload), row_bytes(payload))
    else:
        check_payload(draft, payload, "the request of", step)
        if step.to_transport is not None:
            check_payload(draft, step.request_payload(payload), "the request of", step)
    interaction = new_interaction(draft, execution, step, item_index, payload)
    ensure_unit(draft, execution, step, interaction)
    if item_index is None:
        park_scalar(draft, execution, interaction)
    keys = draft.keys
    draft.put_interaction(replace(interaction, request_payload=None) if step.joins else interaction)
    draft.put(keys.correlation(interaction.correlation_id), raw_id(interaction.interaction_id))
    draft.put(keys.deadline(interaction.deadline_epoch_ms, interaction.interaction_id), b"")
    send(draft, step, interaction)
    if draft.state.early_rows and draft.get(keys.early(interaction.interaction_id), EarlyRecord) is not None:
        draft.effect(AdmitEarly(interaction.interaction_id))


def check_payload(draft: Draft, payload: Json, what: str, step: AnyStep) -> None:
    """Sizes are checked before a commit can break on them. Raises PayloadError."""
    size, limit = row_bytes(payload), draft.definition.limits.max_payload_bytes
    if size > limit:
        message = f"{what} {step.step_id} has {size} bytes; pipeline.max-payload-bytes is {limit}"
        raise PayloadError(message, "PAYLOAD_TOO_LARGE")


def new_interaction(
    draft: Draft, execution: ExecutionRecord, step: AwaitDefinition, item_index: int | None, payload: Json
) -> InteractionRecord:
    ids = draft.state.unit_ids(execution, step)
    now = draft.now_ms
    place = f"{execution.execution_id}:{step.index}"
    return InteractionRecord(
        tenant_id=execution.tenant_id,
        execution_id=execution.execution_id,
        unit_id=ids.unit_id,
        step_id=step.step_id,
        step_index=step.index,
        item_index=item_index,
        interaction_id=ids.interaction_id(item_index),
        correlation_id=ids.correlation_id(item_index),
        causation_id=place if item_index is None else f"{place}:{item_index}",
        idempotency_key=idempotency_key(
            step.step_id,
            step.idempotency_fields,
            payload,
            item_index,
            execution.execution_id,
            decimal_fields=step.decimal_fields,
        ),
        status=InteractionStatus.WAITING if step.transport.owed else InteractionStatus.DISPATCHED,
        version=1,
        input_type=step.input_type,
        output_type=step.output_type,
        request_payload=payload,
        response_payload=None,
        actor=None,
        assignee=literal_or_field(step.assignee, payload),
        group=literal_or_field(step.group, payload),
        transport_type=step.transport.type,
        deadline_epoch_ms=now + step.timeout_ms,
        issued_at_epoch_ms=now,
        dispatched_at_epoch_ms=now,
        created_at_epoch_ms=now,
        updated_at_epoch_ms=now,
        transport_metadata=step.pinned,
    )


def literal_or_field(name: str | None, payload: Json) -> str | None:
    """Contract 0.14: an assignee or group is a payload field of that name, else the word itself."""
    if name is None or not isinstance(payload, dict) or name not in payload:
        return name
    value = payload[name]
    return None if value is None else str(value)


def ensure_unit(
    draft: Draft, execution: ExecutionRecord, step: AwaitDefinition, interaction: InteractionRecord
) -> None:
    """The unit of a boundary exists from its first interaction on; a scalar one is complete in dispatch at once."""
    if draft.unit(interaction.unit_id) is None:
        draft.put_unit(new_unit(draft, execution, step, itemized=interaction.item_index is not None))


def new_unit(draft: Draft, execution: ExecutionRecord, step: AwaitDefinition, *, itemized: bool) -> AwaitUnitRecord:
    return AwaitUnitRecord(
        tenant_id=execution.tenant_id,
        unit_id=draft.state.unit_ids(execution, step).unit_id,
        execution_id=execution.execution_id,
        step_id=step.step_id,
        step_index=step.index,
        generation=execution.generation,
        cardinality=step.cardinality.value,
        itemized=itemized,
        status=UnitStatus.WAITING_EXTERNAL,
        version=1,
        expected_item_count=None if itemized else 1,
        completed_item_count=0,
        rejected_item_count=0,
        dispatch_complete=not itemized,
        created_at_epoch_ms=draft.now_ms,
        updated_at_epoch_ms=draft.now_ms,
    )


def park_scalar(draft: Draft, execution: ExecutionRecord, interaction: InteractionRecord) -> None:
    draft.put_execution(
        replace(
            execution,
            status=ExecutionStatus.WAITING_EXTERNAL,
            version=execution.version + 1,
            current_step_index=interaction.step_index,
            await_unit_id=interaction.unit_id,
            retries=0,
            updated_at_epoch_ms=draft.now_ms,
        )
    )


def send(draft: Draft, step: AwaitDefinition, interaction: InteractionRecord) -> None:
    facts = step.labels
    draft.fact("interaction.created.total", facts, about=interaction)
    if step.transport.owed:
        owed = OwedRecord(
            interaction.execution_id,
            OwedKind.SEND,
            interaction.item_index,
            interaction.step_index,
            interaction_id=interaction.interaction_id,
        )
        draft.put_owed(owed)
        draft.effect(SendOwed(owed))
    else:
        draft.effect(SendRequest(interaction))
        draft.fact("interaction.dispatched.total", facts, about=interaction)
    if interaction.item_index is None:
        draft.fact("unit.dispatch_complete.total", step.unit_labels, about=interaction, expectedItemCount=1)
        draft.fact("execution.waiting.total", facts, about=interaction)


def metadata_row(draft: Draft, metadata: dict[str, Json], adapter: str) -> dict[str, Json]:
    """What a transport tells of a dispatch, where a row can hold it."""
    try:
        fits = row_bytes(metadata) <= draft.definition.limits.max_payload_bytes
    except PayloadError:
        fits = False
    return metadata if fits else {"adapter": adapter}


def sent(draft: Draft, owed: OwedRecord, metadata: dict[str, Json]) -> None:
    """A dispatch outside the log is known done. An answer may have been faster (T30), or its execution have ended and
    not be closed so far yet (I7): then only the owing ends."""
    if draft.owed(owed.execution_id, owed.kind, owed.item_index) != owed:
        return
    draft.done(owed)
    interaction, execution = draft.interaction(owed.interaction_id or ""), draft.execution(owed.execution_id)
    if interaction is None or interaction.status.terminal or execution is None or execution.status.terminal:
        return
    draft.put_interaction(
        replace(
            interaction,
            status=InteractionStatus.DISPATCHED,
            version=interaction.version + 1,
            # What is pinned comes last: no transport takes back what the request promised of its answer (T31).
            transport_metadata={
                **metadata_row(draft, metadata, interaction.transport_type),
                **interaction.transport_metadata,
            },
            updated_at_epoch_ms=draft.now_ms,
        )
    )
    draft.fact("interaction.dispatched.total", draft.step(interaction.step_index).labels, about=interaction)

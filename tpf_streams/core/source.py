"""The beginning: executions are admitted by their key, and streams are pulled item by item."""

from __future__ import annotations

from dataclasses import asdict

from tpf_streams.core.continuation import (
    item_failed,
    settle_in_list,
    start_segment,
    stop_source,
    write_output,
)
from tpf_streams.core.course import Stream
from tpf_streams.core.dead_letter import reason_of
from tpf_streams.core.dispatch import check_payload, dispatch
from tpf_streams.core.effects import EmitReject, UseSlot
from tpf_streams.core.ending import fail_execution, finish_if_drained
from tpf_streams.core.events import ExecutionSubmitted, ItemsPulled, SourceFailed
from tpf_streams.core.evolve import replace
from tpf_streams.core.execution import ExecutionRecord, ExecutionStatus, OwedKind, OwedRecord, RejectRecord
from tpf_streams.core.gates import end_source
from tpf_streams.core.joining import check_list, check_request, put_list, take_list
from tpf_streams.core.json_policy import canonical, row_bytes, row_text
from tpf_streams.core.outcome import SubmitOutcome
from tpf_streams.core.retention import life_id, remembered
from tpf_streams.core.state import Draft
from tpf_streams.core.step import ItemReject, Json
from tpf_streams.core.unit import SessionRecord
from tpf_streams.core.window import chain
from tpf_streams.errors import PayloadError


def submitted(draft: Draft, event: ExecutionSubmitted) -> None:
    """Create the execution, or meet the one that has this key already (contract 0.1)."""
    definition = draft.definition
    execution_id = life_id(draft, event, event.life)
    earlier = draft.execution(execution_id)
    if earlier is not None:
        draft.fact("execution.duplicate.total", {}, executionId=execution_id)
        if event.origin:
            draft.outcome = SubmitOutcome.DUPLICATE if is_repeat(draft, event, earlier) else SubmitOutcome.CONFLICT
        return
    if remembered(draft, event, execution_id):
        return
    listed = definition.takes_list_input
    fits = row_bytes(event.input_payload) <= definition.limits.max_aggregate_bytes
    execution = ExecutionRecord(
        tenant_id=event.tenant_id,
        execution_id=execution_id,
        execution_key=event.execution_key,
        pipeline_id=definition.pipeline_id,
        life=event.life,
        generation=0,
        status=ExecutionStatus.RUNNING,
        version=1,
        current_step_index=0,
        attempt=0,
        input_payload=event.input_payload if fits and not listed else None,
        source=None if event.source is None else asdict(event.source),
        await_unit_id=None,
        error_code=None,
        error_message=None,
        error_detail=None,
        created_at_epoch_ms=draft.now_ms,
        updated_at_epoch_ms=draft.now_ms,
    )
    draft.put_execution(execution)
    draft.outcome = SubmitOutcome.SUBMITTED if event.origin else None
    draft.fact("execution.submitted.total", {}, about=execution, executionId=execution_id)
    if not fits:
        message = f"the input is over {definition.limits.max_aggregate_bytes} bytes (pipeline.max-aggregate-bytes)"
        fail_execution(draft, execution, "PAYLOAD_TOO_LARGE", message)
        return
    if listed:
        list_submitted(draft, execution, event)
        return
    owed = OwedRecord(execution_id, OwedKind.SEGMENT, None, 0)
    start_segment(draft, execution, owed, event.input_payload, converted=False)


def is_repeat(draft: Draft, event: ExecutionSubmitted, earlier: ExecutionRecord) -> bool:
    """Whether the execution was begun with this input. Of a list, which lies in rows that its first step has used up,
    and of an object nobody can tell any more: the key decides."""
    if draft.definition.takes_list_input or earlier.source is not None or earlier.input_payload is None:
        return True
    return canonical(earlier.input_payload) == canonical(event.input_payload)


def list_submitted(draft: Draft, execution: ExecutionRecord, event: ExecutionSubmitted) -> None:
    """The input is a list that the first step takes together; an ingested object is a list of one."""
    items = event.input_payload if event.source is None else [event.input_payload]
    first = draft.definition.steps[0]
    try:
        if not isinstance(items, list):
            raise PayloadError(f"{first.step_id} takes a list of {first.input_type}, and the input is none")
        check_list(draft, "the input", items)
        check_request(draft, 0, len(items), row_bytes(items))
    except PayloadError as error:
        fail_execution(draft, execution, error.code, str(error))
        return
    put_list(draft, execution.execution_id, 0, items)
    take_list(draft, execution, 0, len(items))


def items_pulled(draft: Draft, event: ItemsPulled) -> None:
    """Take elements of the source in their order. A batch that does not fit the committed position is stale."""
    execution = draft.execution(event.execution_id)
    session = draft.session(event.execution_id)
    if execution is None or execution.status.terminal or session is None:
        return
    if session.source_ended or session.source_position != event.position:
        return
    if session.recalling or event.generation != execution.generation:
        return
    owed = source_work(draft, event.execution_id)
    if owed is None:
        return
    stream = draft.definition.course.streams[session.stream]
    for element in event.elements:
        if isinstance(element, ItemReject):
            session = reject_row(draft, execution, session, element)
        else:
            taken = take_item(draft, execution, session, stream, element)
            if taken is None or taken.source_ended:
                return
            session = taken
    if event.ended:
        finish_if_drained(draft, execution, end_source(draft, execution, session))


def source_work(draft: Draft, execution_id: str) -> OwedRecord | None:
    """The owed record that is the source of a running stream."""
    return draft.owed(execution_id, OwedKind.SEGMENT, None)


def reject_row(draft: Draft, execution: ExecutionRecord, session: SessionRecord, reject: ItemReject) -> SessionRecord:
    """A piece of the source that is no item (`onRowError: REJECT_ROW`): to the item-reject file and topic."""
    ordinal, limits = session.next_reject, draft.definition.limits
    file, column, reason = (
        row_text(text, limits.error_message_chars) for text in (reject.file, reject.column, reject.reason)
    )
    raw = row_text(reject.raw, limits.max_payload_bytes)
    record = RejectRecord(session.execution_id, ordinal, None, file, reject.line, column, reason, raw)
    draft.put(draft.keys.reject(session.execution_id, ordinal), record)
    session = replace(session, source_position=session.source_position + 1, rejected_rows=session.rejected_rows + 1)
    draft.put_session(session)
    draft.fact("row.rejected.total", {}, about=record, stream=session.stream)
    value: dict[str, Json] = {
        "tenantId": execution.tenant_id,
        "executionId": execution.execution_id,
        "file": file,
        "line": reject.line,
        "column": column,
        "code": "ROW_REJECTED",
        "message": reason,
        "payload": raw,
    }
    draft.effect(EmitReject(execution.execution_id, execution.execution_id, value))
    return session


def take_item(
    draft: Draft, execution: ExecutionRecord, session: SessionRecord, stream: Stream, payload: Json
) -> SessionRecord | None:
    """Dispatch an item, or settle one that waits for nobody. Returns where the session stands then."""
    number = session.next_item_index
    try:
        digest = chain(session.source_digest, payload)
    except TypeError as error:
        event = SourceFailed(execution.execution_id, PayloadError.code, f"item {number} is not plain JSON: {error}", "")
        event = replace(event, generation=execution.generation)
        source_failed(draft, event)
        return draft.session(execution.execution_id)
    session = replace(
        session, next_item_index=number + 1, source_position=session.source_position + 1, source_digest=digest
    )
    draft.put_session(session)
    awaited = stream.awaited
    try:
        if awaited is not None:
            draft.effect(UseSlot(execution.execution_id))
            dispatch(draft, execution, awaited, number, payload)
            return session
        return settle_unawaited(draft, execution, session, stream, number, payload)
    except PayloadError as error:
        kind, index = (OwedKind.SEGMENT, stream.end) if awaited is None else (OwedKind.SLOT, awaited)
        failed = OwedRecord(execution.execution_id, kind, number, index, holds_slot=awaited)
        item_failed(draft, execution, failed, error.code, str(error), "")
        return draft.session(execution.execution_id)


def settle_unawaited(
    draft: Draft,
    execution: ExecutionRecord,
    session: SessionRecord,
    stream: Stream,
    number: int,
    payload: Json,
) -> SessionRecord | None:
    """An item of a stream that waits for nobody is at its end as it comes. Raises PayloadError."""
    check_payload(draft, payload, "the output of", draft.definition.steps[stream.end - 1])
    if stream.end < len(draft.definition.steps):
        settle_in_list(draft, execution, number, None, [payload], stream.end)
        return draft.session(execution.execution_id)
    write_output(draft, execution, number, [payload], None, f"{execution.execution_id}:{number}")
    session = replace(session, settled=session.settled + 1, outputs=session.outputs + 1)
    draft.put_session(session)
    return session


def source_failed(draft: Draft, event: SourceFailed) -> None:
    """Nothing dispatched: FAILED at once. Else what is dispatched is finished and published first (contract 0.15)."""
    execution = draft.execution(event.execution_id)
    session = draft.session(event.execution_id)
    if execution is None or execution.status.terminal or session is None or session.source_ended:
        return
    if event.generation != execution.generation:
        return
    reason = reason_of(retryable=event.retryable)
    if session.next_item_index == 0:
        fail_execution(draft, execution, event.code, event.message, event.detail, reason)
        return
    session = stop_source(draft, execution, session, (event.code, event.message, event.detail, reason), publish=True)
    finish_if_drained(draft, execution, session)

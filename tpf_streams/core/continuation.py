"""Going on: what a segment gave becomes the next dispatch, or the end of the item. Permits return with settlement."""

from __future__ import annotations

from collections.abc import Sequence

from tpf_streams.core.dead_letter import TerminalReason
from tpf_streams.core.dispatch import check_payload, dispatch, dispatch_when_allowed
from tpf_streams.core.effects import EmitOutput, EmitReject, RunSegment
from tpf_streams.core.ending import (
    ERROR_CODE_CHARS,
    close_interaction,
    fail_execution,
    failure_reason,
    finish_if_drained,
    owe_publish,
    return_slot,
    succeed,
    unit_ended,
)
from tpf_streams.core.evolve import replace
from tpf_streams.core.execution import (
    ExecutionRecord,
    ExecutionStatus,
    OutputRecord,
    OwedKind,
    OwedRecord,
    PartRecord,
    RejectRecord,
)
from tpf_streams.core.gates import end_source, item_unanswered
from tpf_streams.core.interaction import InteractionRecord, InteractionStatus
from tpf_streams.core.joining import check_request, check_together, elements, gathered, open_stream, take_list
from tpf_streams.core.json_policy import row_bytes, row_text
from tpf_streams.core.state import Draft
from tpf_streams.core.step import AwaitDefinition, Json, OnItemFailure, OnItemTimeout
from tpf_streams.core.unit import CUT, SessionRecord, UnitStatus
from tpf_streams.errors import PayloadError


def start_segment(draft: Draft, execution: ExecutionRecord, owed: OwedRecord, value: object, converted: bool) -> None:
    """Owe the service steps from `owed.step_index`: as a source when they make a stream, else as one run.

    A segment without steps is over at once: an await that is first, or last, or follows another.
    """
    if draft.definition.is_stop(owed.step_index):
        payload = value if not converted else response_of(draft, owed)
        many = owed.interaction_id is not None and draft.step(owed.step_index - 1).expands
        arrived(draft, execution, owed, elements(payload) if many else [payload], owed.step_index)
        return
    if owed.item_index is None and draft.definition.stream_from(owed.step_index) is not None:
        open_stream(draft, execution, owed)
        return
    draft.put_owed(owed)
    draft.effect(RunSegment(owed, value, converted))


def response_of(draft: Draft, owed: OwedRecord) -> Json:
    interaction = draft.interaction(owed.interaction_id or "")
    return owed.payload if interaction is None else interaction.response_payload


def segment_completed(draft: Draft, execution: ExecutionRecord, owed: OwedRecord, outputs: Sequence[Json]) -> None:
    """The steps of a segment gave `outputs`, which come to the stop behind them."""
    arrived(draft, execution, owed, outputs, draft.definition.segment_end(owed.step_index))


def arrived(draft: Draft, execution: ExecutionRecord, owed: OwedRecord, outputs: Sequence[Json], index: int) -> None:
    """`outputs` are at step `index`: settle the item, or take it to the await step that is there."""
    try:
        for output in outputs:
            check_payload(draft, output, "the output of", draft.definition.steps[index - 1])
        if len(outputs) > 1:
            check_together(draft, outputs, draft.definition.steps[index - 1])
    except PayloadError as error:
        item_failed(draft, execution, owed, error.code, str(error), "")
        return
    draft.done(owed)
    if index == len(draft.definition.steps):
        if owed.item_index is None:
            finish_scalar(draft, execution, owed, outputs)
        else:
            settle(draft, execution, owed, outputs)
        return
    if index in draft.definition.course.gathered:
        gather(draft, execution, owed, outputs, index)
        return
    if owed.holds_slot is not None:
        # A slot holder never waits for a second slot (contract 0.17): it would be a deadlock of full budgets.
        return_slot(draft, owed.holds_slot, owed)
    if len(outputs) != 1:
        message = f"the steps before {draft.step(index).step_id} gave {len(outputs)} items where one is expected"
        item_failed(draft, execution, replace(owed, holds_slot=None), "ITEM_COUNT", message, "")
        return
    following = replace(
        owed, kind=OwedKind.SLOT, step_index=index, payload=outputs[0], holds_slot=None, interaction_id=None
    )
    if owed.item_index is None:
        execution = replace(execution, current_step_index=index, updated_at_epoch_ms=draft.now_ms)
        draft.put_execution(execution)
    try:
        dispatch_when_allowed(draft, execution, following)
    except PayloadError as error:
        item_failed(draft, execution, following, error.code, str(error), "")


def slot_granted(draft: Draft, execution: ExecutionRecord, owed: OwedRecord) -> None:
    draft.done(owed)
    payload = owed.payload
    if owed.item_index is None and draft.step(owed.step_index).joins:
        payload = draft.state.parts_now(execution.execution_id, owed.step_index)
    try:
        dispatch(draft, execution, owed.step_index, owed.item_index, payload)
    except PayloadError as error:
        held = replace(owed, holds_slot=owed.step_index)
        item_failed(draft, execution, held, error.code, str(error), "")


def gather(draft: Draft, execution: ExecutionRecord, owed: OwedRecord, outputs: Sequence[Json], index: int) -> None:
    """What arrives where a list is taken is kept for it; one value alone is a list of one."""
    if owed.holds_slot is not None:
        return_slot(draft, owed.holds_slot, owed)
    if owed.item_index is not None:
        settle_in_list(draft, execution, owed.item_index, owed.arm, outputs, index)
        return
    if len(outputs) != 1:
        message = f"a segment gave {len(outputs)} items where one is expected"
        fail_execution(draft, execution, "ITEM_COUNT", message, resume=owed)
        return
    try:
        check_request(draft, index, 1, row_bytes(outputs[0]) + 2)
    except PayloadError as error:
        fail_execution(draft, execution, error.code, str(error), resume=owed)
        return
    draft.put(draft.keys.part(execution.execution_id, index, 0), PartRecord(list(outputs)))
    execution = replace(execution, current_step_index=index, updated_at_epoch_ms=draft.now_ms)
    draft.put_execution(execution)
    take_list(draft, execution, index, 1)


def settle_in_list(
    draft: Draft, execution: ExecutionRecord, item_index: int, arm: str | None, outputs: Sequence[Json], index: int
) -> None:
    """An item is at the end of its stream, and its place in the window is free. One over the limit ends all."""
    session = draft.session(execution.execution_id)
    if session is None:
        return
    session = gathered(draft, session, index, item_index, outputs)
    by_arm = session.by_arm if arm is None else {**session.by_arm, arm: session.by_arm.get(arm, 0) + 1}
    session = replace(session, settled=session.settled + 1, by_arm=by_arm)
    draft.put_session(session)
    draft.fact(
        "item.gathered.total",
        {},
        executionId=execution.execution_id,
        itemIndex=item_index,
        stream=session.stream,
        outputs=len(outputs),
    )
    try:
        check_request(draft, index, session.outputs, session.output_bytes + 1)
    except PayloadError as error:
        fail_execution(draft, execution, error.code, str(error))
        return
    finish_if_drained(draft, execution, session)


def finish_scalar(draft: Draft, execution: ExecutionRecord, owed: OwedRecord, outputs: Sequence[Json]) -> None:
    if len(outputs) != 1:
        message = f"a scalar execution gave {len(outputs)} outputs where one is expected"
        fail_execution(draft, execution, "ITEM_COUNT", message, resume=owed)
        return
    write_output(draft, execution, None, outputs, owed.arm, execution.execution_id)
    if draft.definition.publishes:
        owe_publish(draft, execution)
    else:
        succeed(draft, execution)


def settle(draft: Draft, execution: ExecutionRecord, owed: OwedRecord, outputs: Sequence[Json]) -> None:
    """An item's outputs join the transaction and its place in the window is free (contract 0.17)."""
    session = draft.session(execution.execution_id)
    if session is None or owed.item_index is None:
        return
    key = owed.interaction_id or f"{execution.execution_id}:{owed.item_index}"
    write_output(draft, execution, owed.item_index, outputs, owed.arm, key)
    by_arm = session.by_arm
    if owed.arm is not None:
        by_arm = {**by_arm, owed.arm: by_arm.get(owed.arm, 0) + 1}
    session = replace(session, settled=session.settled + 1, outputs=session.outputs + len(outputs), by_arm=by_arm)
    draft.put_session(session)
    if owed.holds_slot is not None:
        return_slot(draft, owed.holds_slot, owed)
    finish_if_drained(draft, execution, session)


def write_output(
    draft: Draft, execution: ExecutionRecord, item_index: int | None, outputs: Sequence[Json], arm: str | None, key: str
) -> None:
    record = put_output(draft, execution, item_index, outputs, arm)
    for payload in outputs:
        emit = EmitOutput(execution.tenant_id, execution.execution_id, item_index, key, record.type, arm, payload)
        draft.effect(emit)
    draft.fact("output.emitted.total", {}, len(outputs), about=record)


def put_output(
    draft: Draft, execution: ExecutionRecord, item_index: int | None, outputs: Sequence[Json], arm: str | None
) -> OutputRecord:
    record = OutputRecord(
        execution.execution_id, item_index, draft.definition.steps[-1].output_type, arm, list(outputs)
    )
    draft.put(draft.keys.output(execution.execution_id, item_index), record)
    return record


def item_failed(
    draft: Draft,
    execution: ExecutionRecord,
    owed: OwedRecord,
    code: str,
    message: str,
    detail: str,
    reason: TerminalReason = TerminalReason.NON_RETRYABLE,
) -> None:
    """A step gave up on an item: reject it, or let what is open drain and fail (contract 0.9).

    `reason`: of the dead letter, which the continuation of an item has not (contract section 14).
    """
    draft.done(owed)
    if owed.item_index is None:
        if owed.holds_slot is not None:
            return_slot(draft, owed.holds_slot, owed)
        fail_execution(draft, execution, code, message, detail, reason, resume=owed)
        return
    fails = draft.definition.on_item_failure is OnItemFailure.FAIL_EXECUTION
    reject_item(draft, execution, owed.item_index, code, message, report=None if fails else owed)
    if owed.holds_slot is not None:
        return_slot(draft, owed.holds_slot, owed)
    if owed.kind is not OwedKind.SEGMENT:
        item_unanswered(draft, execution, draft.step(owed.step_index))
    session = draft.session(execution.execution_id)
    if session is None:
        return
    if fails:
        reason = TerminalReason.UNREPORTED if owed.kind is OwedKind.SEGMENT else reason
        session = stop_source(draft, execution, session, (code, message, detail, reason), publish=False)
    finish_if_drained(draft, execution, session)


def stop_source(
    draft: Draft,
    execution: ExecutionRecord,
    session: SessionRecord,
    failure: tuple[str, str, str, TerminalReason],
    *,
    publish: bool,
) -> SessionRecord:
    """No more items: what is in flight drains, then the execution fails with the first reason."""
    if session.failure is None:
        cut = () if session.source_ended else (CUT,)
        why = (*failure_reason(draft, *failure[:3]), failure[3].value, *cut)
        session = replace(session, failure=why, publish_on_failure=publish)
        draft.put_session(session)
    return end_source(draft, execution, session)


def reject_item(
    draft: Draft,
    execution: ExecutionRecord,
    item_index: int,
    code: str,
    message: str,
    *,
    report: OwedRecord | None = None,
) -> None:
    """Settle an item without output; it goes to the item-reject file.

    `report`: the work that ended, where the item is turned away for good: then the item-reject topic has it too.
    """
    session = draft.session(execution.execution_id)
    if session is None:
        return
    ordinal = session.next_reject
    source = (execution.source or {}).get("key", "")
    reason = row_text(f"{code}: {message}", draft.definition.limits.error_message_chars)
    reject = RejectRecord(execution.execution_id, ordinal, item_index, source, 0, "", reason, "")
    draft.put(draft.keys.reject(execution.execution_id, ordinal), reject)
    end = draft.definition.course.streams[session.stream].end
    draft.put(draft.keys.rejected(execution.execution_id, end, item_index), ordinal.to_bytes(4, "big"))
    if end == len(draft.definition.steps):
        put_output(draft, execution, item_index, [], None)
    else:
        draft.put(draft.keys.part(execution.execution_id, end, item_index), PartRecord([]))
    draft.put_session(replace(session, settled=session.settled + 1, rejected_items=session.rejected_items + 1))
    draft.fact(
        "item.rejected.total", {}, about=reject, errorCode=row_text(code, ERROR_CODE_CHARS), stream=session.stream
    )
    if report is not None:
        emit_item_reject(draft, execution, report, code, message)


def emit_item_reject(draft: Draft, execution: ExecutionRecord, owed: OwedRecord, code: str, message: str) -> None:
    """The item as it was asked for, and why nothing came of it."""
    interaction = draft.interaction(owed.interaction_id or "")
    value: dict[str, Json] = {
        "tenantId": execution.tenant_id,
        "executionId": execution.execution_id,
        "itemIndex": owed.item_index,
        "stepId": draft.definition.steps[min(owed.step_index, len(draft.definition.steps) - 1)].step_id,
        "interactionId": owed.interaction_id,
        "code": code,
        "message": row_text(message, draft.definition.limits.error_message_chars),
        "payload": owed.payload if interaction is None else interaction.request_payload,
    }
    draft.effect(EmitReject(execution.execution_id, owed.interaction_id or execution.execution_id, value))


def interaction_ended(
    draft: Draft,
    interaction: InteractionRecord,
    status: InteractionStatus,
    code: str,
    message: str,
    detail: str = "",
    reason: TerminalReason = TerminalReason.UNREPORTED,
) -> None:
    """An open interaction ends without an answer: time-out, cancellation or a dispatch that failed.

    The row, its unit, the execution and the live session learn of it in the same decision (contract 0.8). What that
    means for an item says `onItemFailure` where its dispatch failed, else `onItemTimeout` (contract 0.9).
    """
    close_interaction(draft, interaction, status)
    execution = draft.execution(interaction.execution_id)
    if execution is None or execution.status.terminal:
        return
    step = draft.step(interaction.step_index)
    ended = OwedRecord(
        execution.execution_id,
        OwedKind.SEND,
        interaction.item_index,
        step.index,
        interaction_id=interaction.interaction_id,
    )
    if interaction.item_index is not None and status is InteractionStatus.FAILED:
        item_failed(draft, execution, ended, code, message, detail, reason)
        return
    if interaction.item_index is not None and step.on_item_timeout is OnItemTimeout.REJECT_ITEM:
        reject_item(draft, execution, interaction.item_index, code, message, report=ended)
        item_unanswered(draft, execution, step)
        session = draft.session(execution.execution_id)
        if session is not None:
            finish_if_drained(draft, execution, session)
        return
    unit_status = UnitStatus.TIMED_OUT if status is InteractionStatus.TIMED_OUT else UnitStatus.FAILED
    fail_execution(draft, execution, code, message, detail, reason, of_unit=(interaction.unit_id, unit_status))


def resume_scalar(
    draft: Draft, execution: ExecutionRecord, step: AwaitDefinition, owed: OwedRecord, value: object
) -> None:
    """The one interaction of a scalar boundary is answered: the same execution goes on behind it."""
    unit = draft.unit(owed.unit_id or "")
    if unit is not None:
        unit = replace(
            unit,
            status=UnitStatus.COMPLETED,
            version=unit.version + 1,
            completed_item_count=1,
            updated_at_epoch_ms=draft.now_ms,
        )
        draft.put_unit(unit)
        unit_ended(draft, unit, step, UnitStatus.COMPLETED)
    last = len(draft.definition.steps) - 1
    execution = replace(
        execution,
        status=ExecutionStatus.RUNNING,
        version=execution.version + 1,
        current_step_index=min(step.index + 1, last),
        updated_at_epoch_ms=draft.now_ms,
    )
    draft.put_execution(execution)
    facts = step.labels
    draft.fact("resume.released.total", facts, about=draft.interaction(owed.interaction_id or ""))
    draft.fact("scalar.continuation.started.total", facts)
    if step.expands:
        assert isinstance(value, list), "the answer of a step that expands is converted item by item"
        take_list(draft, execution, step.index + 1, len(value))
        return
    start_segment(draft, execution, owed, value, converted=True)

"""How executions end: finished streams, published objects, failures, and the bounded closing of what is open."""

from __future__ import annotations

from tpf_streams.core.dead_letter import TerminalReason, dead_letter, reason_of
from tpf_streams.core.effects import ContinueOwed, DeadLetterExecution, PublishObject, ReturnSlot, StopSource
from tpf_streams.core.events import ObjectPublished, PublishFailed
from tpf_streams.core.evolve import replace
from tpf_streams.core.execution import (
    ExecutionRecord,
    ExecutionStatus,
    OwedKind,
    OwedRecord,
    StreamPlace,
    Summary,
)
from tpf_streams.core.generations import newest
from tpf_streams.core.interaction import InteractionRecord, InteractionStatus
from tpf_streams.core.joining import counted, end_stream
from tpf_streams.core.json_policy import row_text
from tpf_streams.core.retention import keep_for_a_while
from tpf_streams.core.state import Draft
from tpf_streams.core.step import AwaitDefinition
from tpf_streams.core.unit import CUT, AwaitUnitRecord, SessionRecord, UnitStatus

ERROR_CODE_CHARS, PUBLISHED_CHARS = 128, 4_096
CLOSE_AT_ONCE = 500
"""Interactions closed in one turn."""


def await_steps(draft: Draft) -> list[AwaitDefinition]:
    return [step for step in draft.definition.steps if isinstance(step, AwaitDefinition)]


def finish_if_drained(draft: Draft, execution: ExecutionRecord, session: SessionRecord) -> None:
    """End the stream when its source has ended and every item is settled (contract 0.20)."""
    if not session.drained or draft.owed(execution.execution_id, OwedKind.PUBLISH, None):
        return
    for step in await_steps(draft):
        unit = draft.unit(draft.state.unit_ids(execution, step).unit_id)
        if unit is not None and unit.itemized and not unit.status.terminal:
            complete_unit(draft, unit, step, session)
        if not session.live:
            draft.delete(draft.keys.owed(execution.execution_id, OwedKind.RELEASE, step.index))
    failure = session.failure
    last = draft.definition.course.streams[session.stream].end == len(draft.definition.steps)
    if failure is not None and not (session.publish_on_failure and session.outputs and last):
        fail_execution(draft, execution, *failure[:4])
    elif not last:
        end_stream(draft, execution, session)
    elif draft.definition.publishes:
        owe_publish(draft, execution)
    elif failure is not None:
        fail_execution(draft, execution, *failure[:4])
    else:
        succeed(draft, execution)


def complete_unit(draft: Draft, unit: AwaitUnitRecord, step: AwaitDefinition, session: SessionRecord) -> None:
    """Write the counts of a unit whose items are all settled, and COMPLETED."""
    completed, rejected = (counts.get(str(step.index), 0) for counts in (session.completed, session.unanswered))
    unit = replace(
        unit,
        status=UnitStatus.COMPLETED,
        version=unit.version + 1,
        expected_item_count=completed + rejected,
        completed_item_count=completed,
        rejected_item_count=rejected,
        dispatch_complete=True,
        updated_at_epoch_ms=draft.now_ms,
    )
    draft.put_unit(unit)
    unit_ended(draft, unit, step, UnitStatus.COMPLETED)


def unit_ended(draft: Draft, unit: AwaitUnitRecord, step: AwaitDefinition, status: UnitStatus) -> None:
    draft.fact(
        "unit.terminal.total",
        {**step.unit_labels, "status": status.value},
        about=unit,
        unitId=unit.unit_id,
        executionId=unit.execution_id,
        durationMs=draft.now_ms - unit.created_at_epoch_ms,
    )


def owe_publish(draft: Draft, execution: ExecutionRecord) -> None:
    draft.put_owed(OwedRecord(execution.execution_id, OwedKind.PUBLISH, None, len(draft.definition.steps)))
    draft.put_execution(
        replace(
            execution,
            status=ExecutionStatus.RUNNING,
            version=execution.version + 1,
            await_unit_id=None,
            updated_at_epoch_ms=draft.now_ms,
        )
    )
    draft.effect(PublishObject(execution.execution_id, execution.attempt))


def publishing(draft: Draft, event: ObjectPublished | PublishFailed) -> ExecutionRecord | None:
    """The execution whose object that is, and its publishing is done with; None: it is of an attempt that is over."""
    execution = draft.execution(event.execution_id)
    owed = draft.owed(event.execution_id, OwedKind.PUBLISH, None)
    if execution is None or owed is None or execution.status.terminal or execution.attempt != event.attempt:
        return None
    draft.done(owed)
    return execution


def published(draft: Draft, event: ObjectPublished) -> None:
    """The object is in place: the execution ends as its items said."""
    execution = publishing(draft, event)
    if execution is None:
        return
    execution = replace(execution, published=row_text(event.name, PUBLISHED_CHARS))
    draft.fact("object.published.total", {}, about=execution)
    session = draft.session(execution.execution_id)
    if session is not None and session.failure is not None:
        fail_execution(draft, execution, *session.failure[:4])
    else:
        succeed(draft, execution)


def publish_failed(draft: Draft, event: PublishFailed) -> None:
    execution = publishing(draft, event)
    if execution is not None:
        reason = reason_of(retryable=event.retryable)
        fail_execution(draft, execution, event.code, event.message, event.detail, reason)


def succeed(draft: Draft, execution: ExecutionRecord) -> None:
    draft.put_execution(
        replace(
            execution,
            status=ExecutionStatus.SUCCEEDED,
            version=execution.version + 1,
            current_step_index=len(draft.definition.steps) - 1,
            await_unit_id=None,
            updated_at_epoch_ms=draft.now_ms,
            summary=replace(end_session(draft, execution), place=None),
        )
    )
    keep_for_a_while(draft, execution.execution_id)
    draft.fact("execution.terminal.total", {"status": "SUCCEEDED"}, executionId=execution.execution_id)


def fail_execution(
    draft: Draft,
    execution: ExecutionRecord,
    code: str,
    message: str,
    detail: str = "",
    reason: str = TerminalReason.NON_RETRYABLE,
    *,
    of_unit: tuple[str, UnitStatus] = ("", UnitStatus.FAILED),
    resume: OwedRecord | None = None,
) -> None:
    """FAILED, with the reason in the row; what is open is closed in bounded turns, what is owed is forgotten.

    `reason`: a TerminalReason, which says whether there is a dead letter. `of_unit`: the unit that is the reason, and
    its status; the others are FAILED. The row keeps its await unit, and what was owed of the execution as a whole
    (`resume`, where that is done already): a redrive resumes there.
    """
    code, message, detail = failure_reason(draft, code, message, detail)
    resume = resume or owed_as_a_whole(draft, execution.execution_id)
    session = draft.session(execution.execution_id)
    forget_owed(draft, execution.execution_id)
    for step in await_steps(draft):
        unit = draft.unit(draft.state.unit_ids(execution, step).unit_id)
        if unit is not None:
            close_unit(draft, unit, step, session, of_unit[1] if unit.unit_id == of_unit[0] else UnitStatus.FAILED)
    if execution.next_due_epoch_ms is not None:
        draft.delete(draft.keys.retry(execution.next_due_epoch_ms, execution.execution_id))
    failed = failed_row(draft, execution, code, message, detail, end_session(draft, execution), resume)
    draft.put_execution(failed)
    report_failed(draft, failed, TerminalReason(reason))


def owed_as_a_whole(draft: Draft, execution_id: str) -> OwedRecord | None:
    """The run, the wait for a slot or for a retry, or the source, that is owed for no item in particular."""
    for kind in (OwedKind.SEGMENT, OwedKind.SLOT, OwedKind.RETRY):
        owed = draft.owed(execution_id, kind, None)
        if owed is not None:
            return owed
    return None


def fail_bare(draft: Draft, execution: ExecutionRecord, code: str, message: str, detail: str) -> None:
    """FAILED in its row alone, where failing it in full raises: whatever the reason, nobody waits for it without end.

    What is open is closed, and what is owed forgotten, in turns of their own.
    """
    why = failure_reason(draft, code, message, detail)
    resume = owed_as_a_whole(draft, execution.execution_id)
    failed = failed_row(draft, execution, *why, end_session(draft, execution), resume)
    draft.put_execution(failed)
    items = failed.summary.items if failed.summary is not None else 1
    rests = [OwedRecord(execution.execution_id, OwedKind.CLOSE, None, 0)]
    for step in await_steps(draft):
        unit_id = draft.state.unit_ids(execution, step).unit_id
        one = OwedRecord(execution.execution_id, OwedKind.CLOSE, step.index, step.index, payload=items, unit_id=unit_id)
        rests.append(one)
    for rest in rests:
        draft.put_owed(rest)
        draft.effect(ContinueOwed(rest))
    report_failed(draft, failed, TerminalReason.NON_RETRYABLE)


def failed_row(
    draft: Draft,
    execution: ExecutionRecord,
    code: str,
    message: str,
    detail: str,
    summary: Summary,
    resume: OwedRecord | None,
) -> ExecutionRecord:
    return replace(
        execution,
        status=ExecutionStatus.FAILED,
        version=execution.version + 1,
        next_due_epoch_ms=None,
        resume=None if resume is None else replace(resume, holds_slot=None),
        error_code=code,
        error_message=message,
        error_detail=detail or None,
        updated_at_epoch_ms=draft.now_ms,
        summary=summary,
    )


def report_failed(draft: Draft, execution: ExecutionRecord, reason: TerminalReason) -> None:
    code = execution.error_code
    keep_for_a_while(draft, execution.execution_id)
    if reason is not TerminalReason.UNREPORTED:
        draft.effect(DeadLetterExecution(execution.execution_id, reason.value, dead_letter(execution, reason)))
        draft.fact("dead_letter.total", {"reason": reason.value})
    draft.effect(StopSource(execution.execution_id))
    draft.fact(
        "execution.terminal.total",
        {"status": "FAILED"},
        executionId=execution.execution_id,
        errorCode=code,
        errorMessage=execution.error_message,
    )


def failure_reason(draft: Draft, code: str, message: str, detail: str) -> tuple[str, str, str]:
    """Why an execution fails, as a row can hold it: of the detail, a traceback, the end is what matters."""
    limits = draft.definition.limits
    cut = detail.encode(errors="backslashreplace")[-limits.error_detail_bytes :].decode(errors="ignore")
    return row_text(code, ERROR_CODE_CHARS), row_text(message, limits.error_message_chars), cut


def end_session(draft: Draft, execution: ExecutionRecord) -> Summary:
    """Drop the session row; its counts stay in the execution."""
    session = draft.session(execution.execution_id)
    if session is None:
        carried = execution.summary or Summary(items=1)
        return replace(carried, outputs=int(draft.output(execution.execution_id, None) is not None))
    draft.delete(draft.keys.session(execution.execution_id))
    last = draft.definition.course.streams[session.stream].end == len(draft.definition.steps)
    summary = counted(execution, session, outputs=session.outputs if last else 0)
    return replace(summary, place=place_of(session))


def place_of(session: SessionRecord) -> StreamPlace:
    """Where the stream stands; items that a redrive has not taken up yet count as well."""
    ended = session.source_ended and CUT not in (session.failure or ())[4:]
    items, recall = session.next_item_index, session.recall
    if recall is not None:
        ended, items = ended or recall.ended, max(items, recall.until)
    return StreamPlace(
        stream=session.stream,
        items=items,
        source_position=session.source_position,
        source_digest=session.source_digest,
        ended=ended,
        settled=ended and session.settled == items and session.failure is None,
        rejects=session.next_reject,
    )


def forget_owed(draft: Draft, execution_id: str) -> None:
    """Nothing of a failed execution is owed any more, and slots go back; bounded, for a stream may owe every item."""
    limit = CLOSE_AT_ONCE + len(draft.definition.steps) + 1
    found = draft.all_owed(execution_id, limit)
    for owed in found:
        if owed.kind is OwedKind.CLOSE:
            continue
        draft.done(owed)
        if owed.holds_slot is not None:
            return_slot(draft, owed.holds_slot, owed)
    rest = OwedRecord(execution_id, OwedKind.CLOSE, None, 0)
    if len(found) < limit:
        draft.done(rest)
    else:
        draft.put_owed(rest)
        draft.effect(ContinueOwed(rest))


def close_unit(
    draft: Draft,
    unit: AwaitUnitRecord,
    step: AwaitDefinition,
    session: SessionRecord | None,
    status: UnitStatus,
) -> None:
    if unit.status is UnitStatus.COMPLETED:
        return
    if not unit.status.terminal:
        draft.put_unit(replace(unit, status=status, version=unit.version + 1, updated_at_epoch_ms=draft.now_ms))
        unit_ended(draft, unit, step, status)
    items = session.next_item_index if unit.itemized and session is not None else 1
    owed = OwedRecord(
        unit.execution_id,
        OwedKind.CLOSE,
        step.index,
        step.index,
        payload=items,
        unit_id=unit.unit_id,
    )
    continue_closing(draft, owed)


def continue_closing(draft: Draft, owed: OwedRecord) -> None:
    """Cancel the open interactions of one unit, or forget what is owed besides, at most CLOSE_AT_ONCE a turn."""
    if owed.item_index is None:
        forget_owed(draft, owed.execution_id)
        return
    execution = draft.execution(owed.execution_id)
    if execution is None:
        draft.done(owed)
        return
    step = draft.step(owed.step_index)
    end = min(owed.cursor + CLOSE_AT_ONCE, int(owed.payload))
    for interaction in interactions_between(draft, execution, step, owed.cursor, end):
        if not interaction.status.terminal:
            close_interaction(draft, interaction, InteractionStatus.CANCELLED)
    if end >= int(owed.payload):
        draft.done(owed)
        return
    rest = replace(owed, cursor=end)
    draft.put_owed(rest)
    draft.effect(ContinueOwed(rest))


def interactions_between(
    draft: Draft, execution: ExecutionRecord, step: AwaitDefinition, start: int, end: int
) -> list[InteractionRecord]:
    """The interactions of items start..end-1 of a unit (of the scalar one, where the unit has no items).

    Ids are computed, not listed: that is what deterministic ids are for (contract 0.1).
    """
    ids = draft.state.unit_ids(execution, step)
    unit = draft.unit(ids.unit_id)
    numbers: list[int | None] = [None]
    if unit is not None and unit.itemized:
        numbers = list(range(start, end))
    keys = [draft.keys.interaction(ids.interaction_id(number)) for number in numbers]
    draft.state.prefetch(InteractionRecord, keys)
    found = [draft.get(key, InteractionRecord) for key in keys]
    if execution.generation:
        found = [it or newest(draft, execution, step, item) for it, item in zip(found, numbers, strict=True)]
    return [interaction for interaction in found if interaction is not None]


def close_interaction(draft: Draft, interaction: InteractionRecord, status: InteractionStatus) -> None:
    """End an open interaction without an answer: its deadline and its slot go with it."""
    interaction = replace(interaction, status=status, version=interaction.version + 1, updated_at_epoch_ms=draft.now_ms)
    draft.put_interaction(interaction)
    draft.delete(draft.keys.deadline(interaction.deadline_epoch_ms, interaction.interaction_id))
    if draft.step(interaction.step_index).transport.owed:
        draft.delete(draft.keys.owed(interaction.execution_id, OwedKind.SEND, interaction.item_index))
    step = draft.step(interaction.step_index)
    draft.fact("interaction.ended.total", {**step.labels, "status": status.value}, about=interaction)
    return_slot(draft, step.index, interaction)


def return_slot(draft: Draft, step_index: int, holder: InteractionRecord | OwedRecord) -> None:
    """The slot of the await step's budget goes back. A holder without an interaction had taken none up yet."""
    draft.effect(ReturnSlot(holder.execution_id, step_index))
    step = draft.step(step_index)
    if holder.interaction_id is not None and draft.definition.wants_slot(step):
        draft.fact("slot.released.total", step.labels, about=holder)

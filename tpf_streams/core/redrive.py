"""Redrive: a failed execution goes on where it failed, at an operator's wish (contract 0.14).

Where its await unit is COMPLETED the stored answer is used again and nothing is asked for. Else a new generation
begins: what is asked for again has new ids, so that an answer to the old request cannot be taken for one to the new,
and the same idempotency key, by which the provider knows it. Items that have an answer keep it, and those with an
output that.
"""

from __future__ import annotations

from tpf_streams.core.continuation import item_failed, start_segment
from tpf_streams.core.dispatch import dispatch_when_allowed
from tpf_streams.core.effects import RequestSlot, StartSource
from tpf_streams.core.ending import await_steps, close_interaction, finish_if_drained, owe_publish
from tpf_streams.core.events import RedriveRequested
from tpf_streams.core.evolve import replace
from tpf_streams.core.execution import ExecutionRecord, ExecutionStatus, OwedKind, OwedRecord, StreamPlace, Summary
from tpf_streams.core.fallback import arm_of
from tpf_streams.core.gates import end_source
from tpf_streams.core.generations import newest
from tpf_streams.core.interaction import InteractionRecord, InteractionStatus
from tpf_streams.core.joining import open_stream, take_list
from tpf_streams.core.json_policy import row_text
from tpf_streams.core.outcome import OperatorOutcome
from tpf_streams.core.retry import input_of, run_again
from tpf_streams.core.state import Draft
from tpf_streams.core.unit import Recall, SessionRecord, UnitStatus
from tpf_streams.errors import PayloadError

_FAILED = (ExecutionStatus.FAILED, ExecutionStatus.DLQ)
_NOT_KEPT = ("PAYLOAD_TOO_LARGE", "INVALID_PAYLOAD", "AGGREGATE_LIMIT")
"""Why an input may have been refused, and then is not in the row."""


def redrive_requested(draft: Draft, event: RedriveRequested) -> None:
    execution = draft.execution(event.execution_id)
    refused = OperatorOutcome.NOT_FOUND if execution is None else refusal(draft, execution, event)
    draft.outcome = refused or OperatorOutcome.REDRIVEN
    if execution is None or refused is not None:
        return
    draft.fact(
        "execution.redriven.total",
        {},
        executionId=execution.execution_id,
        attempt=execution.attempt + 1,
        reason=row_text(event.reason, draft.definition.limits.error_message_chars),
    )
    summary, resume, execution = execution.summary, execution.resume, revived(draft, execution)
    place = None if summary is None else summary.place
    if place is None or summary is None:
        redrive_whole(draft, execution, summary, resume)
        return
    if place.stream:
        # Its items are those of the first stream, and that is over.
        execution = replace(execution, summary=replace(summary, place=None))
    last = draft.definition.course.streams[place.stream].end == len(draft.definition.steps)
    if place.settled and last and draft.definition.publishes:
        publish_again(draft, execution, summary, place)
    else:
        redrive_stream(draft, replace(execution, generation=execution.generation + 1), summary, place, resume)


def refusal(draft: Draft, execution: ExecutionRecord, event: RedriveRequested) -> OperatorOutcome | None:
    """Why the execution is not redriven, or None."""
    if execution.status not in _FAILED:
        return OperatorOutcome.NOT_FAILED
    if event.expected_version not in (None, execution.version):
        return OperatorOutcome.VERSION_MISMATCH
    if execution.status is ExecutionStatus.FAILED and not event.allow_failed:
        return OperatorOutcome.FAILED_NOT_ALLOWED
    if draft.all_owed(execution.execution_id, 1):
        return OperatorOutcome.CLOSING
    return None if begins_with_something(draft, execution) else OperatorOutcome.NOT_REDRIVABLE


def begins_with_something(draft: Draft, execution: ExecutionRecord) -> bool:
    """Whether the rows hold what a redrive needs: not of an input that was refused and so not kept, nor of a stream
    that failed under a version that did not note where its source stood."""
    place = None if execution.summary is None else execution.summary.place
    if execution.resume is not None or execution.await_unit_id is not None or place is not None:
        return True
    if execution.input_payload is None and execution.error_code in _NOT_KEPT:
        return False
    streams = draft.definition.course.streams
    if not streams or draft.output(execution.execution_id, None) is not None:
        return True
    awaited = streams[0].awaited
    begun = awaited is not None and newest(draft, execution, draft.step(awaited), 0) is not None
    return not begun and streams[0].start > 0


def revived(draft: Draft, execution: ExecutionRecord) -> ExecutionRecord:
    return replace(
        execution,
        status=ExecutionStatus.RUNNING,
        version=execution.version + 1,
        attempt=execution.attempt + 1,
        retries=0,
        resume=None,
        error_code=None,
        error_message=None,
        error_detail=None,
        summary=None,
        updated_at_epoch_ms=draft.now_ms,
    )


# Where no stream was running


def redrive_whole(draft: Draft, execution: ExecutionRecord, summary: Summary | None, resume: OwedRecord | None) -> None:
    """From what was owed when it failed, from the request of a unit that has no answer, or from the beginning."""
    last = last_interaction(draft, execution)
    unit = draft.unit(execution.await_unit_id or "")
    if (unit is None and last is None) or (unit is not None and unit.status is not UnitStatus.COMPLETED):
        execution = replace(execution, generation=execution.generation + 1)
    index = last.step_index if resume is None and last is not None else resume.step_index if resume is not None else 0
    streams = draft.definition.course.streams
    if streams and index >= streams[0].end:
        execution = replace(execution, summary=summary)
    if draft.output(execution.execution_id, None) is not None:
        draft.put_execution(execution)
        owe_publish(draft, execution)
    elif resume is not None:
        draft.put_execution(execution)
        take_up(draft, execution, resume)
    elif last is None:
        draft.put_execution(execution)
        owed = OwedRecord(execution.execution_id, OwedKind.SEGMENT, None, 0, attempt=execution.attempt)
        start_segment(draft, execution, owed, input_of(draft, owed), converted=False)
    elif last.status is InteractionStatus.COMPLETED:
        draft.put_execution(execution)
        go_on_behind(draft, execution, last)
    else:
        ask_again(draft, execution, last)


def take_up(draft: Draft, execution: ExecutionRecord, resume: OwedRecord) -> None:
    """Do what was owed when the execution failed."""
    if resume.kind is OwedKind.SLOT:
        ask(draft, execution, resume)
        return
    owed = replace(resume, kind=OwedKind.SEGMENT, attempt=execution.attempt)
    if draft.definition.stream_from(owed.step_index) is not None:
        open_stream(draft, execution, owed)
    else:
        run_again(draft, owed)


def last_interaction(draft: Draft, execution: ExecutionRecord) -> InteractionRecord | None:
    """The interaction of the execution's await unit. Rows of an earlier version have forgotten the unit: then the
    furthest one there is."""
    unit = draft.unit(execution.await_unit_id or "")
    steps = await_steps(draft) if unit is None else [draft.step(unit.step_index)]
    for step in reversed(steps):
        found = newest(draft, execution, step, None)
        if found is not None:
            return found
    return None


def go_on_behind(draft: Draft, execution: ExecutionRecord, answered: InteractionRecord) -> None:
    step = draft.step(answered.step_index)
    if step.expands:
        count = len(draft.state.parts_now(execution.execution_id, step.index + 1))
        take_list(draft, execution, step.index + 1, count)
        return
    owed = replace(behind(draft, answered), attempt=execution.attempt)
    start_segment(draft, execution, owed, input_of(draft, owed), converted=False)


def behind(draft: Draft, interaction: InteractionRecord) -> OwedRecord:
    """The segment that goes on from an answer."""
    step = draft.step(interaction.step_index)
    return OwedRecord(
        interaction.execution_id,
        OwedKind.SEGMENT,
        interaction.item_index,
        step.index + 1,
        interaction_id=interaction.interaction_id,
        unit_id=interaction.unit_id,
        arm=arm_of(step, interaction),
    )


def ask_again(draft: Draft, execution: ExecutionRecord, last: InteractionRecord) -> None:
    """The same request under new ids, when it holds a slot of the budget; one that is a list is read then."""
    if not last.status.terminal:
        close_interaction(draft, last, InteractionStatus.CANCELLED)
    execution = replace(execution, current_step_index=last.step_index)
    draft.put_execution(execution)
    owed = OwedRecord(execution.execution_id, OwedKind.SLOT, None, last.step_index, payload=last.request_payload)
    ask(draft, execution, owed)


def ask(draft: Draft, execution: ExecutionRecord, owed: OwedRecord) -> None:
    if draft.step(owed.step_index).joins:
        draft.put_owed(owed)
        draft.effect(RequestSlot(owed))
        return
    try:
        dispatch_when_allowed(draft, execution, owed)
    except PayloadError as error:
        item_failed(draft, execution, owed, error.code, str(error), "")


# Streams


def publish_again(draft: Draft, execution: ExecutionRecord, summary: Summary, place: StreamPlace) -> None:
    """Every item has its end: nothing but the publishing had failed."""
    session = SessionRecord(
        execution.execution_id,
        live=False,
        next_item_index=place.items,
        source_position=place.source_position,
        source_digest=place.source_digest,
        source_ended=True,
        settled=place.items,
        outputs=summary.outputs,
        rejected_rows=summary.rejected_rows,
        rejected_items=summary.rejected_items,
        by_arm=summary.by_arm,
        stream=place.stream,
    )
    draft.put_session(session)
    owe_publish(draft, execution)


def redrive_stream(
    draft: Draft, execution: ExecutionRecord, summary: Summary, place: StreamPlace, resume: OwedRecord | None
) -> None:
    """Begin with the items that there are, in their order, as the window has room; then the source goes on."""
    stream = draft.definition.course.streams[place.stream]
    execution = replace(execution, await_unit_id=None, current_step_index=stream.start)
    draft.put_execution(execution)
    used = summary.rejected_rows + summary.rejected_items
    session = SessionRecord(
        execution.execution_id,
        live=stream.awaited is None or draft.step(stream.awaited).transport.live,
        source_position=place.source_position,
        source_digest=place.source_digest,
        rejected_rows=summary.rejected_rows,
        rejected_items=summary.rejected_items,
        by_arm=summary.by_arm,
        stream=place.stream,
        recall=Recall(place.items, place.ended, place.rejects - used),
    )
    draft.put_session(session)
    if place.ended and not session.recalling:
        finish_if_drained(draft, execution, end_source(draft, execution, session))
        return
    draft.put_owed(resume or source_work_of(draft, execution, stream.start, listed=stream.listed))
    draft.effect(StartSource(execution.execution_id))


def source_work_of(draft: Draft, execution: ExecutionRecord, index: int, *, listed: bool) -> OwedRecord:
    """The owed record that is the source of a stream: a list, or the answer of the await step before it."""
    before = [step for step in await_steps(draft) if step.index < index]
    answered = newest(draft, execution, before[-1], None) if before and not listed else None
    if answered is None:
        return OwedRecord(execution.execution_id, OwedKind.SEGMENT, None, index)
    return replace(behind(draft, answered), step_index=index)

"""Trying the segment of a scalar execution again as a whole, long after its steps gave up (contract 0.9, section 14).

The due time is a row, in order of time: a restart forgets no retry, and thousands that are due together are taken up in
bounded turns.
"""

from __future__ import annotations

from tpf_streams.core.effects import RunSegment
from tpf_streams.core.ending import failure_reason
from tpf_streams.core.events import SegmentFailed
from tpf_streams.core.evolve import replace
from tpf_streams.core.execution import ExecutionRecord, ExecutionStatus, OwedKind, OwedRecord
from tpf_streams.core.rows import deadline_of
from tpf_streams.core.state import Draft
from tpf_streams.core.step import Json, Limits

DELAY_MAX_MS = 30 * 60_000


def delay_ms(limits: Limits, retry: int) -> int:
    """The wait before retry number `retry`, from 1."""
    try:
        wait = limits.retry_delay_ms * limits.retry_multiplier ** (retry - 1)
    except OverflowError:
        return DELAY_MAX_MS
    return int(min(wait, DELAY_MAX_MS))


def retry_later(draft: Draft, execution: ExecutionRecord, event: SegmentFailed) -> bool:
    """Put the execution into WAIT_RETRY; False where its retries are used up, or this failure is for good."""
    owed, limits = event.owed, draft.definition.limits
    retry = execution.retries + 1
    if owed.item_index is not None or not event.retryable or retry > limits.max_retries:
        return False
    due_ms = draft.now_ms + delay_ms(limits, retry)
    code, message, detail = failure_reason(draft, event.code, event.message, event.detail)
    draft.done(owed)
    draft.put_owed(replace(owed, kind=OwedKind.RETRY))
    draft.put(draft.keys.retry(due_ms, execution.execution_id), b"")
    draft.put_execution(
        replace(
            execution,
            status=ExecutionStatus.WAIT_RETRY,
            version=execution.version + 1,
            attempt=execution.attempt + 1,
            retries=retry,
            next_due_epoch_ms=due_ms,
            error_code=code,
            error_message=message,
            error_detail=detail or None,
            updated_at_epoch_ms=draft.now_ms,
        )
    )
    draft.fact(
        "execution.retry.total",
        {},
        executionId=execution.execution_id,
        errorCode=code,
        attempt=execution.attempt + 1,
        dueEpochMs=due_ms,
    )
    return True


def retries_due(draft: Draft, limit: int) -> None:
    """Take up the executions whose wait is over, at most `limit`."""
    for key in draft.state.scan_keys(draft.keys.retries_until(draft.now_ms), limit):
        draft.delete(key)
        due_ms, execution_id = deadline_of(key)
        execution = draft.execution(execution_id)
        owed = draft.owed(execution_id, OwedKind.RETRY, None)
        if execution is None or execution.status.terminal or execution.next_due_epoch_ms != due_ms:
            continue
        if owed is not None:
            try_again(draft, execution, owed)


def try_again(draft: Draft, execution: ExecutionRecord, owed: OwedRecord) -> None:
    draft.done(owed)
    running = replace(
        execution,
        status=ExecutionStatus.RUNNING,
        version=execution.version + 1,
        next_due_epoch_ms=None,
        error_code=None,
        error_message=None,
        error_detail=None,
        updated_at_epoch_ms=draft.now_ms,
    )
    draft.put_execution(running)
    run_again(draft, replace(owed, kind=OwedKind.SEGMENT))


def run_again(draft: Draft, owed: OwedRecord) -> None:
    draft.put_owed(owed)
    draft.effect(RunSegment(owed, input_of(draft, owed)))


def input_of(draft: Draft, owed: OwedRecord) -> Json:
    """What a segment works on: the answer of its interaction, the payload it carries, or the execution's input. A list
    is read where it is taken."""
    if owed.interaction_id is not None:
        interaction = draft.interaction(owed.interaction_id)
        return None if interaction is None else interaction.response_payload
    if owed.step_index > 0 or owed.payload is not None:
        return owed.payload
    execution = draft.execution(owed.execution_id)
    return None if execution is None else execution.input_payload

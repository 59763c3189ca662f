"""Going on: what a segment gave becomes the next dispatch, or the end of the item. Permits return with settlement."""

from __future__ import annotations

from collections.abc import Sequence

from tpf_streams.core.dispatch import check_payload, dispatch, dispatch_when_allowed
from tpf_streams.core.effects import EmitOutput, ReturnSlot, RunSegment, StartSource
from tpf_streams.core.ending import (
    close_interaction,
    fail_execution,
    failure_reason,
    finish_if_drained,
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
    RejectRecord,
)
from tpf_streams.core.gates import end_source, item_unanswered
from tpf_streams.core.interaction import InteractionRecord, InteractionStatus
from tpf_streams.core.json_policy import row_text
from tpf_streams.core.state import Draft
from tpf_streams.core.step import AwaitDefinition, Json, OnItemFailure, OnItemTimeout
from tpf_streams.core.unit import SessionRecord, UnitStatus
from tpf_streams.errors import PayloadError


def start_segment(draft: Draft, execution: ExecutionRecord, owed: OwedRecord, value: object, converted: bool) -> None:
    """Owe the service steps from `owed.step_index`: as a source when they make a stream, else as one run.

    A segment without steps is over at once: an await that is first, or last, or follows another.
    """
    steps = draft.definition.segment(owed.step_index)
    if not steps:
        payload = value if not converted else response_of(draft, owed)
        segment_completed(draft, execution, owed, [payload])
        return
    draft.put_owed(owed)
    if owed.item_index is None and draft.definition.is_stream(owed.step_index):
        live = all_live(draft, owed.step_index)
        draft.put_session(SessionRecord(execution.execution_id, live))
        draft.effect(StartSource(execution.execution_id))
    else:
        draft.effect(RunSegment(owed, value, converted))


def all_live(draft: Draft, index: int) -> bool:
    """Whether the stream that begins at `index` runs as a live session (contract 0.20)."""
    first = draft.definition.next_await(index)
    return first == len(draft.definition.steps) or draft.step(first).transport.live


def response_of(draft: Draft, owed: OwedRecord) -> Json:
    interaction = draft.interaction(owed.interaction_id or "")
    return owed.payload if interaction is None else interaction.response_payload


def segment_completed(draft: Draft, execution: ExecutionRecord, owed: OwedRecord, outputs: Sequence[Json]) -> None:
    """The steps of a segment gave `outputs`: settle the item, or take it to the next await step."""
    index = draft.definition.next_await(owed.step_index)
    try:
        for output in outputs:
            check_payload(draft, output, "the output of", draft.definition.steps[index - 1])
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
    if owed.holds_slot is not None:
        # A slot holder never waits for a second slot (contract 0.17): it would be a deadlock of full budgets.
        draft.effect(ReturnSlot(execution.execution_id, owed.holds_slot))
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
    try:
        dispatch(draft, execution, owed.step_index, owed.item_index, owed.payload)
    except PayloadError as error:
        held = replace(owed, holds_slot=owed.step_index)
        item_failed(draft, execution, held, error.code, str(error), "")


def finish_scalar(draft: Draft, execution: ExecutionRecord, owed: OwedRecord, outputs: Sequence[Json]) -> None:
    if len(outputs) != 1:
        message = f"a scalar execution gave {len(outputs)} outputs where one is expected"
        fail_execution(draft, execution, "ITEM_COUNT", message)
        return
    write_output(draft, execution, None, outputs, owed.arm, execution.execution_id)
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
        draft.effect(ReturnSlot(execution.execution_id, owed.holds_slot))
    finish_if_drained(draft, execution, session)


def write_output(
    draft: Draft, execution: ExecutionRecord, item_index: int | None, outputs: Sequence[Json], arm: str | None, key: str
) -> None:
    type_name = draft.definition.steps[-1].output_type
    record = OutputRecord(execution.execution_id, item_index, type_name, arm, list(outputs))
    draft.put(draft.keys.output(execution.execution_id, item_index), record)
    for payload in outputs:
        draft.effect(EmitOutput(execution.tenant_id, execution.execution_id, item_index, key, type_name, arm, payload))


def item_failed(
    draft: Draft, execution: ExecutionRecord, owed: OwedRecord, code: str, message: str, detail: str
) -> None:
    """A step gave up on an item: reject it, or let what is open drain and fail (contract 0.9)."""
    draft.done(owed)
    if owed.item_index is None:
        if owed.holds_slot is not None:
            draft.effect(ReturnSlot(execution.execution_id, owed.holds_slot))
        fail_execution(draft, execution, code, message, detail)
        return
    reject_item(draft, execution, owed.item_index, code, message, owed.holds_slot)
    if owed.kind is not OwedKind.SEGMENT:
        item_unanswered(draft, execution, draft.step(owed.step_index))
    session = draft.session(execution.execution_id)
    if session is None:
        return
    if draft.definition.on_item_failure is OnItemFailure.FAIL_EXECUTION:
        session = stop_source(draft, execution, session, (code, message, detail), publish=False)
    finish_if_drained(draft, execution, session)


def stop_source(
    draft: Draft, execution: ExecutionRecord, session: SessionRecord, failure: tuple[str, str, str], *, publish: bool
) -> SessionRecord:
    """No more items: what is in flight drains, then the execution fails with the first reason."""
    if session.failure is None:
        session = replace(session, failure=failure_reason(draft, *failure), publish_on_failure=publish)
        draft.put_session(session)
    return end_source(draft, execution, session)


def reject_item(
    draft: Draft, execution: ExecutionRecord, item_index: int, code: str, message: str, holds_slot: int | None
) -> None:
    """Settle an item without output; it goes to the item-reject file."""
    session = draft.session(execution.execution_id)
    if session is None:
        return
    ordinal = session.rejected_rows + session.rejected_items
    source = (execution.source or {}).get("key", "")
    reason = row_text(f"{code}: {message}", draft.definition.limits.error_message_chars)
    draft.put(
        draft.keys.reject(execution.execution_id, ordinal),
        RejectRecord(execution.execution_id, ordinal, item_index, source, 0, "", reason, ""),
    )
    write_output(draft, execution, item_index, [], None, execution.execution_id)
    draft.put_session(replace(session, settled=session.settled + 1, rejected_items=session.rejected_items + 1))
    if holds_slot is not None:
        draft.effect(ReturnSlot(execution.execution_id, holds_slot))


def interaction_ended(
    draft: Draft, interaction: InteractionRecord, status: InteractionStatus, code: str, message: str
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
    if interaction.item_index is not None and status is InteractionStatus.FAILED:
        failed = OwedRecord(execution.execution_id, OwedKind.SEND, interaction.item_index, step.index)
        item_failed(draft, execution, failed, code, message, "")
        return
    if interaction.item_index is not None and step.on_item_timeout is OnItemTimeout.REJECT_ITEM:
        reject_item(draft, execution, interaction.item_index, code, message, None)
        item_unanswered(draft, execution, step)
        session = draft.session(execution.execution_id)
        if session is not None:
            finish_if_drained(draft, execution, session)
        return
    unit_status = UnitStatus.TIMED_OUT if status is InteractionStatus.TIMED_OUT else UnitStatus.FAILED
    fail_execution(draft, execution, code, message, of_unit=(interaction.unit_id, unit_status))


def resume_scalar(
    draft: Draft, execution: ExecutionRecord, step: AwaitDefinition, owed: OwedRecord, value: object
) -> None:
    """The one interaction of a scalar boundary is answered: the same execution goes on behind it."""
    unit = draft.unit(owed.unit_id or "")
    if unit is not None:
        draft.put_unit(
            replace(
                unit,
                status=UnitStatus.COMPLETED,
                version=unit.version + 1,
                completed_item_count=1,
                updated_at_epoch_ms=draft.now_ms,
            )
        )
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
    draft.fact("resume.released.total", facts)
    draft.fact("scalar.continuation.started.total", facts)
    start_segment(draft, execution, owed, value, converted=True)

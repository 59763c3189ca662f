"""The gates of the durable path: when dispatch is complete, when an execution parks, when a unit has all its answers.

They guard the unit that the source dispatches. An item behind them goes on like a scalar execution: its next answers
need no gate of their own (contract section 6: a continuation runs on as a child of its own).
"""

from __future__ import annotations

from tpf_streams.core.dispatch import new_unit
from tpf_streams.core.effects import ContinueOwed, StopSource
from tpf_streams.core.ending import unit_ended
from tpf_streams.core.evolve import replace
from tpf_streams.core.execution import ExecutionRecord, ExecutionStatus, OwedKind, OwedRecord
from tpf_streams.core.state import Draft
from tpf_streams.core.step import AwaitDefinition
from tpf_streams.core.unit import AwaitUnitRecord, SessionRecord, UnitStatus


def stream_await(draft: Draft, session: SessionRecord) -> AwaitDefinition | None:
    """The await step that the source of a stream dispatches to; None where its items wait for nobody."""
    awaited = draft.definition.course.streams[session.stream].awaited
    return None if awaited is None else draft.step(awaited)


def end_source(draft: Draft, execution: ExecutionRecord, session: SessionRecord) -> SessionRecord:
    """The source gives nothing more: the unit's dispatch is complete, and without a live session the execution parks.

    Once, whatever the reason. A unit whose dispatch were never complete would hold its answers for ever.
    """
    if session.source_ended:
        return session
    session = replace(session, source_ended=True)
    draft.put_session(session)
    draft.delete(draft.keys.owed(execution.execution_id, OwedKind.SEGMENT, None))
    draft.effect(StopSource(execution.execution_id))
    step = stream_await(draft, session)
    if step is None:
        return session
    unit = draft.unit(draft.state.unit_ids(execution, step).unit_id)
    if unit is None:
        unit = new_unit(draft, execution, step, itemized=True)
    draft.put_unit(
        replace(
            unit,
            expected_item_count=session.next_item_index,
            dispatch_complete=True,
            version=unit.version + 1,
            updated_at_epoch_ms=draft.now_ms,
        )
    )
    draft.fact("unit.dispatch_complete.total", step.unit_labels, about=unit, expectedItemCount=session.next_item_index)
    if not session.live:
        write_counts(draft, execution, session, step)
        if not session.drained:
            park(draft, execution, step)
    return session


def park(draft: Draft, execution: ExecutionRecord, step: AwaitDefinition) -> None:
    """The execution waits, durably, for the unit of `step`; what came early is released in bounded turns."""
    unit_id = draft.state.unit_ids(execution, step).unit_id
    draft.put_execution(
        replace(
            execution,
            status=ExecutionStatus.WAITING_EXTERNAL,
            version=execution.version + 1,
            current_step_index=step.index,
            await_unit_id=unit_id,
            updated_at_epoch_ms=draft.now_ms,
        )
    )
    owed = OwedRecord(execution.execution_id, OwedKind.RELEASE, step.index, step.index, unit_id=unit_id)
    draft.put_owed(owed)
    draft.effect(ContinueOwed(owed))
    draft.fact("execution.waiting.total", step.labels, about=draft.unit(unit_id))


def gates_open(draft: Draft, execution: ExecutionRecord, session: SessionRecord, unit: AwaitUnitRecord) -> bool:
    """Whether an answer of this unit may go on now."""
    first = stream_await(draft, session)
    if first is not None and unit.step_index > first.index:
        return True
    return (
        unit.dispatch_complete
        and execution.status is ExecutionStatus.WAITING_EXTERNAL
        and execution.await_unit_id == unit.unit_id
    )


def item_answered(
    draft: Draft, execution: ExecutionRecord, session: SessionRecord, step: AwaitDefinition
) -> SessionRecord:
    """Count an answer of the unit of `step`."""
    session = replace(session, completed=_one_more(session.completed, step))
    draft.put_session(session)
    if not session.live:
        write_counts(draft, execution, session, step)
    return session


def item_unanswered(draft: Draft, execution: ExecutionRecord, step: AwaitDefinition) -> None:
    """Count an item that ended at `step` without an answer: the unit goes on and ends with a rejected count."""
    session = draft.session(execution.execution_id)
    if session is None:
        return
    session = replace(session, unanswered=_one_more(session.unanswered, step))
    draft.put_session(session)
    if not session.live:
        write_counts(draft, execution, session, step)


def _one_more(counts: dict[str, int], step: AwaitDefinition) -> dict[str, int]:
    key = str(step.index)
    return {**counts, key: counts.get(key, 0) + 1}


def write_counts(draft: Draft, execution: ExecutionRecord, session: SessionRecord, step: AwaitDefinition) -> None:
    """The session's counts go into the unit row; its last answer completes it, continuations may still run."""
    unit = draft.unit(draft.state.unit_ids(execution, step).unit_id)
    if unit is None or unit.status.terminal:
        return
    completed, rejected = (counts.get(str(step.index), 0) for counts in (session.completed, session.unanswered))
    over = unit.dispatch_complete and completed + rejected >= (unit.expected_item_count or 0)
    unit = replace(
        unit,
        status=UnitStatus.COMPLETED if over else unit.status,
        completed_item_count=completed,
        rejected_item_count=rejected,
        version=unit.version + 1,
        updated_at_epoch_ms=draft.now_ms,
    )
    draft.put_unit(unit)
    if over:
        unit_ended(draft, unit, step, UnitStatus.COMPLETED)

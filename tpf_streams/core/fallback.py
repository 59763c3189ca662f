"""The durable path: a stream without a live session goes on only through four gates (contract 0.20, requirements).

1 the source has finished dispatching the unit, 2 the execution is parked on that unit, 3 the completion is recorded,
4 only then the item's continuation starts. A completion before that is recorded and held.
"""

from __future__ import annotations

from tpf_streams.core.continuation import start_segment
from tpf_streams.core.effects import ContinueOwed
from tpf_streams.core.ending import CLOSE_AT_ONCE, await_steps, interactions_between
from tpf_streams.core.evolve import replace
from tpf_streams.core.execution import ExecutionRecord, OwedKind, OwedRecord, PartRecord
from tpf_streams.core.gates import park, stream_await, write_counts
from tpf_streams.core.generations import newest
from tpf_streams.core.interaction import InteractionRecord, InteractionStatus
from tpf_streams.core.state import Draft
from tpf_streams.core.step import AwaitDefinition


def release(draft: Draft, owed: OwedRecord) -> None:
    """Start the continuation of every completed item that has none yet, a bounded number a turn."""
    execution = draft.execution(owed.execution_id)
    unit = draft.unit(owed.unit_id or "")
    if execution is None or execution.status.terminal or unit is None:
        draft.done(owed)
        return
    step = draft.step(owed.step_index)
    end = min(owed.cursor + CLOSE_AT_ONCE, unit.expected_item_count or 0)
    for interaction in interactions_between(draft, execution, step, owed.cursor, end):
        if interaction.status is InteractionStatus.COMPLETED and not continued(draft, interaction):
            draft.fact("resume.released.total", step.unit_labels, about=interaction)
            start_item(draft, execution, step, interaction, holds_slot=None)
    session = draft.session(owed.execution_id)
    if end >= (unit.expected_item_count or 0) or session is None or session.drained:
        draft.done(owed)
        return
    rest = replace(owed, cursor=end)
    draft.put_owed(rest)
    draft.effect(ContinueOwed(rest))


def continued(draft: Draft, interaction: InteractionRecord) -> bool:
    """Whether an item's continuation has been started: it is owed, further on, or settled."""
    execution_id, item = interaction.execution_id, interaction.item_index
    return (
        settled(draft, interaction)
        or draft.owed(execution_id, OwedKind.SEGMENT, item) is not None
        or draft.owed(execution_id, OwedKind.SLOT, item) is not None
        or went_on(draft, interaction)
    )


def settled(draft: Draft, interaction: InteractionRecord) -> bool:
    """Whether an item has come to the end of its stream."""
    session, item = draft.session(interaction.execution_id), interaction.item_index
    if session is None or item is None:
        return True
    end = draft.definition.course.streams[session.stream].end
    if end == len(draft.definition.steps):
        return draft.output(interaction.execution_id, item) is not None
    return draft.get(draft.keys.part(interaction.execution_id, end, item), PartRecord) is not None


def went_on(draft: Draft, interaction: InteractionRecord) -> bool:
    """Whether the item has reached a later await step."""
    execution = draft.execution(interaction.execution_id)
    if execution is None:
        return True
    for step in await_steps(draft):
        if step.index > interaction.step_index and newest(draft, execution, step, interaction.item_index) is not None:
            return True
    return False


def start_item(
    draft: Draft,
    execution: ExecutionRecord,
    step: AwaitDefinition,
    interaction: InteractionRecord,
    *,
    holds_slot: int | None,
    value: object = None,
    converted: bool = False,
) -> None:
    """Owe the continuation of one answered item."""
    owed = OwedRecord(
        execution.execution_id,
        OwedKind.SEGMENT,
        interaction.item_index,
        step.index + 1,
        interaction_id=interaction.interaction_id,
        unit_id=interaction.unit_id,
        holds_slot=holds_slot,
        arm=arm_of(step, interaction),
        attempt=execution.attempt,
    )
    start_segment(draft, execution, owed, value if converted else interaction.response_payload, converted)


def arm_of(step: AwaitDefinition, interaction: InteractionRecord) -> str | None:
    """The union arm of an answer: its single key (contract 1.5)."""
    payload = interaction.response_payload
    if step.arms and isinstance(payload, dict) and len(payload) == 1:
        arm = str(next(iter(payload)))
        return arm if arm in step.arms else None
    return None


def session_cancelled(draft: Draft, execution_id: str) -> None:
    """The live session ends: counts are rebuilt into the unit, and the source goes on without a window."""
    execution = draft.execution(execution_id)
    session = draft.session(execution_id)
    if execution is None or execution.status.terminal or session is None or not session.live:
        return
    session = replace(session, live=False)
    draft.put_session(session)
    draft.fact("session.cancelled.total", {}, executionId=execution_id)
    for step in await_steps(draft):
        write_counts(draft, execution, session, step)
    first = stream_await(draft, session)
    if first is not None and session.source_ended and not session.drained:
        park(draft, execution, first)

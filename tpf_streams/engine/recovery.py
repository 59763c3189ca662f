"""Opening a task: what its rows say is owed is taken up again, and what they hold is brought into the budgets."""

from __future__ import annotations

from collections.abc import Iterator

from tpf_streams.core.effects import (
    ContinueOwed,
    Effect,
    PublishObject,
    RequestSlot,
    RunSegment,
    SendOwed,
    StartSource,
)
from tpf_streams.core.execution import ExecutionRecord, OwedKind, OwedRecord
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.rows import deadline_of
from tpf_streams.core.state import State
from tpf_streams.engine.budgets import Budgets


def adopt_slots(state: State, budgets: Budgets, owners: set[str]) -> None:
    """Bring the slots of open interactions and of unfinished continuations in. Who holds any joins `owners` first: a
    store that fails half-way must leave nobody whose slots would be counted again at the next opening."""
    for key in state.scan_keys(state.keys.all_deadlines()):
        interaction = state.get(state.keys.interaction(deadline_of(key)[1]), InteractionRecord)
        if interaction is not None and not interaction.status.terminal:
            owners.add(interaction.execution_id)
            budgets.adopt(interaction.step_index, interaction.execution_id)
    for _, owed in state.scan(state.keys.all_owed(), OwedRecord):
        if owed.holds_slot is not None:
            owners.add(owed.execution_id)
            budgets.adopt(owed.holds_slot, owed.execution_id)


def owed_effects(state: State) -> Iterator[Effect]:
    """Everything owed, as the effects that the lost turns had asked for, oldest execution order by key."""
    for _, owed in state.scan(state.keys.all_owed(), OwedRecord):
        yield effect_of(state, owed)


def effect_of(state: State, owed: OwedRecord) -> Effect:
    match owed.kind:
        case OwedKind.SEGMENT if owed.item_index is None and state.definition.stream_from(owed.step_index):
            return StartSource(owed.execution_id)
        case OwedKind.SEGMENT:
            return RunSegment(owed, payload_of(state, owed))
        case OwedKind.SLOT:
            return RequestSlot(owed)
        case OwedKind.SEND:
            return SendOwed(owed)
        case OwedKind.PUBLISH:
            return PublishObject(owed.execution_id)
        case OwedKind.RELEASE | OwedKind.CLOSE:
            return ContinueOwed(owed)


def payload_of(state: State, owed: OwedRecord) -> object:
    """What a segment works on: a list, its interaction's answer, the payload it carries, or the execution's input."""
    if owed.item_index is None and state.definition.takes_list(owed.step_index):
        return state.parts(owed.execution_id, owed.step_index)
    if owed.interaction_id is not None:
        interaction = state.get(state.keys.interaction(owed.interaction_id), InteractionRecord)
        return None if interaction is None else interaction.response_payload
    if owed.step_index > 0 or owed.payload is not None:
        return owed.payload
    execution = state.get(state.keys.execution(owed.execution_id), ExecutionRecord)
    return None if execution is None else execution.input_payload

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
from tpf_streams.core.execution import OwedKind, OwedRecord
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.retry import input_of
from tpf_streams.core.rows import deadline_of
from tpf_streams.core.state import Draft, State
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
    """Everything owed, as the effects that the lost turns had asked for, oldest execution order by key. A retry that
    waits for its time is none: its row is swept when it is due."""
    for _, owed in state.scan(state.keys.all_owed(), OwedRecord):
        if owed.kind is not OwedKind.RETRY:
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
        case _:
            return ContinueOwed(owed)


def payload_of(state: State, owed: OwedRecord) -> object:
    """What a segment works on, from the rows alone: a list, an answer, the payload it carries, or the input."""
    if owed.item_index is None and state.definition.takes_list(owed.step_index):
        return state.parts(owed.execution_id, owed.step_index)
    return input_of(Draft(state), owed)

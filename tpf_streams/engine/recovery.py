"""Opening a task: what its rows say is owed is taken up again, and what they hold is brought into the budgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tpf_streams.core.effects import (
    ContinueOwed,
    Effect,
    Fact,
    PublishObject,
    RequestSlot,
    RunSegment,
    SendOwed,
    StartSource,
)
from tpf_streams.core.execution import ExecutionRecord, OwedKind, OwedRecord
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.retry import input_of
from tpf_streams.core.rows import deadline_of
from tpf_streams.core.state import Draft, State
from tpf_streams.core.step import AwaitDefinition, PipelineDefinition
from tpf_streams.engine.budgets import Budgets


def adopt_slots(state: State, budgets: Budgets, owners: set[str]) -> Counter[int]:
    """Bring the slots of open interactions and of unfinished continuations in; -> how many, by await step. Who holds
    any joins `owners` first: a store that fails half-way must leave nobody whose slots would be counted again at the
    next opening."""
    adopted: Counter[int] = Counter()

    def adopt(step_index: int, execution_id: str) -> None:
        owners.add(execution_id)
        budgets.adopt(step_index, execution_id)
        adopted[step_index] += 1

    for key in state.scan_keys(state.keys.all_deadlines()):
        interaction = state.get(state.keys.interaction(deadline_of(key)[1]), InteractionRecord)
        if interaction is not None and not interaction.status.terminal:
            adopt(interaction.step_index, interaction.execution_id)
    for _, owed in state.scan(state.keys.all_owed(), OwedRecord):
        if owed.holds_slot is not None:
            adopt(owed.holds_slot, owed.execution_id)
    return adopted


def adopted_facts(definition: PipelineDefinition, slots: Mapping[int, int]) -> list[Fact]:
    """What is told of slots brought in: `slots` by await step, as `adopt_slots` counts them."""
    steps = ((definition.steps[index], count) for index, count in slots.items())
    return [
        Fact("slot.reconciled.total", step.labels, count=count)
        for step, count in steps
        if isinstance(step, AwaitDefinition) and definition.wants_slot(step)
    ]


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
            execution = state.get(state.keys.execution(owed.execution_id), ExecutionRecord)
            return PublishObject(owed.execution_id, 0 if execution is None else execution.attempt)
        case _:
            return ContinueOwed(owed)


def payload_of(state: State, owed: OwedRecord) -> object:
    """What a segment works on, from the rows alone: a list, an answer, the payload it carries, or the input."""
    if owed.item_index is None and state.definition.takes_list(owed.step_index):
        return state.parts(owed.execution_id, owed.step_index)
    return input_of(Draft(state), owed)

"""A redriven execution has rows of several generations: an item keeps what it got in the one that asked for it."""

from __future__ import annotations

from tpf_streams.core.evolve import replace
from tpf_streams.core.execution import ExecutionRecord
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.state import Draft
from tpf_streams.core.step import AwaitDefinition


def newest(
    draft: Draft, execution: ExecutionRecord, step: AwaitDefinition, item_index: int | None
) -> InteractionRecord | None:
    """The last interaction that one item has had at one await step; ids are computed, the newest generation first."""
    for generation in range(execution.generation, -1, -1):
        then = execution if generation == execution.generation else replace(execution, generation=generation)
        found = draft.interaction(draft.state.unit_ids(then, step).interaction_id(item_index))
        if found is not None:
            return found
    return None

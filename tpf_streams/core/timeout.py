"""Time as an event: deadlines that are over are swept in order, a bounded number a turn (contract section 7)."""

from __future__ import annotations

from tpf_streams.core.continuation import interaction_ended
from tpf_streams.core.interaction import EarlyRecord, InteractionStatus
from tpf_streams.core.rows import deadline_of
from tpf_streams.core.state import Draft


def deadlines_reached(draft: Draft, limit: int) -> None:
    """Time out open interactions whose deadline is before now; forget early completions nobody came for."""
    for key in draft.state.scan_keys(draft.keys.deadlines_until(draft.now_ms), limit):
        _, interaction_id = deadline_of(key)
        interaction = draft.interaction(interaction_id)
        if interaction is None or interaction.status.terminal:
            draft.delete(key)
            continue
        message = f"Await interaction timed out: {interaction_id}"
        interaction_ended(draft, interaction, InteractionStatus.TIMED_OUT, "AWAIT_TIMEOUT", message)
    for key in draft.state.scan_keys(draft.keys.expiries_until(draft.now_ms), limit):
        _, interaction_id = deadline_of(key)
        draft.delete(key)
        if draft.get(draft.keys.early(interaction_id), EarlyRecord) is not None:
            draft.delete(draft.keys.early(interaction_id))
            draft.fact("completion.dropped.total", {"transport": "unknown", "reason": "not_found"})

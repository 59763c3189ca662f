"""What an event whose decision raises is about, so that this alone fails and its neighbours go on (contract 0.5)."""

from __future__ import annotations

from tpf_streams.core.admission import interaction_of, row_of
from tpf_streams.core.events import CompletionReceived, DeadlinesReached, DecisionRaised, Event, RetriesDue
from tpf_streams.core.evolve import replace
from tpf_streams.core.rows import deadline_of
from tpf_streams.core.state import Draft, State
from tpf_streams.engine.jobs import Pause

FAIL_AGAIN_S = 30.0


def execution_of(state: State, event: Event) -> str | None:
    """The execution that `event` would have changed; None where it names none of ours."""
    owed = getattr(event, "owed", None)
    if owed is not None:
        return str(owed.execution_id)
    execution_id = getattr(event, "execution_id", None)
    if execution_id is not None:
        return str(execution_id)
    if isinstance(event, RetriesDue):
        due = state.scan_keys(state.keys.retries_until(state.now_ms), 1)
        return deadline_of(due[0])[1] if due else None
    interaction = row_of(Draft(state), _interaction_of(state, event))
    return None if interaction is None else interaction.execution_id


def _interaction_of(state: State, event: Event) -> str | None:
    if isinstance(event, CompletionReceived):
        envelope = event.envelope
        if envelope.interaction_id is not None or envelope.correlation_id is None:
            return envelope.interaction_id
        return interaction_of(Draft(state), envelope.correlation_id)
    if isinstance(event, DeadlinesReached):
        keys = state.scan_keys(state.keys.deadlines_until(state.now_ms), 1)
        return deadline_of(keys[0])[1] if keys else None
    return getattr(event, "interaction_id", None)


async def again(event: DecisionRaised) -> Pause:
    """`event` once more, after a while."""

    async def once_more() -> Event:
        return replace(event, bare=False)

    return Pause(FAIL_AGAIN_S, once_more)

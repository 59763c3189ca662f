"""A bug in the machine, simulated: some decision raises, and only what it is about may suffer (contract 0.5)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from tests.simulation.words import Fault
from tests.simulation.world import World
from tpf_streams.core.decide import decide
from tpf_streams.core.events import DecisionRaised, Event
from tpf_streams.core.state import Decision, State
from tpf_streams.engine import task


class BugError(Exception):
    """What a bug of ours would raise."""


@contextmanager
def breakable_decisions(world: World) -> Iterator[None]:
    """While open, the decision that the world's countdown ends at raises."""

    def breaking(state: State, event: Event) -> Decision:
        if world.decisions_left is not None and not isinstance(event, DecisionRaised):
            world.decisions_left -= 1
            if world.decisions_left == 0:
                world.decisions_left = None
                world.bugs += 1
                world.auditor.lenient = True
                world.count_all(Fault.DECISION_RAISED)
                raise BugError(f"deciding {type(event).__name__}")
        return decide(state, event)

    with patch.object(task, "decide", breaking):
        yield

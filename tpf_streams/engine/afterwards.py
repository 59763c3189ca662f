"""What a turn asks for behind its commit, and the waiting for that commit."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tpf_streams.core.effects import Effect, Fact

EVENTS_A_BREATH = 8
"""Events decided before the loop is let run beside a commit: about 2 ms, in which its requests would stand still."""


@dataclass(frozen=True, slots=True)
class Afterwards:
    """outcomes: (origin, outcome) of completions. pulled: executions whose pull has been decided. taken: events of the
    turn, the first of them at `began_s`."""

    facts: list[Fact]
    outcomes: list[tuple[str, str]]
    pulled: list[str]
    effects: list[Effect]
    taken: int = 0
    began_s: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.facts or self.outcomes or self.pulled or self.effects)


async def uncancelled(running: asyncio.Task[None]) -> None:
    """A cancelled commit may hold all the same (kafka-client rule 8): shutdown and revocation wait for it."""
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        running.cancelled() or running.exception()
        raise


async def breathe(decided: int) -> None:
    """Let the commit under way go on, behind every few of the `decided` events: what decides waits for nothing."""
    if decided % EVENTS_A_BREATH == 0:
        await asyncio.sleep(0)

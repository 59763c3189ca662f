"""When deadlines may pass: not before what arrived in time has been seen (contract 0.8)."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from tpf_streams.core.events import ArrivalMarked
from tpf_streams.core.state import State
from tpf_streams.core.step import AwaitDefinition
from tpf_streams.engine.environment import Environment
from tpf_streams.engine.router import response_topics
from tpf_streams.engine.wire import encode_marker, events_topic
from tpf_streams.ports import Record, TopicPartition

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Sweep:
    """Holds the sweep of one task until markers pass the ends noted at opening, or the grace is over."""

    partition: int
    noted: dict[str, int]
    grace_until_ms: int
    open: bool = False
    shortest_ms: int = 0
    """The shortest time-out of the pipeline: what is dispatched from now on is not over before."""
    look_ms: int = 0
    """Before this time no deadline can be over, so that a busy task need not ask its store every turn."""

    @classmethod
    async def begin(cls, env: Environment, state: State, partition: int) -> Sweep:
        """Note the ends of the response topics, and of the events that wait for this task already."""
        topics = [topic for group in response_topics(env.definition) for topic in group.payload_bytes_max]
        ends = await env.log.end_offsets(topics) if topics else {}
        noted = {f"{part.topic}/{part.partition}": offset for part, offset in ends.items() if offset > 0}
        if state.first_deadline_ms() is not None:
            noted |= await _mark_events(env, partition)
        timeouts = [it.timeout_ms for it in env.definition.steps if isinstance(it, AwaitDefinition)]
        grace_until_ms = state.now_ms + env.deadline_grace_ms
        return cls(partition, noted, grace_until_ms, shortest_ms=min(timeouts, default=0))

    def due(self, state: State, *, held: bool) -> bool:
        """Whether a deadline is over and may pass now."""
        if held or not self._may_pass(state):
            return False
        if self.quiet(state, state.now_ms):
            return False
        first = state.first_deadline_ms()
        if first is not None and first < state.now_ms:
            return True
        later = state.now_ms + self.shortest_ms
        self.look_ms = later if first is None else min(later, first)
        return False

    def quiet(self, state: State, until_ms: int) -> bool:
        """Whether it is known, without asking the store, that no deadline passes before `until_ms`."""
        # An early completion brings a deadline of its own, which may be near: then nothing is put off.
        return self.open and until_ms < self.look_ms and not state.early_rows

    def next_ms(self, state: State) -> int | None:
        """When to look again without being told; None: nothing has a deadline. Markers come as input."""
        first = state.first_deadline_ms()
        return first if first is None or self.open else max(first, self.grace_until_ms)

    def _may_pass(self, state: State) -> bool:
        if not self.open:
            markers = state.markers
            passed = all(markers.get(place, 0) >= offset for place, offset in self.noted.items())
            self.open = passed or state.now_ms > self.grace_until_ms
            if self.open and not passed:
                log.warning("partition %d: deadlines pass before all earlier answers were seen", self.partition)
        return self.open


@dataclass(slots=True)
class RetrySweep:
    """When retries of executions are due. No answer can make one needless, so nothing holds them."""

    delay_ms: int
    """The shortest wait for a retry: what begins to wait from now on is not due before."""
    look_ms: int = 0
    """Before this time no retry can be due, so that a busy task need not ask its store every turn."""

    def due(self, state: State) -> bool:
        if state.now_ms < self.look_ms:
            return False
        first = state.first_retry_ms()
        if first is not None and first <= state.now_ms:
            return True
        later = state.now_ms + self.delay_ms
        self.look_ms = later if first is None else min(later, first)
        return False


async def _mark_events(env: Environment, partition: int) -> dict[str, int]:
    """Answers wait in the events too, more than one turn takes: what came by HTTP, and what was forwarded long ago.

    A marker behind them says when they have been read; the end alone would not, for not every offset is a record.
    """
    topic = events_topic(env.definition.application_id)
    end = (await env.log.end_offsets([topic])).get(TopicPartition(topic, partition), 0)
    noted = {f"{topic}/{partition}": end}
    key, value, headers = encode_marker(ArrivalMarked(noted))
    await env.log.append([Record(topic, key, value, headers, partition)])
    return noted

"""The completion router: from the user's response topics home to the partitions of `events` (architecture 3).

At least once: what is forwarded and how far was read are committed together where the log can, and admission absorbs
repeats. After the records it forwards, a reader says how far it has come by *markers* (contract 0.8): a partition lets
deadlines pass after an outage only when the markers have passed the ends it noted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tpf_streams.core.effects import Fact
from tpf_streams.core.envelope import EnvelopeRefusedError, parse_completion
from tpf_streams.core.events import ArrivalMarked
from tpf_streams.core.identity import partition_of, route_of
from tpf_streams.core.step import AwaitDefinition, Cardinality, PipelineDefinition
from tpf_streams.engine.clock import first_of, until_stopped
from tpf_streams.engine.wire import (
    Origin,
    completion_record,
    dead_letter_record,
    dead_letters_topic,
    encode_marker,
    events_topic,
)
from tpf_streams.ports import Clock, InputRecord, Log, Observer, Record, RecordReader, TopicPartition

log = logging.getLogger(__name__)

BATCH_MAX = 500
MARKER_EVERY_S = 1.0
IDLE_WAIT_S = 1.0
BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.1, 5.0
ENDING_S = 1.5
"""A batch under way is waited for this long at the end; of one that is given up, what was not noted is read again."""


@dataclass(frozen=True, slots=True)
class ResponseTopics:
    """What one group reads: response topic -> the largest payload its steps can take, bytes."""

    group: str
    payload_bytes_max: Mapping[str, int]


def response_topics(definition: PipelineDefinition) -> list[ResponseTopics]:
    """The response topics of the pipeline's kafka await steps by reader group; a topic has one reader, the first named.

    The group is the step's `consumer.group`, or `<application id>-router`.
    """
    groups: dict[str, str] = {}
    sizes: dict[str, int] = {}
    for step in definition.steps:
        if isinstance(step, AwaitDefinition) and step.transport.type == "kafka":
            topic = _option(step, "response", "topic")
            group = _option(step, "consumer", "group") or _option(step, "consumerGroup")
            groups.setdefault(topic, group or f"{definition.application_id}-router")
            limits = definition.limits
            single = step.cardinality is Cardinality.ONE_TO_ONE
            size = limits.max_payload_bytes if single else max(limits.max_payload_bytes, limits.max_aggregate_bytes)
            sizes[topic] = max(size, sizes.get(topic, 0))
    return [
        ResponseTopics(name, {topic: sizes[topic] for topic, group in groups.items() if group == name})
        for name in dict.fromkeys(groups.values())
    ]


def _option(step: AwaitDefinition, *path: str) -> str:
    """A text of the step's transport options, trimmed; "" where there is none."""
    found: Any = step.transport.options
    for part in path:
        found = found.get(part, {}) if isinstance(found, Mapping) else {}
    return (found or "").strip() if isinstance(found, str) else ""


class CompletionForwarder:
    """What becomes of one response record: home, dead letters, or nowhere. Pure but for the clock it is given."""

    def __init__(self, definition: PipelineDefinition, partitions: int) -> None:
        self._events = events_topic(definition.application_id)
        self._dead_letters = dead_letters_topic(definition.application_id)
        self._strict = definition.strict_envelopes
        self._partitions = partitions
        self._sizes = {
            topic: size for group in response_topics(definition) for topic, size in group.payload_bytes_max.items()
        }

    def forward(self, record: InputRecord, arrived_at_ms: int) -> tuple[Record | None, Fact | None]:
        """The record to append for `record`, and the drop to report if it is one. Never raises for what it holds."""
        origin = Origin.of(record)
        try:
            envelope = parse_completion(record.value, max_bytes=self._sizes[record.topic], strict=self._strict)
        except EnvelopeRefusedError as error:
            letter = dead_letter_record(
                self._dead_letters, origin, record.key, record.value, error.reason.value, f"{error.outcome}: {error}"
            )
            return letter, _dropped(error.outcome, origin, error.reason.value)
        name = envelope.interaction_id or envelope.correlation_id or ""
        route = route_of(name)
        if route is None:
            return None, _dropped("not_found", origin, "the id is none of ours")
        home = partition_of(route, self._partitions)
        return completion_record(self._events, home, name, record.value, arrived_at_ms, str(origin)), None

    def markers(self, offsets: Mapping[TopicPartition, int]) -> list[Record]:
        """One marker for every events partition. `offsets`: the next offset to read of each partition."""
        named = {f"{part.topic}/{part.partition}": offset for part, offset in offsets.items()}
        key, value, headers = encode_marker(ArrivalMarked(named))
        return [Record(self._events, key, value, headers, home) for home in range(self._partitions)]


def _dropped(reason: str, origin: Origin, detail: str) -> Fact:
    return Fact(
        "completion.dropped.total",
        labels={"transport": "kafka", "reason": reason},
        ids={"source": str(origin), "detail": detail},
    )


@dataclass(slots=True)
class _Course:
    """One group's reader and what its markers have said."""

    reader: RecordReader
    marked: dict[TopicPartition, int] = field(default_factory=dict)
    marked_at_s: float = float("-inf")
    backlog: bool = True
    """Whether there was more than one batch to read since the last marker: then the end is worth telling at once."""

    def marker_due(self, positions: Mapping[TopicPartition, int], now_s: float, at_end: bool) -> bool:
        """On reaching an end and about once a second, but never to say what was said."""
        if not positions or positions == self.marked:
            return False
        return (at_end and self.backlog) or now_s - self.marked_at_s >= MARKER_EVERY_S

    def told(self, positions: dict[TopicPartition, int], now_s: float, at_end: bool) -> None:
        self.marked, self.marked_at_s = positions, now_s
        if at_end:
            self.backlog = False


class CompletionRouter:
    """Reads the pipeline's response topics and forwards; bad input never stops it, a failing log only for a while.

    `step` raises what the log raises; `run` opens anew after it, with back-off.
    `read_time`: arrival is the time of reading, for topics without append time (`await.arrival-time: read`).
    """

    def __init__(
        self, log: Log, definition: PipelineDefinition, observer: Observer, clock: Clock, *, read_time: bool = False
    ) -> None:
        self._log = log
        self._groups = response_topics(definition)
        self._forwarder = CompletionForwarder(definition, log.partitions)
        self._observer = observer
        self._clock = clock
        self._read_time = read_time
        self._courses: list[_Course] = []

    async def open(self) -> None:
        """Open one reader a group. Raises LogError."""
        await self.close()
        for group in self._groups:
            reader = await self._log.open_reader(group.group, list(group.payload_bytes_max))
            self._courses.append(_Course(reader))

    async def step(self) -> bool:
        """Poll, forward and commit at most one batch a group; whether anything was read."""
        moved = False
        for course in self._courses:
            moved = await self._advance(course) or moved
        return moved

    async def run(self, stop: asyncio.Event) -> None:
        """Forward until `stop` is set. Ends at once where no step has a response topic."""
        try:
            await until_stopped(stop, self._keep_on(stop), ENDING_S)
        finally:
            await self.close()

    async def _keep_on(self, stop: asyncio.Event) -> None:
        backoff_s = BACKOFF_FIRST_S
        while self._groups and not stop.is_set():
            try:
                await self._go_on(stop)
                backoff_s = BACKOFF_FIRST_S
            except Exception:
                log.exception("the completion router lost its log and opens it again in %.1f s", backoff_s)
                await self.close()
                await first_of(stop, self._clock.sleep(backoff_s))
                backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)

    async def lag(self) -> int:
        """Records of the response topics, of the partitions read here, that are not forwarded yet. Raises LogError."""
        behind = 0
        for group, course in zip(self._groups, self._courses, strict=False):
            ends = await self._log.end_offsets(list(group.payload_bytes_max))
            behind += sum(max(0, ends.get(part, 0) - offset) for part, offset in course.reader.positions().items())
        return behind

    async def close(self) -> None:
        """Give the readers up. Idempotent; never raises."""
        courses, self._courses = self._courses, []
        for failure in await asyncio.gather(*(it.reader.close() for it in courses), return_exceptions=True):
            if isinstance(failure, Exception):
                log.warning("a reader of response topics did not close well", exc_info=failure)

    async def _go_on(self, stop: asyncio.Event) -> None:
        if not self._courses:
            await self.open()
        if not await self.step():
            await first_of(stop, *(course.reader.wait(IDLE_WAIT_S) for course in self._courses))

    async def _advance(self, course: _Course) -> bool:
        found = await course.reader.poll(BATCH_MAX)
        records, facts = self._forward(found)
        positions, now_s, at_end = course.reader.positions(), self._clock.monotonic_s(), not found
        course.backlog = course.backlog or len(found) >= BATCH_MAX
        marking = course.marker_due(positions, now_s, at_end)
        if marking:
            records += self._forwarder.markers(positions)
        if found or records:
            await course.reader.commit(records)
        if marking:
            course.told(positions, now_s, at_end)
        if facts:
            self._observer.observe(facts)
        return bool(found)

    def _forward(self, found: Iterable[InputRecord]) -> tuple[list[Record], list[Fact]]:
        records: list[Record] = []
        facts: list[Fact] = []
        now_ms = self._clock.now_ms()
        for record in found:
            forwarded, drop = self._forwarder.forward(record, now_ms if self._read_time else record.timestamp_ms)
            if forwarded is not None:
                records.append(forwarded)
            if drop is not None:
                facts.append(drop)
                if forwarded is not None:
                    facts.append(Fact("dead_letter.total", {"reason": str(drop.ids["detail"])}))
        return records, facts

"""Who listens to a run: for latency, and for the window."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from tests.benchmarks.noted import Listener
from tests.benchmarks.payments import EVENTS, REQUESTS, RESPONSES
from tests.benchmarks.report import latencies_s, latency_summary
from tpf_streams.engine.wire import EVENT_HEADER, SOURCE_HEADER, Origin
from tpf_streams.ports import InputRecord, Record, TopicPartition, Turn

_COMPLETION = (EVENT_HEADER, b"completion")


def answer_origin(record: InputRecord) -> bytes | None:
    """The response record that an input of a task came from; None for an input that is no answer."""
    headers = record.headers
    if not headers or headers[0] != _COMPLETION:
        return None
    return dict(headers)[SOURCE_HEADER]


class LatencyListener(Listener):
    """When each answer was appended, and when the commit of the turn that settled it returned.

    Answers are told apart by their offset in the response topic, which a fresh log counts from 0. An answer is settled
    by the turn whose input position passes it.
    """

    def __init__(self) -> None:
        self._appended_s: list[float] = []
        self._polled: dict[int, deque[tuple[int, bytes]]] = {}
        self._settled: list[tuple[float, list[bytes]]] = []

    def forwarding(self, records: Sequence[Record]) -> None:
        if records and records[0].topic == RESPONSES:
            self._appended_s += [time.perf_counter()] * len(records)

    def polled(self, partition: int, records: Sequence[InputRecord]) -> None:
        waiting = self._polled.setdefault(partition, deque())
        for record in records:
            origin = answer_origin(record)
            if origin is not None:
                waiting.append((record.offset, origin))

    def committed(self, partition: int, turn: Turn) -> None:
        settled = self._pass(partition, turn)
        if settled:
            self._settled.append((time.perf_counter(), settled))

    def _pass(self, partition: int, turn: Turn) -> list[bytes]:
        position = turn.positions.get(TopicPartition(EVENTS, partition), 0)
        waiting, passed = self._polled.get(partition, deque()), []
        while waiting and waiting[0][0] < position:
            passed.append(waiting.popleft()[1])
        return passed

    def figures(self) -> dict[str, Any]:
        settled_s: dict[int, float] = {}
        for moment_s, origins in self._settled:
            for text in origins:
                origin = Origin.parse(text.decode())
                if origin is None or origin.topic != RESPONSES:
                    raise ValueError(f"an answer from {text.decode()}")
                settled_s.setdefault(origin.offset, moment_s)
        return {"latency_ms": latency_summary(latencies_s(self._appended_s, settled_s))}


class WindowListener(Listener):
    """How many requests are open, seen from both sides; for a provider that answers each request once.

    At the provider: read by it and not yet answered. On the way: in the log, from the write of the turn that sent the
    request to the turn that takes its answer.
    """

    def __init__(self) -> None:
        self._at_provider = self._on_the_way = 0
        self._most = {"at_provider": 0, "on_the_way": 0}
        self._polled: dict[int, deque[int]] = {}

    def read(self, topics: Sequence[str], records: Sequence[InputRecord]) -> None:
        if REQUESTS in topics:
            self._at_provider += len(records)
            self._most["at_provider"] = max(self._most["at_provider"], self._at_provider)

    def forwarded(self, records: Sequence[Record]) -> None:
        self._at_provider -= sum(record.topic == RESPONSES for record in records)

    def polled(self, partition: int, records: Sequence[InputRecord]) -> None:
        waiting = self._polled.setdefault(partition, deque())
        waiting.extend(record.offset for record in records if answer_origin(record) is not None)

    def committing(self, partition: int, turn: Turn) -> None:
        position = turn.positions.get(TopicPartition(EVENTS, partition), 0)
        waiting = self._polled.get(partition, deque())
        while waiting and waiting[0] < position:
            waiting.popleft()
            self._on_the_way -= 1
        self._on_the_way += sum(record.topic == REQUESTS for record in turn.records)
        self._most["on_the_way"] = max(self._most["on_the_way"], self._on_the_way)

    def figures(self) -> dict[str, Any]:
        return {"open_max": dict(self._most), "open_at_end": self._at_provider + self._on_the_way}

"""How the engine works, beside what became true: sizes, times, and what is in use now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tpf_streams.core.step import PipelineDefinition
from tpf_streams.observability.catalogue import LABELS, LATENCY_MS, SLOT
from tpf_streams.observability.labels import LabelValues

EVENTS = (1, 5, 10, 50, 100, 250, 500, 1_000, 2_500)
SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)


@dataclass(frozen=True, slots=True)
class Usage:
    """What is in use at one moment, of this process. Counts, or bytes as named."""

    tasks_open: int = 0
    tasks_assigned: int = 0
    tasks_reopened: int = 0
    window_in_flight: int = 0
    window_size: int = 0
    slots_held: Mapping[str, int] = field(default_factory=dict)
    """By the id of the await step."""
    restored_records: int = 0
    restore_remaining_records: int = 0


class Measures:
    """A `ports.Meter`, and the gauges that a sampler sets."""

    def __init__(self, definition: PipelineDefinition, registry: CollectorRegistry) -> None:
        self._values = LabelValues(definition)
        self._step_ids = {step.index: step.step_id for step in definition.steps}
        slot = [LABELS[name] for name in SLOT]

        def gauge(name: str, help: str, labels: list[str] | None = None) -> Gauge:
            return Gauge(name, help, labels or [], registry=registry)

        def histogram(name: str, help: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, help, buckets=buckets, registry=registry)

        self._turn_events = histogram("tpf_turn_events", "Events decided in one turn.", EVENTS)
        self._turn_seconds = histogram(
            "tpf_turn_seconds", "From the poll of a turn to what its commit set off.", SECONDS
        )
        self._commit_seconds = histogram("tpf_commit_seconds", "The commit of a turn.", SECONDS)
        self._retries = Counter(
            "tpf_retries_total", "Failed tries of outside work that are repeated.", registry=registry
        )
        self._paused = Counter(
            "tpf_source_paused_seconds_total", "Time in which a source had to wait for its window.", registry=registry
        )
        self._wait = Histogram(
            "tpf_await_admission_wait",
            "Wait for a slot of the admission budget, in milliseconds.",
            slot,
            buckets=LATENCY_MS,
            registry=registry,
        )
        self._pending = gauge("tpf_await_admission_pending", "Slots of the admission budget that are held.", slot)
        self._open = gauge("tpf_tasks_open", "Partitions of this process that are restored and open.")
        self._assigned = gauge("tpf_tasks_assigned", "Partitions of this process.")
        self._reopened = gauge("tpf_tasks_reopened", "Times that a task was opened anew since the start.")
        self._in_flight = gauge("tpf_window_in_flight", "Items in flight of the live streams here.")
        self._size = gauge("tpf_window_size", "Items that may be in flight of the live streams here.")
        self._restored = gauge("tpf_restore_records", "Changelog records restored since the start.")
        self._remaining = gauge("tpf_restore_remaining_records", "Changelog records still to be restored.")
        self._lag = gauge("tpf_lag_records", "Records that wait to be read here.", ["tpf_input"])
        self._store = gauge("tpf_store_bytes", "What the local store takes on disk.")
        for step_id in self._values.steps:
            self._pending.labels(*self._slot(step_id))

    # Told by the engine

    def turn_ended(self, events: int, seconds: float) -> None:
        self._turn_events.observe(events)
        self._turn_seconds.observe(seconds)

    def committed(self, seconds: float) -> None:
        self._commit_seconds.observe(seconds)

    def source_paused(self, seconds: float) -> None:
        self._paused.inc(max(0.0, seconds))

    def slot_waited(self, step_index: int, seconds: float) -> None:
        if seconds > 0:
            self._wait.labels(*self._slot(self._step_ids.get(step_index, ""))).observe(seconds * 1000)

    def retried(self) -> None:
        self._retries.inc()

    # Told by the sampler

    def in_use(self, usage: Usage) -> None:
        self._open.set(usage.tasks_open)
        self._assigned.set(usage.tasks_assigned)
        self._reopened.set(usage.tasks_reopened)
        self._in_flight.set(usage.window_in_flight)
        self._size.set(usage.window_size)
        self._restored.set(usage.restored_records)
        self._remaining.set(usage.restore_remaining_records)
        for step_id, held in usage.slots_held.items():
            self._pending.labels(*self._slot(step_id)).set(held)

    def behind(self, events: int, responses: int) -> None:
        """Records that wait: of the application's events, and of the response topics that this process routes."""
        self._lag.labels("events").set(events)
        self._lag.labels("responses").set(responses)

    def stored(self, size_bytes: int) -> None:
        self._store.set(size_bytes)

    def _slot(self, step_id: str) -> tuple[str, ...]:
        return self._values.of(SLOT, {"step_id": step_id, "outcome": "acquired"})

"""What all tasks of one process share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from tpf_streams.core.effects import Fact
from tpf_streams.core.step import PipelineDefinition
from tpf_streams.engine.answers import Answers
from tpf_streams.engine.budgets import Budgets
from tpf_streams.engine.owners import Advertised
from tpf_streams.engine.segments import SegmentRunner
from tpf_streams.ports import AwaitTransport, Clock, Log, Meter, ObjectPublisher, Observer


class NoObserver:
    """Tells nobody."""

    def observe(self, facts: Sequence[Fact]) -> None: ...


class NoMeter:
    """Measures nothing."""

    def turn_ended(self, events: int, seconds: float) -> None: ...

    def committed(self, seconds: float) -> None: ...

    def source_paused(self, seconds: float) -> None: ...

    def slot_waited(self, step_index: int, seconds: float) -> None: ...

    def retried(self) -> None: ...


@dataclass(slots=True)
class Environment:
    """The application around the tasks: its definition, its adapters and its bounds.

    `batch_max`: input records a turn. `segments_max`: segments and dispatches under way a task (contract section 11,
    worker.max-in-flight). `deadline_grace_ms`: how long deadlines wait for the router's markers (contract 0.8).
    `lifecycle`: whether turns tell of their facts on the lifecycle topic (contract 10.2).
    `advertised`: who this worker is to others; None on a log that has no others.
    `demand`: items that downstream asks each task for at its opening; what is owed then is handed on by it at once.
    """

    definition: PipelineDefinition
    log: Log
    clock: Clock
    transports: Mapping[str, AwaitTransport]
    runner: SegmentRunner
    budgets: Budgets
    publisher: ObjectPublisher | None = None
    observer: Observer = field(default_factory=NoObserver)
    meter: Meter = field(default_factory=NoMeter)
    answers: Answers = field(default_factory=Answers)
    batch_max: int = 500
    segments_max: int = 64
    deadline_grace_ms: int = 300_000
    lifecycle: bool = True
    advertised: Advertised | None = None
    demand: float = inf

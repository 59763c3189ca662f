"""What a step is told about the execution that it runs in."""

from __future__ import annotations

from tpf_streams.core.frozen import frozen
from tpf_streams.core.step import OnRowError, SourceObject


@frozen
class StepContext:
    """The second argument of a step callable that has one.

    `now_epoch_ms` is taken once and kept, so that a step that runs again sees the same time and gives the same result;
    a step never reads a clock of its own. `attempt` counts from 1. `source_object` is None unless the execution came
    from an object source (contract 0.23); `encoding` and `on_row_error` are the source's (contract 0.15).
    """

    tenant_id: str
    execution_id: str
    now_epoch_ms: int
    attempt: int = 1
    source_object: SourceObject | None = None
    on_row_error: OnRowError = OnRowError.REJECT_ROW
    encoding: str = "utf-8"

"""What became of a run: the counts of its executions' rows, and of what this process saw."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tpf_streams.core.execution import ExecutionRecord, ExecutionStatus
from tpf_streams.runtime.intake import Intake
from tpf_streams.runtime.run_tally import RunTally
from tpf_streams.runtime.views import LogViews, source_name


@dataclass(slots=True)
class RunResult:
    """Counts of items are those of all executions of the run, what an earlier process did for them included.

    Duplicates, drops, `in_flight_max`, seconds and items a second are of this process.
    """

    items: int = 0
    completed: int = 0
    rejected_rows: int = 0
    rejected_items: int = 0
    by_arm: dict[str, int] = field(default_factory=dict)
    duplicates: int = 0
    dropped: int = 0
    dropped_by_reason: dict[str, int] = field(default_factory=dict)
    in_flight_max: int = 0
    seconds: float = 0.0
    items_per_s: float = 0.0
    executions: dict[str, int] = field(default_factory=dict)
    continued: int = 0
    failed: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[dict[str, Any]] = field(default_factory=list)
    published: list[dict[str, Any]] = field(default_factory=list)
    waiting: int = 0


def run_result(intake: Intake, views: LogViews, tally: RunTally, seconds: float) -> RunResult:
    """The result as the rows say it now; executions that are not terminal count with what they have so far."""
    result = RunResult()
    arms: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    settled = 0
    for execution_id in intake.execution_ids:
        execution = views.execution(execution_id)
        if execution is None and views.tombstone(execution_id) is not None:
            continue  # It had ended long ago, and has been deleted since this run looked.
        if execution is None:
            message = "it was never begun: look into the dead letters of the application"
            result.failed.append(_failure(execution_id, None, "NOT_BEGUN", message))
            continue
        counts = views.summary(execution)
        statuses[execution.status.value] += 1
        arms.update(counts["byArm"])
        result.items += counts["items"]
        result.completed += counts["outputs"]
        result.rejected_rows += counts["rejectedRows"]
        result.rejected_items += counts["rejectedItems"]
        settled += counts["items"] - counts["inFlight"]
        _add_end(result, execution, counts["rejectedRows"] + counts["rejectedItems"])
    result.failed += [_failure(None, it.source, it.code, it.message) for it in intake.refused]
    result.skipped = [_failure(None, it.source, it.code, it.message) for it in intake.skipped]
    result.by_arm, result.executions = dict(sorted(arms.items())), dict(sorted(statuses.items()))
    _add_process(result, intake, tally, seconds, settled)
    result.waiting = views.pending_count()
    return result


def _add_end(result: RunResult, execution: ExecutionRecord, rejects: int) -> None:
    source = source_name(execution)
    if execution.status is ExecutionStatus.FAILED:
        message = execution.error_message or ""
        result.failed.append(_failure(execution.execution_id, source, execution.error_code or "", message))
    if execution.published is not None or rejects:
        result.published.append({"source": source, "name": execution.published, "rejected": rejects})


def _add_process(result: RunResult, intake: Intake, tally: RunTally, seconds: float, settled: int) -> None:
    done = settled - intake.settled_before
    result.continued = intake.continued
    result.duplicates = tally["completion.duplicate.total"]
    result.dropped = sum(tally.dropped.values())
    result.dropped_by_reason = dict(sorted(tally.dropped.items()))
    result.in_flight_max = tally.in_flight_max
    result.seconds = round(seconds, 3)
    result.items_per_s = round(done / seconds, 1) if seconds > 0 else 0.0


def _failure(execution_id: str | None, source: str | None, code: str, message: str) -> dict[str, Any]:
    return {"executionId": execution_id, "source": source, "code": code, "message": message}

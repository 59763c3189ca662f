"""The checker of ends: what whoever fails, waits for its retry or goes on again must leave in that very turn."""

from __future__ import annotations

from collections import Counter

import orjson

from tests.simulation.pipelines import APPLICATION, Pipeline
from tests.simulation.shadow import Change, Shadow, Violation
from tests.simulation.steps import BROKE, REFUSED
from tpf_streams.core.execution import ExecutionRecord, ExecutionStatus
from tpf_streams.core.rows import deadline_of
from tpf_streams.core.step import OnItemFailure
from tpf_streams.engine.wire import EVENT_HEADER, REASON_HEADER, dead_letters_topic, item_rejects_topic
from tpf_streams.ports import Turn

EXECUTION_LETTER = b"dead-letter-execution"
_SILENT = ("AWAIT_TIMEOUT", "AWAIT_CANCELLED", "CANCELLED")
_WAITS = ExecutionStatus.WAIT_RETRY


def ends_told(pipeline: Pipeline, turn: Turn, changes: list[Change], redriven: set[str]) -> None:
    """Who fails for good has its dead letter in the same turn, and nobody else has one (contract section 14).

    Who is redriven may have failed and gone on within the turn, or failed twice: of those only the words are checked.
    """
    failed = {
        change.new.execution_id: change.new
        for change in changes
        if change.kind == b"e" and change.new.status is ExecutionStatus.FAILED
    }
    letters = Counter(
        (record.key or b"").decode()
        for record in turn.records
        if record.topic == dead_letters_topic(APPLICATION) and dict(record.headers)[EVENT_HEADER] == EXECUTION_LETTER
    )
    for execution_id, execution in failed.items():
        if execution_id in redriven:
            continue
        told, code = letters.pop(execution_id, 0), execution.error_code
        # A step that fails behind an answer, or in the source: the rows do not say which it was.
        either = pipeline.has_streams and code in (BROKE, REFUSED)
        if told > 1 or (not either and told != (code not in _SILENT)):
            raise Violation(f"{told} dead letters of {execution}")
    if set(letters) - redriven:
        raise Violation(f"dead letters of executions that did not fail: {letters}")
    for record in turn.records:
        if record.topic == dead_letters_topic(APPLICATION) and dict(record.headers)[EVENT_HEADER] == EXECUTION_LETTER:
            body = orjson.loads(record.value or b"")
            execution = failed.get(body["executionId"])
            if execution is None or (execution.execution_id in redriven and letters[execution.execution_id] > 1):
                continue
            _letter_says(execution, body, dict(record.headers)[REASON_HEADER].decode(), pipeline)


def _letter_says(execution: ExecutionRecord, body: dict[str, object], reason: str, pipeline: Pipeline) -> None:
    said = (body["errorCode"], body["errorMessage"], body["errorDetail"], body["executionKey"], body["terminalStatus"])
    wanted = (
        execution.error_code,
        execution.error_message,
        execution.error_detail,
        execution.execution_key,
        execution.status.value,
    )
    exhausted = reason == "retry_exhausted"
    if said != wanted or (body["terminalReason"], body["retryable"]) != (reason, exhausted):
        raise Violation(f"a dead letter says {body}, the row {execution}")
    if execution.error_code == REFUSED and exhausted:
        raise Violation(f"a refusal was tried again: {body}")
    if execution.error_code == BROKE and not pipeline.has_streams:
        wanted_retries = pipeline.definition.limits.max_retries
        if not exhausted or body["retriesObserved"] != wanted_retries or execution.retries != wanted_retries:
            raise Violation(f"given up after {execution.retries} retries, {wanted_retries} allowed: {body}")


def retries_kept(shadow: Shadow, changes: list[Change], now_ms: int) -> None:
    """Who waits for its retry has the row of its time, and goes on when that has come, not before."""
    noted = {(due, ident) for due, ident in map(deadline_of, shadow.tables[b"t"])}
    waiting = {(it.next_due_epoch_ms, it.execution_id) for it in shadow.executions if it.status is _WAITS}
    if noted != waiting:
        raise Violation(f"retries are noted for {noted}, and waited for by {waiting}")
    for change in changes:
        if change.kind != b"e" or change.old is None or change.old.status is not _WAITS:
            continue
        if change.new.status is ExecutionStatus.RUNNING and now_ms < change.old.next_due_epoch_ms:
            raise Violation(f"a retry before its time, at {now_ms}: {change.old}")


def rejects_told(pipeline: Pipeline, turn: Turn, changes: list[Change], redriven: set[str]) -> None:
    """What is rejected for good is on the item-reject topic in the same turn, once."""
    bodies = (orjson.loads(it.value or b"") for it in turn.records if it.topic == item_rejects_topic(APPLICATION))
    told = Counter((body["executionId"], body.get("itemIndex")) for body in bodies)
    drains = pipeline.definition.on_item_failure is OnItemFailure.FAIL_EXECUTION
    wanted: Counter[tuple[str, int | None]] = Counter()
    for row in (change.new for change in changes if change.kind == b"r" and change.new is not None):
        late = row.reason.split(":")[0] in ("AWAIT_TIMEOUT", "AWAIT_CANCELLED")
        if row.item_index is None or late or not drains:
            wanted[row.execution_id, row.item_index] += 1
    # A reject may be taken back by a redrive in the turn that wrote it.
    if wanted - told or any(execution_id not in redriven for execution_id, _ in told - wanted):
        raise Violation(f"rejects were told {told}, the rows say {wanted}")

"""A scalar execution whose step fails: retries by time, over a crash, and the dead letter at their end (section 14)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from tests.topology.test_restaurant_approval import ORDER, decision
from topologies.restaurant_approval.steps import finalize_restaurant_decision
from tpf_streams.errors import TerminalError
from tpf_streams.testing import TopologyTestDriver
from tpf_streams.testing.faults import raising

PIPELINE = Path(__file__).parents[2] / "topologies" / "restaurant_approval" / "pipeline.yaml"
FINALIZE = "Finalize Restaurant Decision"
SETTINGS = {
    "pipeline.defaults.retry-limit": "1",
    "pipeline.defaults.retry-wait-ms": "100",
    "pipeline.orchestrator.max-retries": "2",
    "pipeline.orchestrator.retry-delay": "PT1M",
}


def opened(times: int, error: Exception | None = None) -> TopologyTestDriver:
    step = raising(finalize_restaurant_decision, times, error)
    return TopologyTestDriver(PIPELINE, settings=SETTINGS, functions={FINALIZE: step})


def decided(driver: TopologyTestDriver) -> str:
    execution_id = driver.submit(ORDER)
    (row,) = driver.pending()
    assert driver.answer(row, decision(row, "accepted")) == "admitted"
    driver.advance(200)
    return execution_id


def letters(driver: TopologyTestDriver) -> list[tuple[bytes, dict[str, Any]]]:
    return [(dict(it.headers)["tpf-reason"], orjson.loads(it.value or b"")) for it in driver.dead_letters()]


def test_a_segment_is_tried_again_after_a_minute_and_then_after_two():
    """T90, T93: the answer stays, the await unit too, and a crash forgets neither."""
    with opened(times=4) as driver:
        execution_id = decided(driver)
        execution = driver.execution(execution_id)
        assert (execution.status, execution.current_step_index) == ("WAIT_RETRY", 3)
        assert execution.error_code == "RETRYABLE"
        assert execution.await_unit_id is not None
        assert (execution.next_due_epoch_ms or 0) - execution.updated_at_epoch_ms == 60_000
        driver.crash()
        driver.advance(59_000)
        assert driver.execution(execution_id) == execution
        driver.advance(2_000)
        assert driver.execution(execution_id).retries == 2
        driver.stop()
        driver.clock.advance(3_600_000)
        driver.start()
        found = driver.execution(execution_id)
        assert (found.status, found.error_code, found.attempt) == ("SUCCEEDED", None, 2)
        assert driver.dead_letters() == []
        assert len(driver.outputs()) == 1


def test_when_the_retries_are_used_up_the_dead_letter_has_the_traceback():
    """T91."""
    with opened(times=99) as driver:
        execution_id = decided(driver)
        driver.advance(600_000)
        execution = driver.execution(execution_id)
        assert (execution.status, execution.retries, driver.outputs()) == ("FAILED", 2, [])
        ((reason, letter),) = letters(driver)
        assert (reason, letter["terminalReason"], letter["retriesObserved"]) == (
            b"retry_exhausted",
            "retry_exhausted",
            2,
        )
        assert letter["transitionKey"] == f"{execution_id}:3:2"
        assert "fails on purpose" in letter["errorMessage"]
        assert letter["errorDetail"].startswith("Traceback")
        driver.crash()
        assert len(letters(driver)) == 1


def test_an_error_that_no_retry_can_help_ends_it_at_once():
    """T92."""
    with opened(times=99, error=TerminalError("no such outcome", "NO_OUTCOME")) as driver:
        execution_id = decided(driver)
        assert driver.execution(execution_id).error_code == "NO_OUTCOME"
        ((reason, letter),) = letters(driver)
        assert (reason, letter["errorCode"], letter["retryable"]) == (b"non_retryable", "NO_OUTCOME", False)


def test_time_outs_and_cancels_leave_no_dead_letter():
    with opened(times=0) as driver:
        late, cancelled = driver.submit(ORDER), driver.submit({**ORDER, "customerName": "Bob"})
        driver.cancel_execution(cancelled)
        driver.advance(31 * 60_000)
        assert [driver.execution(it).error_code for it in (late, cancelled)] == ["AWAIT_TIMEOUT", "CANCELLED"]
        assert driver.dead_letters() == []

"""Two await boundaries in one pipeline: a scalar execution passes both, and so does each item of a stream."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tests.field.pipelines import REJECT, TWO_AWAITS, TWO_AWAITS_STREAM, Steps, open_driver
from tpf_streams.testing import TopologyTestDriver

FIRST, SECOND = 1, 3
"""Indexes of the await steps."""
MINUTE_MS = 60_000


def answer(driver: TopologyTestDriver, request: dict[str, Any], status: str = "APPROVED") -> None:
    assert driver.answer(request, {"status": status}) == "admitted"


def unanswered(driver: TopologyTestDriver) -> list[dict[str, Any]]:
    open_ones = {it.interaction_id for it in driver.pending()}
    return [it for it in driver.requests() if it["interactionId"] in open_ones]


@pytest.mark.parametrize("crash", [False, True])
def test_a_scalar_execution_waits_twice(tmp_path, crash):
    """R19, R20, R29, R30: each wait is a unit of its own; a crash before, between or after changes nothing."""
    steps = Steps()
    with open_driver(tmp_path, TWO_AWAITS, steps) as driver:
        between: Callable[[], None] = driver.crash if crash else driver.run
        execution_id = driver.submit({"orderId": "o-1"})
        between()
        assert driver.execution(execution_id).current_step_index == FIRST
        answer(driver, driver.requests()[0], "APPROVED")
        between()
        execution = driver.execution(execution_id)
        assert (execution.status, execution.current_step_index) == ("WAITING_EXTERNAL", SECOND)
        first, second = (driver.unit(execution_id, index) for index in (FIRST, SECOND))
        assert first is not None and second is not None
        assert (first.status, second.status) == ("COMPLETED", "WAITING_EXTERNAL")
        assert execution.await_unit_id == second.unit_id != first.unit_id
        assert driver.requests()[1]["requestPayload"] == {"orderId": "after APPROVED"}
        answer(driver, driver.requests()[1], "DECLINED")
        between()
        assert driver.execution(execution_id).status == "SUCCEEDED"
        assert driver.results(execution_id)[0].payloads == [{"status": "DECLINED"}]
        assert (len(driver.requests()), len(driver.outputs())) == (2, 1)


def test_the_second_wait_has_a_deadline_of_its_own(tmp_path):
    with open_driver(tmp_path, TWO_AWAITS) as driver:
        execution_id = driver.submit({"orderId": "o-1"})
        driver.advance(MINUTE_MS - 1)
        answer(driver, driver.requests()[0])
        driver.advance(MINUTE_MS)
        assert driver.execution(execution_id).status == "WAITING_EXTERNAL"
        driver.advance(1)
        assert driver.execution(execution_id).error_code == "AWAIT_TIMEOUT"
        first, second = (driver.unit(execution_id, index) for index in (FIRST, SECOND))
        assert first is not None and second is not None
        assert (first.status, second.status) == ("COMPLETED", "TIMED_OUT")


@pytest.mark.parametrize("path", ["live", "durable", "cancelled"])
@pytest.mark.parametrize("crash", [False, True])
def test_each_item_waits_twice(tmp_path, path, crash):
    """In any order of answers; in flight is what has no output yet, whichever of its two answers it waits for."""
    steps, random = Steps(), Random(7)
    settings = {"pipeline.max-concurrency": "3"}
    with open_driver(tmp_path, TWO_AWAITS_STREAM, steps, settings=settings) as driver:
        execution_id = driver.submit({"count": "12"})
        if path == "durable":
            driver.cancel_session(execution_id)
        for turn in range(24):
            session = driver.session(execution_id)
            assert session is not None
            assert path != "live" or session.in_flight <= 3
            assert 1 <= len(driver.pending()) <= 6
            answer(driver, random.choice(unanswered(driver)))
            if path == "cancelled" and turn == 9:
                driver.cancel_session(execution_id)
            if crash and turn % 5 == 0:
                driver.crash()
        execution = driver.execution(execution_id)
        assert execution.summary is not None
        assert (execution.status, execution.summary.outputs) == ("SUCCEEDED", 12)
        assert sorted(it["itemIndex"] for it in driver.outputs()) == list(range(12))
        assert len({it["interactionId"] for it in driver.requests()}) == len(driver.requests()) == 24
        for index in (FIRST, SECOND):
            unit = driver.unit(execution_id, index)
            assert unit is not None
            assert (unit.status, unit.expected_item_count, unit.completed_item_count) == ("COMPLETED", 12, 12)
            assert driver.application.environment.budgets.held(index) == 0
        assert driver.metric("unit.terminal.total") == 2


def test_answers_of_both_waits_of_all_items_at_once(tmp_path):
    """Demand is for outputs: with none, the second wait of an item is reached by no more items than the window has."""
    with open_driver(tmp_path, TWO_AWAITS_STREAM, settings={"pipeline.max-concurrency": "3"}) as driver:
        driver.submit({"count": "9"})
        while requests := unanswered(driver):
            for request in requests:
                answer(driver, request)
        assert sorted(it["itemIndex"] for it in driver.outputs()) == list(range(9))


def test_an_item_that_is_late_at_its_second_wait_is_rejected(tmp_path):
    with open_driver(tmp_path, TWO_AWAITS_STREAM, settings=REJECT) as driver:
        execution_id = driver.submit({"count": "3"})
        for request in driver.requests()[:3]:
            answer(driver, request)
        for request in driver.requests()[3:5]:
            answer(driver, request)
        driver.advance(MINUTE_MS + 1)
        execution = driver.execution(execution_id)
        assert execution.summary is not None
        assert (execution.status, execution.summary.outputs, execution.summary.rejected_items) == ("SUCCEEDED", 2, 1)
        second = driver.unit(execution_id, SECOND)
        assert second is not None
        assert (second.completed_item_count, second.rejected_item_count) == (2, 1)


def test_one_that_is_late_at_its_second_wait_fails_all(tmp_path):
    with open_driver(tmp_path, TWO_AWAITS_STREAM) as driver:
        execution_id = driver.submit({"count": "3"})
        answer(driver, driver.requests()[0])
        driver.advance(MINUTE_MS + 1)
        assert driver.execution(execution_id).error_code == "AWAIT_TIMEOUT"
        assert driver.pending() == []
        statuses = sorted(str(driver.interaction(it["interactionId"]).status) for it in driver.requests())
        assert statuses == ["CANCELLED", "CANCELLED", "COMPLETED", "TIMED_OUT"]
        assert driver.metric("unit.terminal.total") == 2

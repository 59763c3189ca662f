"""When an answer came: early ones are held, late ones refused, and an outage makes none late (contract 0.8, 0.11)."""

from __future__ import annotations

import pytest

from tests.field.pipelines import DECISION, MINUTE_MS, REJECT, RESPONSES, STREAM, Steps, open_driver
from tests.field.sequences import completion, foreseen
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.testing import ManualClock

APPROVED = {"status": "APPROVED"}


def test_answers_that_came_in_time_are_admitted_after_an_outage(tmp_path):
    """They lay in the topic before their deadline; the process was away until long after it."""
    with open_driver(tmp_path, STREAM, settings={"pipeline.max-concurrency": "40"}) as driver:
        execution_id = driver.submit({"count": "40"})
        requests = driver.requests()
        driver.stop()
        driver.advance(MINUTE_MS - 1)
        for request in requests:
            driver.send(RESPONSES, completion(request, APPROVED))
        driver.advance(60 * MINUTE_MS)
        driver.start()
        assert driver.execution(execution_id).status == "SUCCEEDED"
        assert driver.metric("completion.admitted.total") == 40
        assert driver.tally.dropped == {}


@pytest.mark.parametrize("partitions", [1, 4])
def test_an_answer_that_came_late_in_an_outage_is_late(tmp_path, partitions):
    """One in time, one late, one never: each by the time it came, not by the time it was read."""
    clock = ManualClock()
    log = MemoryLog(application_id="field-cases", partitions=partitions, clock=clock)
    with open_driver(tmp_path, STREAM, settings=REJECT, clock=clock, log=log) as driver:
        execution_id = driver.submit({"count": "3"})
        in_time, late, never = driver.requests()
        driver.stop()
        driver.advance(MINUTE_MS)
        driver.send(RESPONSES, completion(in_time, APPROVED))
        driver.advance(1)
        driver.send(RESPONSES, completion(late, APPROVED))
        driver.advance(60 * MINUTE_MS)
        driver.start()
        found = [str(driver.interaction(it["interactionId"]).status) for it in (in_time, late, never)]
        assert found == ["COMPLETED", "TIMED_OUT", "TIMED_OUT"]
        assert driver.tally.dropped == {"late": 1}
        execution = driver.execution(execution_id)
        assert execution.summary is not None
        assert (execution.status, execution.summary.outputs, execution.summary.rejected_items) == ("SUCCEEDED", 1, 2)


def test_a_late_answer_ends_everything_of_its_wait_at_once(tmp_path):
    """It may be read before the sweep comes: then it is what turns row, unit and execution (contract 0.8)."""
    steps = Steps()
    with open_driver(tmp_path, DECISION, steps) as driver:
        execution_id = driver.submit({"orderId": "o-1"})
        (request,) = driver.requests()
        driver.clock.advance(MINUTE_MS + 1)
        assert driver.complete(completion(request, APPROVED)) == "late"
        execution, unit = driver.execution(execution_id), driver.unit(execution_id, 0)
        assert unit is not None
        assert (driver.interaction(request["interactionId"]).status, unit.status) == ("TIMED_OUT", "TIMED_OUT")
        assert (execution.status, execution.error_code) == ("FAILED", "AWAIT_TIMEOUT")
        assert driver.complete(completion(request, APPROVED)) == "late"
        assert driver.metric("execution.terminal.total") == 1
        assert (steps.finished, driver.pending()) == ([], [])


def test_a_late_duplicate_is_still_a_duplicate(tmp_path):
    """The row decides (0.4): COMPLETED is looked at before the time."""
    with open_driver(tmp_path, DECISION) as driver:
        driver.submit({"orderId": "o-1"})
        (request,) = driver.requests()
        assert driver.complete(completion(request, APPROVED)) == "admitted"
        driver.advance(10 * MINUTE_MS)
        assert driver.complete(completion(request, APPROVED)) == "duplicate"
        assert driver.complete(completion(request, {"status": "DECLINED"})) == "conflict"


def test_deadlines_are_swept_though_one_turn_takes_few(tmp_path):
    """T44, T82: a turn sweeps at most sweep-limit of them, in order of deadline; the next turns take the rest."""
    settings = {"pipeline.orchestrator.sweep-limit": "2"}
    with open_driver(tmp_path, DECISION, settings=settings) as driver:
        for place in range(9):
            driver.submit({"orderId": f"o-{place}"})
            driver.advance(1)
        driver.advance(MINUTE_MS - 4)
        assert len(driver.pending()) == 4
        driver.advance(MINUTE_MS)
        assert driver.pending() == []
        assert {it.error_code for it in driver.executions()} == {"AWAIT_TIMEOUT"}


@pytest.mark.parametrize("crash", [False, True])
def test_an_early_answer_waits_for_its_row(tmp_path, crash):
    """T16: held with a verified token, admitted once when the row appears, also when the process was lost between."""
    steps = Steps()
    with open_driver(tmp_path, DECISION, steps) as driver:
        request = foreseen(driver, {"orderId": "o-1"}, "default")
        assert driver.complete(completion(request, APPROVED)) == "held"
        assert driver.complete(completion(request, {"status": "DECLINED"})) == "held"
        if crash:
            driver.crash()
        execution_id = driver.submit({"orderId": "o-1"})
        assert execution_id == request["executionId"]
        assert driver.execution(execution_id).status == "SUCCEEDED"
        assert steps.finished == [APPROVED]
        assert driver.complete(completion(request, APPROVED)) == "duplicate"


def test_an_early_answer_nobody_comes_for_expires(tmp_path):
    """T17: counted as not_found at its token's deadline; after it, an answer without a row is terminal."""
    with open_driver(tmp_path, DECISION) as driver:
        request = foreseen(driver, {"orderId": "o-1"}, "default")
        assert driver.complete(completion(request, APPROVED)) == "held"
        driver.advance(MINUTE_MS + 1)
        assert driver.tally.dropped == {"not_found": 1}
        assert driver.complete(completion(request, APPROVED)) == "terminal"


def test_an_answer_without_row_and_without_good_token_is_not_found(tmp_path):
    """No retry loop: told at once, counted, and the topic's reader goes on."""
    with open_driver(tmp_path, DECISION) as driver:
        request = foreseen(driver, {"orderId": "o-1"}, "default")
        for spoilt in ({**request, "resumeToken": None}, {**request, "resumeToken": "a.b"}):
            assert driver.complete(completion(spoilt, APPROVED)) == "not_found"
        foreign = {**request, "interactionId": "5f2c8e0a-0000-4000-8000-000000000000", "correlationId": None}
        assert driver.complete(completion(foreign, APPROVED)) == "not_found"
        driver.send(RESPONSES, completion(foreign, APPROVED))
        assert driver.dropped("not_found") == 4
        assert driver.dead_letters() == []

"""Redrive end to end: a failed file goes on where it failed, over crashes too (contract 0.14)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.topology.payments import DATA, open_payments, simulate
from tests.topology.test_csv_payments_failures import APPROVED
from tests.topology.test_restaurant_approval import ORDER, PIPELINE, decision
from topologies.csv_payments.steps import process_approved_payment_status
from tpf_streams.errors import TerminalError
from tpf_streams.testing import TopologyTestDriver

FILE = "payments_12.csv"


class Desk:
    """A step that refuses payment 3 until it is mended."""

    def __init__(self) -> None:
        self.broken = True
        self.calls: Counter[str] = Counter()

    def __call__(self, status: Any) -> Any:
        self.calls[status.payment_record.csv_id] += 1
        if self.broken and status.payment_record.csv_id == "3":
            raise TerminalError("no such currency desk", "NO_DESK")
        return process_approved_payment_status(status)


@pytest.mark.parametrize("crash", [False, True])
def test_a_file_whose_step_failed_asks_for_nothing_again(tmp_path, crash):
    """T94: every answer is kept, the outputs that there are stay, and the step runs for the one that has none."""
    desk = Desk()
    with open_payments(tmp_path, functions={APPROVED: desk}) as driver:
        simulate(driver)
        (execution_id,) = driver.submit_files(DATA / FILE)
        failed = driver.execution(execution_id)
        assert (failed.status, failed.error_code) == ("FAILED", "NO_DESK")
        asked, told = len(driver.requests()), len(driver.outputs())
        desk.broken = False
        desk.calls.clear()
        assert driver.redrive(execution_id, expected_version=failed.version) == "redriven"
        if crash:
            driver.crash()
        execution = driver.execution(execution_id)
        assert (execution.status, execution.generation) == ("SUCCEEDED", 1)
        assert execution.summary is not None
        assert (execution.summary.items, execution.summary.outputs, execution.summary.rejected_items) == (12, 12, 0)
        assert (len(driver.requests()), len(driver.outputs())) == (asked, told + 1)
        assert driver.rejects(execution_id) == []
        assert set(desk.calls) == {"3"}
        assert driver.redrive(execution_id) == "not_failed"
    lines = (tmp_path / "out" / f"{FILE}.out").read_text().splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == [str(n) for n in range(1, 13)]


@pytest.mark.parametrize("crash", [False, True])
def test_a_file_that_timed_out_asks_for_what_has_no_answer_under_new_ids(tmp_path, crash):
    """T29, T39: in a small window; items with an answer keep it, and the source goes on where it stood."""
    with open_payments(tmp_path, concurrency=3) as driver:
        (execution_id,) = driver.submit_files(DATA / FILE)
        requests = driver.requests()
        assert len(requests) == 3
        driver.advance(6 * 60_000)
        failed = driver.execution(execution_id)
        assert (failed.status, failed.error_code) == ("FAILED", "AWAIT_TIMEOUT")
        assert driver.redrive(execution_id) == "redriven"
        if crash:
            driver.crash()
        again = driver.requests()[3:]
        assert len(again) == 3
        assert [it["requestPayload"] for it in again] == [it["requestPayload"] for it in requests]
        keys = [[driver.interaction(it["interactionId"]).idempotency_key for it in sent] for sent in (requests, again)]
        assert keys[0] == keys[1]
        assert {it["interactionId"] for it in again}.isdisjoint(it["interactionId"] for it in requests)
        simulate(driver)
        execution = driver.execution(execution_id)
        assert (execution.status, execution.generation) == ("SUCCEEDED", 1)
        assert execution.summary is not None
        assert (execution.summary.items, execution.summary.outputs) == (12, 12)
        assert len(driver.outputs()) == 12


def test_an_order_that_nobody_decided_waits_once_more():
    with TopologyTestDriver(PIPELINE) as driver:
        execution_id = driver.submit(ORDER)
        (first,) = driver.pending()
        driver.advance(31 * 60_000)
        assert driver.execution(execution_id).error_code == "AWAIT_TIMEOUT"
        assert driver.redrive(execution_id) == "redriven"
        (second,) = driver.pending()
        assert (second.request_payload, second.idempotency_key) == (first.request_payload, first.idempotency_key)
        assert second.interaction_id != first.interaction_id
        assert driver.answer(first, decision(first, "accepted")) == "late"
        assert driver.answer(second, decision(second, "accepted")) == "admitted"
        assert driver.execution(execution_id).status == "SUCCEEDED"
        assert len(driver.outputs()) == 1


def test_what_an_operator_is_told():
    with TopologyTestDriver(PIPELINE) as driver:
        execution_id = driver.submit(ORDER)
        (row,) = driver.pending()
        assert driver.redrive(execution_id) == "not_failed"
        assert driver.cancel_interaction(row.interaction_id) == "cancelled"
        assert driver.cancel_interaction(row.interaction_id) == "terminal"
        assert driver.cancel_execution(execution_id) == "terminal"
        assert driver.execution(execution_id).error_code == "AWAIT_CANCELLED"
        nobody = execution_id[:-1] + ("0" if execution_id[-1] != "0" else "1")
        assert [driver.cancel_execution(nobody), driver.redrive(nobody)] == ["not_found", "not_found"]
        assert driver.redrive(execution_id, expected_version=1) == "version_mismatch"
        assert driver.redrive(execution_id, allow_failed=False) == "failed_not_allowed"
        assert driver.redrive(execution_id) == "redriven"

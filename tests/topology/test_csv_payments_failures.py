"""csv-payments when something fails: silent providers, steps that raise, a source that changes, lost commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.topology.payments import AWAIT, DATA, open_payments, read_rows, rejected, simulate, written
from topologies.csv_payments import provider as csv_provider
from topologies.csv_payments.domain import ApprovedPaymentStatus
from topologies.csv_payments.steps import process_approved_payment_status
from tpf_streams.errors import TerminalError
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.testing import ManualClock, TopologyTestDriver
from tpf_streams.testing.faults import FaultPlan, raising
from tpf_streams.testing.provider_options import ProviderOptions, falls

TIMEOUT_MS = 5 * 60_000
APPROVED = "Process Approved Payment Status"
REJECT_LATE = {"await.onItemTimeout": "REJECT_ITEM"}
SILENT = 0.3


def silent_ids(name: str) -> set[str]:
    """Rows whose payments the provider never answers, by the rule of contract 12.3."""
    return {row["ID"] for row in read_rows(DATA / name) if falls(row["ID"], "provider-timeout", SILENT)}


def test_late_items_are_rejected_where_the_pipeline_says_so(tmp_path):
    late = silent_ids("payments_1k.csv")
    assert 250 < len(late) < 350
    with open_payments(tmp_path, concurrency=400, settings=REJECT_LATE) as driver:
        simulate(driver, timeout=SILENT)
        (execution_id,) = driver.submit_files(DATA / "payments_1k.csv")
        assert len(driver.pending()) == len(late)
        driver.advance(TIMEOUT_MS + 1)
        execution, unit = driver.execution(execution_id), driver.unit(execution_id, AWAIT)
        assert execution.summary is not None and unit is not None
        assert (execution.status, execution.summary.rejected_items) == ("SUCCEEDED", len(late))
        assert (unit.status, unit.rejected_item_count) == ("COMPLETED", len(late))
        assert {driver.interaction(it["interactionId"]).status for it in driver.requests()} == {
            "COMPLETED",
            "TIMED_OUT",
        }
        request = next(it for it in driver.requests() if it["requestPayload"]["csvId"] in late)
        assert driver.answer(request, csv_provider.answer(request, ProviderOptions())) == "late"
    assert {row["CSV Id"] for row in written(tmp_path, "payments_1k.csv")} == {str(n) for n in range(1, 1_001)} - late
    reasons = [row["Reason"] for row in rejected(tmp_path, "payments_1k.csv")]
    assert len(reasons) == len(late) and all(it.startswith("AWAIT_TIMEOUT") for it in reasons)


def test_one_late_item_fails_the_unit_by_default(tmp_path):
    with open_payments(tmp_path) as driver:
        simulate(driver, timeout=SILENT)
        (execution_id,) = driver.submit_files(DATA / "payments_12.csv")
        open_ones = {it.interaction_id for it in driver.pending()}
        assert len(open_ones) == len(silent_ids("payments_12.csv")) > 1
        driver.advance(TIMEOUT_MS + 1)
        execution, unit = driver.execution(execution_id), driver.unit(execution_id, AWAIT)
        assert unit is not None
        assert (execution.status, execution.error_code) == ("FAILED", "AWAIT_TIMEOUT")
        assert unit.status == "TIMED_OUT"
        ended = [driver.interaction(it).status for it in open_ones]
        assert sorted(ended) == ["CANCELLED"] * (len(open_ones) - 1) + ["TIMED_OUT"]
        assert driver.pending() == []
        assert driver.metric("unit.terminal.total") == driver.metric("execution.terminal.total") == 1
        assert driver.application.environment.budgets.held(AWAIT) == 0
        assert not (tmp_path / "out" / "payments_12.csv.out").exists()


def test_a_step_that_raises_for_a_while_is_tried_again(tmp_path):
    """Inline first, for all twelve; then owed, with a pause before the next try."""
    step = raising(process_approved_payment_status, 20)
    with open_payments(tmp_path, functions={APPROVED: typed(step)}) as driver:
        simulate(driver)
        (execution_id,) = driver.submit_files(DATA / "payments_12.csv")
        assert driver.execution(execution_id).status == "RUNNING"
        driver.advance(60_000)
        assert driver.execution(execution_id).status == "SUCCEEDED"
        assert len(driver.outputs()) == 12


def typed(step: Any) -> Any:
    """With the annotations of the step it stands for."""

    def process(status: ApprovedPaymentStatus) -> Any:
        return step(status)

    return process


def test_a_step_that_goes_on_raising_fails_the_execution(tmp_path, capsys, caplog):
    """What is dispatched is still recorded; the traceback is in the record and not on the screen (contract 0.9)."""
    settings = {"pipeline.defaults.retry-limit": "2"}
    calls: list[str] = []

    def process(status: ApprovedPaymentStatus) -> Any:
        calls.append(status.payment_record.csv_id)
        if status.payment_record.csv_id == "3":
            raise ValueError("no such currency desk")
        return process_approved_payment_status(status)

    with open_payments(tmp_path, functions={APPROVED: process}, settings=settings) as driver:
        simulate(driver)
        (execution_id,) = driver.submit_files(DATA / "payments_12.csv")
        driver.advance(60_000)
        execution, unit = driver.execution(execution_id), driver.unit(execution_id, AWAIT)
        assert unit is not None
        assert (execution.status, execution.error_code) == ("FAILED", "ValueError")
        assert execution.error_message == "no such currency desk"
        assert "Traceback" in (execution.error_detail or "")
        assert "in process" in (execution.error_detail or "")
        assert calls.count("3") >= 3
        assert {driver.interaction(it["interactionId"]).status for it in driver.requests()} == {"COMPLETED"}
        assert len(driver.results(execution_id)) == 12
        assert "Traceback" not in capsys.readouterr().out + caplog.text


def test_a_step_that_goes_on_raising_rejects_the_item_where_the_pipeline_says_so(tmp_path):
    def process(status: ApprovedPaymentStatus) -> Any:
        if status.payment_record.csv_id == "3":
            raise TerminalError("no such currency desk", "NO_DESK")
        return process_approved_payment_status(status)

    with open_payments(tmp_path, functions={APPROVED: process}, settings={"onItemFailure": "REJECT_ITEM"}) as driver:
        simulate(driver)
        (execution_id,) = driver.submit_files(DATA / "payments_12.csv")
        execution = driver.execution(execution_id)
        assert execution.summary is not None
        assert (execution.status, execution.summary.outputs, execution.summary.rejected_items) == ("SUCCEEDED", 11, 1)
    assert [row["Reason"] for row in rejected(tmp_path, "payments_12.csv")] == ["NO_DESK: no such currency desk"]


def test_a_source_that_changes_finishes_what_it_dispatched(tmp_path):
    """Contract 0.15: items already dispatched are finished and published, the rest is reported, FAILED."""
    file = tmp_path / "in.csv"
    rows = (DATA / "payments_12.csv").read_bytes()
    file.write_bytes(rows)
    with open_payments(tmp_path, concurrency=5) as driver:
        (execution_id,) = driver.submit_files(file)
        assert len(driver.requests()) == 5
        driver.stop()
        file.write_bytes(rows.replace(b"EUR", b"USD").replace(b"AUD", b"USD"))
        driver.start()
        simulate(driver)
        execution = driver.execution(execution_id)
        assert (execution.status, execution.error_code) == ("FAILED", "SOURCE_CHANGED")
        assert len(driver.requests()) == len(driver.outputs()) == 5
        assert execution.published == "in.csv.out"
    assert [row["CSV Id"] for row in written(tmp_path, "in.csv")] == ["1", "2", "3", "4", "5"]


def test_a_source_that_is_the_same_goes_on_where_it_was(tmp_path):
    with open_payments(tmp_path, concurrency=5) as driver:
        (execution_id,) = driver.submit_files(DATA / "payments_12.csv")
        before = driver.requests()
        for _ in range(3):
            driver.crash()
        assert driver.requests() == before
        simulate(driver)
        assert driver.execution(execution_id).status == "SUCCEEDED"
        assert len({it["interactionId"] for it in driver.requests()}) == len(driver.requests()) == 12


@pytest.mark.parametrize("seed", range(4))
def test_commits_of_unknown_outcome_lose_and_double_nothing(tmp_path, seed):
    """Half of the commits raise, and half of these hold: whoever cannot know decides again from the rows."""
    plan, clock = FaultPlan(seed, not_held=0.25, held=0.25), ManualClock()
    log = MemoryLog(application_id="csv-payments", partitions=2, clock=clock, faults=plan)
    with open_payments(tmp_path, concurrency=10, clock=clock, log=log) as driver:
        simulate(driver, reject=0.08, permits_per_second=100, duplicates=0.2, seed=seed)
        (execution_id,) = driver.submit_files(DATA / "payments_12.csv")
        driver.advance(2_000)
        plan.stop()
        driver.advance(2_000)
        assert len(plan.counts) == 2
        assert_each_once(driver, execution_id, tmp_path)


def assert_each_once(driver: TopologyTestDriver, execution_id: str, folder: Path) -> None:
    execution = driver.execution(execution_id)
    assert execution.summary is not None
    assert (execution.status, execution.summary.by_arm) == ("SUCCEEDED", {"approved": 4, "unapproved": 8})
    assert sorted(it["itemIndex"] for it in driver.outputs()) == list(range(12))
    assert len({it["interactionId"] for it in driver.requests()}) == len(driver.requests()) == 12
    assert [row["CSV Id"] for row in written(folder, "payments_12.csv")] == [str(n) for n in range(1, 13)]

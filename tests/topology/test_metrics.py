"""Scrapes beside the facts they count: exact where nothing is lost, and never above what became true."""

from __future__ import annotations

import pytest

from tests.topology.payments import DATA, RESPONSES, open_payments, simulate
from tests.topology.scrapes import Scrape, told

STEP = "ProcessAwaitPaymentProviderService"
S = {"tpf_await_step_id": STEP, "tpf_await_transport": "kafka"}
UNIT = {**S, "tpf_await_cardinality": "ONE_TO_ONE"}
PER_ITEM = ("interaction.created", "interaction.dispatched", "completion.admitted", "item.completed", "live.handoff")


def test_a_scrape_is_the_facts_of_a_thousand_payments(tmp_path):
    with open_payments(tmp_path, concurrency=250) as driver:
        simulate(driver, delay_ms=20)
        driver.submit_files(DATA / "payments_1k.csv")
        driver.advance(3_000)
        found = Scrape(driver.scrape())
        assert found.facts() == told(driver.tally.facts)
        assert len(driver.outputs()) == 1_000
    assert [found.total(f"{name}.total") for name in PER_ITEM] == [1_000] * 5
    assert found.total("admission.outcomes.total", admission_outcome="acquired") == 1_000
    assert found.total("admission.outcomes.total", admission_outcome="released") == 1_000
    assert found.total("completion.latency.count") == 1_000
    assert found.total("completion.latency.sum") == 20 * 1_000
    assert found.labels("completion.admitted.total") == [{**S, "tpf_await_status": "COMPLETED"}]
    assert found.labels("item.completed.total") == [{**UNIT, "tpf_await_status": "COMPLETED"}]
    assert found.labels("unit.terminal.total") == [{**UNIT, "tpf_await_status": "COMPLETED"}]
    assert found.labels("unit.duration.count") == [{**UNIT, "tpf_await_status": "COMPLETED"}]


def test_crashes_never_count_a_fact_twice(tmp_path):
    """What a crash swallows may be missing; rows and topics say how much there is at most."""
    with open_payments(tmp_path, concurrency=50) as driver:
        simulate(driver, delay_ms=20, duplicates=0.1)
        driver.submit_files(DATA / "payments_1k.csv")
        for _ in range(5):
            driver.advance(60)
            driver.crash()
        driver.advance(5_000)
        found = Scrape(driver.scrape())
        assert len(driver.outputs()) == 1_000
        interactions = {request["interactionId"] for request in driver.requests()}
    for name in ("interaction.created", "interaction.dispatched", "completion.admitted", "item.completed"):
        assert 0 < found.total(f"{name}.total") <= len(interactions) == 1_000, name
    assert found.total("unit.terminal.total") == found.total("execution.terminal.total") == 1
    assert found.total("admission.outcomes.total", admission_outcome="acquired") <= 1_000
    assert found.total("admission.outcomes.total", admission_outcome="reconciled") > 0


def test_drops_and_dead_letters_by_reason(tmp_path):
    with open_payments(tmp_path) as driver:
        driver.submit_files(DATA / "payments_12.csv")
        first = driver.requests()[0]
        assert driver.answer(first, {"neither": {}}) == "invalid_payload"
        assert driver.answer({**first, "tenantId": "someone else"}, {"neither": {}}) == "tenant_mismatch"
        driver.send(RESPONSES, b"{")
        found = Scrape(driver.scrape())
    dropped = found.labels("completion.dropped.total")
    assert {it["tpf_await_completion_reason"] for it in dropped} == {
        "invalid_payload",
        "tenant_mismatch",
        "invalid_envelope",
    }
    assert {name for it in dropped for name in it} == {"tpf_await_transport", "tpf_await_completion_reason"}
    letters = {it["tpf_await_completion_reason"] for it in found.labels("dead_letter.total")}
    assert letters == {"invalid_payload", "not JSON"}


@pytest.mark.parametrize("key", ["pipeline.telemetry.enabled", "pipeline.telemetry.metrics.enabled"])
def test_metrics_may_be_switched_off(tmp_path, key):
    with open_payments(tmp_path, settings={key: "false"}) as driver:
        assert driver.scrape() == ""


def test_what_is_in_use_while_the_window_is_full(tmp_path):
    """Ten of twelve in flight: the window is full, its slots are held, the source waits."""
    with open_payments(tmp_path, concurrency=10) as driver:
        driver.submit_files(DATA / "payments_12.csv")
        driver.advance(4_000)
        found = Scrape(driver.scrape())
        assert found.value("tpf_window_in_flight") == found.value("tpf_window_size") == 10
        assert found.total("admission.pending") == 10
        assert found.value("tpf_source_paused_seconds_total") == 4
        assert (found.value("tpf_tasks_open"), found.value("tpf_tasks_assigned")) == (1, 1)
        assert found.value("tpf_turn_events_sum") > 0
        assert found.value("tpf_turn_seconds_count") >= found.value("tpf_commit_seconds_count") > 0
        simulate(driver)
        driver.advance(1_000)
        found = Scrape(driver.scrape())
        assert found.value("tpf_window_in_flight") == found.total("admission.pending") == 0
        assert found.value("tpf_lag_records") == 0


def test_two_files_and_one_budget_show_who_waits(tmp_path):
    rows = (DATA / "payments_12.csv").read_text(encoding="utf-8")
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(rows, encoding="utf-8")
    with open_payments(tmp_path, concurrency=10) as driver:
        simulate(driver, delay_ms=100)
        driver.submit_files(tmp_path / "a.csv", tmp_path / "b.csv")
        driver.advance(3_000)
        found = Scrape(driver.scrape())
        assert len(driver.outputs()) == 24
    waited = found.total("admission.outcomes.total", admission_outcome="waited")
    assert 0 < found.total("admission.wait.count") <= waited
    assert found.total("admission.wait.sum") >= 100, "in milliseconds"
    assert found.total("admission.outcomes.total", admission_outcome="acquired") == 24

"""Field cases O12, O15, O19 to O22 and O24: whole files through csv-payments, from input file to output file."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.field.declining import declines_every_seventh, is_declined
from tests.field.pipelines import DATA
from tests.topology.payments import AWAIT, RESPONSES, open_payments, rejected, simulate, written
from tests.topology.scrapes import Scrape, prometheus_name
from tpf_streams.runtime.build import build
from tpf_streams.testing import TopologyTestDriver


def expectation(case: str) -> Any:
    return json.loads((DATA / f"{case}.expect.json").read_text(encoding="utf-8"))


def run_file(folder: Path, name: str) -> TopologyTestDriver:
    """One file of the cases, run to its end."""
    driver = open_payments(folder)
    simulate(driver)
    driver.submit_files(DATA / name)
    return driver


def advance_until(driver: TopologyTestDriver, outputs: int) -> None:
    """Let time pass until there are so many outputs."""
    for _ in range(10_000):
        if len(driver.read_topic(driver.definition.output_topic)) >= outputs:
            return
        driver.advance(10)
    raise AssertionError(f"only {len(driver.outputs())} outputs")


@pytest.mark.parametrize("key", ["none", "constant", "correlation"])
def test_o12_answers_on_any_partition_reach_their_execution(tmp_path, key):
    """Right: keys are not needed for correctness. Four partitions, the owner lost half way: 40 rows, each once, and no
    answer is taken for unknown. (Two workers and SIGKILL: tests/e2e.)"""
    with open_payments(tmp_path, partitions=4) as driver:
        simulate(driver, key=key, delay_ms=20, permits_per_second=100)
        (execution_id,) = driver.submit_files(DATA / "O12.payments.csv")
        advance_until(driver, 20)
        assert len(driver.outputs()) < 40
        driver.crash()
        driver.advance(2_000)
        assert driver.execution(execution_id).status == "SUCCEEDED"
        assert [row["CSV Id"] for row in written(tmp_path, "O12.payments.csv")] == [str(n) for n in range(1, 41)]
        assert Counter(it["payload"]["csvId"] for it in driver.outputs()) == Counter(str(n) for n in range(1, 41))
        assert driver.tally.dropped == {}
        partitions = {record.partition for record in driver.read_topic(RESPONSES)}
        assert len(partitions) == (4 if key == "correlation" else 1)


def assert_600_rows(driver: TopologyTestDriver, folder: Path) -> None:
    ids = [str(number) for number in range(1, 601)]
    assert [row["CSV Id"] for row in written(folder, "O15.payments.csv")] == ids
    assert Counter(it["payload"]["csvId"] for it in driver.outputs()) == Counter(ids)
    for it in driver.outputs():
        assert it["arm"] == ("unapproved" if is_declined(it["payload"]["csvId"]) else "approved")
    counters = expectation("O24")["counters"]
    assert {name: driver.metric(name) for name in counters} == counters


def test_o15_four_crashes_in_one_run(tmp_path):
    """Right: lost at 10, 50 and 95 % of the outputs and once while it restores: 600 rows, each once, the unit terminal
    once, nothing pending, and the counts of distinct items equal 600."""
    with open_payments(tmp_path, concurrency=50) as driver:
        provider = simulate(driver, builder=declines_every_seventh, delay_ms=20, permits_per_second=280)
        (execution_id,) = driver.submit_files(DATA / "O15.payments.csv")
        for outputs in (60, 300, 570):
            advance_until(driver, outputs)
            assert len(driver.outputs()) < 600
            driver.stop()
            driver.advance(3_000)
            driver.start()
        driver.stop()
        restoring = build(driver.loaded, driver.log, driver.clock)
        asyncio.run(restoring.open())
        driver.stop()
        driver.start()
        driver.advance(10_000)
        assert driver.execution(execution_id).status == "SUCCEEDED"
        assert provider.open_max <= 50
        assert driver.pending() == []
        assert_600_rows(driver, tmp_path)


def test_o24_a_scrape_of_a_600_item_run(tmp_path):
    """Right: few series, ids in none of them, latency readable in its stated unit, counters equal to the facts."""
    expect = expectation("O24")
    with open_payments(tmp_path, concurrency=50) as driver:
        simulate(driver, builder=declines_every_seventh, delay_ms=expect["latency"]["provider_delay_ms"])
        began = driver.clock.now_ms()
        driver.submit_files(DATA / "O15.payments.csv")
        driver.advance(3_000)
        assert_600_rows(driver, tmp_path)
        assert driver.clock.now_ms() - began == 12 * 250
        found = Scrape(driver.scrape())
        ids = {request[name] for request in driver.requests() for name in ("executionId", "interactionId")}
        recipients = {request["requestPayload"]["recipient"] for request in driver.requests()}
    for family in found.families.values():
        assert len(family.samples) <= expect["series_per_metric_max"], family.name
        for sample in family.samples:
            assert not sample.labels.keys() & set(expect["forbidden_label_names"])
            assert not set(sample.labels.values()) & (ids | recipients)
            assert not [value for value in sample.labels.values() if re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", value)]
    assert {name: found.total(name) for name in expect["counters"]} == expect["counters"]
    latency = expect["latency"]
    assert "milliseconds" in found.families[prometheus_name(latency["metric"])].documentation
    low_s, high_s = latency["p50_must_lie_between_seconds"]
    assert low_s <= found.quantile(latency["metric"], 0.5) / 1000 <= high_s
    assert found.overflow_share(latency["metric"]) <= latency["overflow_bucket_share_max"]


def test_o19_a_file_saved_by_a_spreadsheet(tmp_path):
    """Right: three items, the first column known behind its mark, nothing dispatched for blank and comma-only rows."""
    expect = expectation("O19")
    with run_file(tmp_path, "O19.payments.csv") as driver:
        (execution,) = driver.executions()
        requests = [it["requestPayload"] for it in driver.requests()]
        assert [{name: it[name] for name in expect["items"][0]} for it in requests] == expect["items"]
        assert execution.summary is not None
        assert (execution.status, execution.summary.rejected_rows) == ("SUCCEEDED", expect["rejected"])
        unit = driver.unit(execution.execution_id, AWAIT)
        assert unit is not None and unit.expected_item_count == expect["expected_item_count"]
        rows = written(tmp_path, "O19.payments.csv")
        assert [row["Recipient"] for row in rows] == [it["recipient"] for it in expect["items"]]


def test_o20_line_ends_inside_quotes(tmp_path):
    """Right: five items with the exact names; reading the output file again gives the same names."""
    expect = expectation("O20")
    with run_file(tmp_path, "O20.payments.csv") as driver:
        assert [it["requestPayload"]["recipient"] for it in driver.requests()] == expect["recipients"]
        assert [row["Recipient"] for row in written(tmp_path, "O20.payments.csv")] == expect["recipients"]
        assert len(driver.outputs()) == expect["items"]
        assert not (tmp_path / "out" / "O20.payments.csv.out.rejected.csv").exists()


def test_o21_amounts_from_file_to_file(tmp_path):
    """Right: exact decimals from file to request to answer to output, the rest refused by row with its raw text.
    Section 0 wins twice (0.15, 0.16): row 2, `5,047.29`, is refused, for only the plain form is read; row 16, `0.1`,
    keeps its spelling, for amounts are written as read."""
    expect = expectation("O21")
    del expect["accepted"]["2"]
    with run_file(tmp_path, "O21.payments.csv") as driver:
        requests = {it["requestPayload"]["csvId"]: it["requestPayload"]["amount"] for it in driver.requests()}
        rows = {row["CSV Id"]: row["Amount"] for row in written(tmp_path, "O21.payments.csv")}
        outputs = {it["payload"]["csvId"]: it["payload"]["amount"] for it in driver.outputs()}
        assert requests == rows == outputs
        assert {key: Decimal(it) for key, it in rows.items()} == {
            key: Decimal(it) for key, it in expect["accepted"].items()
        }
        assert rows["16"] == "0.1"
        refused = {row["Raw"].partition(",")[0]: row for row in rejected(tmp_path, "O21.payments.csv")}
        assert set(refused) == {"2", *expect["rejected_or_declared"]}
        assert all(row["Line"] == str(int(key) + 1) and row["Reason"] for key, row in refused.items())
        for key, never in expect["never"].items():
            assert rows.get(key) not in never


def test_o22_rows_that_look_the_same(tmp_path):
    """Right: every row of every execution has its own interaction, answer and output; equal rows carry equal
    idempotency keys, which merge nothing (0.7). The same file again is the same execution."""
    expect = expectation("O22")
    with open_payments(tmp_path) as driver:
        (first,) = driver.submit_files(DATA / "O22.file_a.csv")
        (second,) = driver.submit_files(DATA / "O22.file_b.csv")
        requests = driver.requests()
        assert len({it["interactionId"] for it in requests}) == len(requests)
        by_file = Counter(it["executionId"] for it in requests)
        assert by_file == {
            first: expect["file_a"]["items"],
            second: expect["file_b_while_a_is_open"]["items"],
        }
        keys = [it["transportMetadata"]["idempotencyKey"].rpartition(":item=")[0] for it in requests]
        assert keys[0] == keys[1] == keys[4]
        assert len(set(keys)) == 4
        assert driver.submit_files(DATA / "O22.file_a.csv") == [first]
        assert len(driver.requests()) == len(requests)

        simulate(driver)
        assert {driver.execution(it).status for it in (first, second)} == {"SUCCEEDED"}
        assert [row["CSV Id"] for row in written(tmp_path, "O22.file_a.csv")] == ["1", "1", "2", "3"]
        assert [row["CSV Id"] for row in written(tmp_path, "O22.file_b.csv")] == ["1", "4"]
        assert driver.submit_files(DATA / "O22.file_a.csv") == [first]
        assert (len(driver.requests()), len(driver.outputs())) == (6, 6)


def test_o22_amounts_that_are_spelt_differently_have_one_business_key(tmp_path):
    """12.5 and 12.50 give the same key, and each keeps its spelling in request and output."""
    file = tmp_path / "spelt.csv"
    file.write_text("ID,Recipient,Amount,Currency\n1,Canteen,12.5,EUR\n1,Canteen,12.50,EUR\n", encoding="utf-8")
    with open_payments(tmp_path) as driver:
        simulate(driver)
        driver.submit_files(file)
        keys = {it["transportMetadata"]["idempotencyKey"].rpartition(":item=")[0] for it in driver.requests()}
        assert len(keys) == 1
        assert [row["Amount"] for row in written(tmp_path, "spelt.csv")] == ["12.5", "12.50"]

"""csv-payments under way: the window, the budget, demand, order, and a session that ends before its stream does."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.topology.payments import AWAIT, DATA, open_payments, read_rows, simulate, written
from topologies.csv_payments import provider as csv_provider
from topologies.csv_payments.domain import CsvPaymentsInputFile, PaymentRecord
from topologies.csv_payments.steps import process_csv_payments_input
from tpf_streams.core.context import StepContext
from tpf_streams.core.step import ItemReject, Json
from tpf_streams.testing import TopologyTestDriver
from tpf_streams.testing.provider_options import ProviderOptions

SOURCE = "Process Csv Payments Input"
Element = PaymentRecord | ItemReject


def approve(request: dict[str, Any]) -> Json:
    return csv_provider.answer(request, ProviderOptions())


def test_the_window_is_filled_and_never_passed(tmp_path):
    with open_payments(tmp_path, concurrency=250) as driver:
        provider = simulate(driver, delay_ms=200)
        driver.submit_files(DATA / "payments_1k.csv")
        assert provider.open_count == 250
        driver.advance(1_000)
        assert 240 <= provider.open_max <= 250
        assert len(written(tmp_path, "payments_1k.csv")) == 1_000


def test_three_files_share_one_budget(tmp_path):
    """Never more open at the provider than one file alone may have; none starves; all come right."""
    rows = (DATA / "payments_1k.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    names = ["a.csv", "b.csv", "c.csv"]
    for place, name in enumerate(names):
        (tmp_path / name).write_text(rows[0] + "".join(rows[1 + place * 200 : 201 + place * 200]), encoding="utf-8")
    with open_payments(tmp_path, concurrency=60, partitions=4) as driver:
        provider = simulate(driver, delay_ms=200)
        ids = driver.submit_files(*(tmp_path / name for name in names))
        open_by_file = [sum(it.execution_id == one for it in driver.pending()) for one in ids]
        assert sum(open_by_file) == provider.open_count == 60
        for _ in range(20):
            driver.advance(200)
            assert len(driver.pending()) == provider.open_count <= 60
            open_by_file = [
                max(was, sum(it.execution_id == one for it in driver.pending()))
                for was, one in zip(open_by_file, ids, strict=True)
            ]
        assert min(open_by_file) > 0
        assert provider.open_max == 60
        assert [driver.execution(one).status for one in ids] == ["SUCCEEDED"] * 3
        assert driver.application.environment.budgets.held(AWAIT) == 0
    for name in names:
        assert [line["CSV Id"] for line in written(tmp_path, name)] == [row["ID"] for row in read_rows(tmp_path / name)]


def test_without_demand_the_source_is_read_no_further_than_window_and_one(tmp_path):
    read = 0

    def counted(file: CsvPaymentsInputFile, context: StepContext) -> Iterator[Element]:
        nonlocal read
        for element in process_csv_payments_input(file, context):
            read += 1
            yield element

    with open_payments(tmp_path, concurrency=20, functions={SOURCE: counted}) as driver:
        driver.hold_demand()
        simulate(driver)
        (execution_id,) = driver.submit_files(DATA / "payments_1k.csv")
        driver.advance(60_000)
        assert 20 <= read <= 21
        assert (driver.metric("completion.admitted.total"), driver.outputs()) == (20, [])
        driver.request(5)
        assert len(driver.outputs()) == 5
        assert read <= 26
        driver.request(math.inf)
        assert driver.execution(execution_id).status == "SUCCEEDED"
        assert read in (1_000, 1_001)


def test_sequential_keeps_source_order_with_a_window_of_one(tmp_path):
    settings = {"pipeline.parallelism": "SEQUENTIAL"}
    with open_payments(tmp_path, concurrency=250, settings=settings) as driver:
        provider = simulate(driver, delay_ms=10)
        driver.submit_files(DATA / "payments_12.csv")
        driver.advance(1_000)
        assert provider.open_max == 1
        assert [it["itemIndex"] for it in driver.outputs()] == list(range(12))


def test_outputs_come_in_the_order_of_their_answers_and_the_file_in_item_order(tmp_path):
    with open_payments(tmp_path) as driver:
        driver.submit_files(DATA / "payments_12.csv")
        for request in reversed(driver.requests()):
            assert driver.answer(request, approve(request)) == "admitted"
        assert [it["itemIndex"] for it in driver.outputs()] == list(reversed(range(12)))
        assert [it["CSV Id"] for it in written(tmp_path, "payments_12.csv")] == [str(n) for n in range(1, 13)]


def gated(gate: asyncio.Event, first: int) -> Any:
    """The rows of the file; after the `first` ones the source waits for the gate."""

    async def source(file: CsvPaymentsInputFile, context: StepContext) -> AsyncIterator[Element]:
        for place, element in enumerate(process_csv_payments_input(file, context)):
            if place == first:
                await gate.wait()
            yield element

    return source


def test_a_cancelled_session_goes_on_behind_four_gates(tmp_path):
    """1 dispatch complete, 2 parked on the unit, 3 recorded, 4 only then continued: an answer before that is held.

    Without a budget, so that nothing but the gates holds anything back."""
    gate = asyncio.Event()
    settings = {"pipeline.await-admission.enabled": "false"}
    with open_payments(tmp_path, concurrency=4, functions={SOURCE: gated(gate, 4)}, settings=settings) as driver:
        (execution_id,) = driver.submit_files(DATA / "payments_12.csv")
        assert len(driver.requests()) == 4
        live, *held = driver.requests()
        driver.answer(live, approve(live))
        assert len(driver.outputs()) == 1

        driver.cancel_session(execution_id)
        for request in held:
            assert driver.answer(request, approve(request)) == "admitted"
        assert [driver.interaction(it["interactionId"]).status for it in held] == ["COMPLETED"] * 3
        assert (len(driver.outputs()), driver.metric("completion.early_held.total")) == (1, 3)
        assert driver.execution(execution_id).status == "RUNNING"

        gate.set()
        driver.run()
        assert len(driver.outputs()) == 4
        execution, unit = driver.execution(execution_id), driver.unit(execution_id, AWAIT)
        assert unit is not None
        assert (execution.status, execution.await_unit_id) == ("WAITING_EXTERNAL", unit.unit_id)
        assert (unit.dispatch_complete, unit.expected_item_count, unit.completed_item_count) == (True, 12, 4)

        for request in driver.requests()[4:]:
            assert driver.answer(request, approve(request)) == "admitted"
        assert_all_12(driver, execution_id)
        assert driver.metric("live.handoff.total") == 1
        assert driver.metric("resume.released.total") == 11
    assert [it["CSV Id"] for it in written(tmp_path, "payments_12.csv")] == [str(n) for n in range(1, 13)]


@pytest.mark.parametrize("crash_first", [False, True])
def test_a_cancelled_session_survives_a_crash(tmp_path, crash_first):
    """The budget holds on the durable path too, where a slot goes back with the answer."""
    with open_payments(tmp_path, concurrency=4) as driver:
        (execution_id,) = driver.submit_files(DATA / "payments_12.csv")
        if crash_first:
            driver.crash()
        driver.cancel_session(execution_id)
        for place in range(12):
            request = driver.requests()[place]
            assert driver.answer(request, approve(request)) == "admitted"
            assert len(driver.pending()) <= 4
            if place % 5 == 0:
                driver.crash()
        assert_all_12(driver, execution_id)


def assert_all_12(driver: TopologyTestDriver, execution_id: str) -> None:
    execution = driver.execution(execution_id)
    assert execution.summary is not None
    assert (execution.status, execution.summary.outputs, len(driver.requests())) == ("SUCCEEDED", 12, 12)
    assert sorted(it["itemIndex"] for it in driver.outputs()) == list(range(12))
    assert driver.metric("unit.terminal.total") == 1


def test_equal_rows_have_equal_keys_and_ids_of_their_own_and_a_repeat_keeps_both(tmp_path):
    """Two real payments that look the same: one business key, two interactions; after a crash the session goes on at
    its committed position, so nothing is dispatched again, and each request was the same bytes."""
    file = tmp_path / "twins.csv"
    file.write_text("ID,Recipient,Amount,Currency\n" + "1,Canteen,12.50,EUR\n" * 6, encoding="utf-8")
    with open_payments(tmp_path, concurrency=2) as driver:
        (execution_id,) = driver.submit_files(file)
        first = driver.requests()
        assert len(first) == 2
        driver.crash()
        assert driver.requests() == first
        simulate(driver)
        requests = driver.requests()
        keys = [it["transportMetadata"]["idempotencyKey"] for it in requests]
        assert {key.rpartition(":item=")[0] for key in keys} == {keys[0].rpartition(":item=")[0]}
        assert [key.rpartition(":item=")[2] for key in keys] == [str(n) for n in range(6)]
        for name in ("interactionId", "correlationId"):
            assert len({it[name] for it in requests}) == 6
        assert len({it["requestPayload"]["id"] for it in requests}) == 1
        assert driver.execution(execution_id).status == "SUCCEEDED"
        assert len(written(tmp_path, "twins.csv")) == 6

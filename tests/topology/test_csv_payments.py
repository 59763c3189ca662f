"""csv-payments: which rows become which lines, and what happens to files that are not as they should be."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from tests.topology.payments import AWAIT, DATA, HEADER, open_payments, read_rows, rejected, simulate, written
from topologies.csv_payments.provider import name_uuid
from tpf_streams.connectors.csv_writer import strip_guard
from tpf_streams.core.execution import ExecutionRecord

HEAD = b"ID,Recipient,Amount,Currency\n"


def run_bytes(folder: Path, content: bytes, **settings: str) -> tuple[ExecutionRecord, int]:
    """A file of `content` to its end; -> its execution, and how many requests it made."""
    file = folder / "in.csv"
    file.write_bytes(content)
    with open_payments(folder, settings=settings) as driver:
        simulate(driver)
        (execution_id,) = driver.submit_files(file)
        return driver.execution(execution_id), len(driver.requests())


@pytest.mark.parametrize(
    ("name", "approved", "unapproved"),
    [("payments_12.csv", 4, 8), ("payments_1k.csv", 907, 93), ("payments_10k.csv", 9_170, 830)],
)
def test_a_file_comes_back_as_a_file_of_outcomes(tmp_path, name, approved, unapproved):
    with open_payments(tmp_path) as driver:
        provider = simulate(driver, reject=0.08)
        (execution_id,) = driver.submit_files(DATA / name)
        execution, unit = driver.execution(execution_id), driver.unit(execution_id, AWAIT)
        assert execution.summary is not None and unit is not None
        assert (execution.status, execution.published) == ("SUCCEEDED", f"{name}.out")
        assert execution.summary.by_arm == {"approved": approved, "unapproved": unapproved}
        assert (unit.status, unit.completed_item_count) == ("COMPLETED", approved + unapproved)
        assert provider.open_max <= 250
    given, lines = read_rows(DATA / name), written(tmp_path, name)
    assert [
        {"ID": it["CSV Id"], "Recipient": it["Recipient"], "Amount": it["Amount"], "Currency": it["Currency"]}
        for it in lines
    ] == given
    assert sum(line["Message"] == "Mock response" for line in lines) == approved
    assert {(line["Status"], line["Fee"]) for line in lines} == {("1000", "1.01")}
    assert len({line["Reference"] for line in lines}) == len(lines)


def test_ids_and_amounts_on_the_wire_are_those_of_the_row(tmp_path):
    """The payment id is a function of the row (contract 12.3), the conversation id of the payment."""
    with open_payments(tmp_path) as driver:
        simulate(driver)
        driver.submit_files(DATA / "payments_12.csv")
        for row, request, output in zip(
            read_rows(DATA / "payments_12.csv"), driver.requests(), driver.outputs(), strict=True
        ):
            payment = request["requestPayload"]
            plain = format(Decimal(row["Amount"]).normalize(), "f")
            source = f"PaymentRecord|payments_12.csv|{row['ID']}|{row['Recipient']}|{plain}|{row['Currency']}"
            assert payment["id"] == name_uuid(source)
            assert payment["amount"] == row["Amount"]
            assert output["payload"]["conversationId"] == name_uuid(f"conversation|{payment['id']}")


def test_cells_that_a_spreadsheet_would_run_are_guarded(tmp_path):
    """Text cells get a leading quote, amounts never; who compares strips it (contract 0.16)."""
    content = HEAD + b'=1,"=HYPERLINK(1)",1.00,EUR\n2, @sum,2.50,EUR\n3,-1+1,3,EUR\n4,plain,4.5,EUR\n'
    execution, _ = run_bytes(tmp_path, content)
    assert execution.status == "SUCCEEDED"
    lines = written(tmp_path, "in.csv")
    assert [line["Recipient"] for line in lines] == ["'=HYPERLINK(1)", "'@sum", "'-1+1", "plain"]
    assert [strip_guard(line["CSV Id"]) for line in lines] == ["=1", "2", "3", "4"]
    assert [line["Amount"] for line in lines] == ["1.00", "2.50", "3", "4.5"]


MIXED = HEAD + b"1,a,1.00,EUR\n2,b,EUR\n3,c\x00,3,EUR\n4,\xff,4,EUR\n5,e,5,eur\n,f,6,EUR\n7,,7,EUR\n8,h,8.00,EUR\n"


def test_bad_rows_are_rejected_and_the_rest_is_paid(tmp_path):
    execution, requests = run_bytes(tmp_path, MIXED)
    assert execution.summary is not None
    assert (execution.status, execution.summary.rejected_rows, requests) == ("SUCCEEDED", 6, 2)
    assert [line["CSV Id"] for line in written(tmp_path, "in.csv")] == ["1", "8"]
    rejects = rejected(tmp_path, "in.csv")
    assert [(it["Line"], it["Column"]) for it in rejects] == [
        ("3", ""),
        ("4", "Recipient"),
        ("5", "Recipient"),
        ("6", "Currency"),
        ("7", "ID"),
        ("8", "Recipient"),
    ]
    assert all(it["File"] == "in.csv" and it["Reason"] and it["Raw"] for it in rejects)


def test_fail_file_stops_before_the_first_dispatch(tmp_path):
    execution, requests = run_bytes(tmp_path, MIXED, onRowError="FAIL_FILE")
    assert (execution.status, execution.error_code, requests) == ("FAILED", "ROW_REJECTED", 0)
    assert "in.csv:3" in (execution.error_message or "")
    assert not (tmp_path / "out" / "in.csv.out").exists()


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", 1),
        (b"\r\n \n", 1),
        (b"ID,Recipient,Amount\n1,a,1.00\n", 1),
        (b"ID,Recipient,Amount,Currency,ID\n1,a,1.00,EUR,1\n", 1),
        (HEAD + b'1,a,1.00,EUR\n2,"b,2.00,EUR\n', 3),
    ],
    ids=["empty", "blank", "missing-column", "repeated-column", "unclosed-quote"],
)
def test_a_broken_file_dispatches_nothing(tmp_path, content, line):
    execution, requests = run_bytes(tmp_path, content)
    assert (execution.status, execution.error_code, requests) == ("FAILED", "CSV_STRUCTURE", 0)
    assert (execution.error_message or "").startswith(f"in.csv:{line}: ")


@pytest.mark.parametrize("crash", [False, True])
def test_a_file_of_a_header_alone_gives_a_file_of_a_header_alone(tmp_path, crash):
    """R14, R23: the unit without items is complete by the end of its source, in this life or the next."""
    (tmp_path / "in.csv").write_bytes(HEAD)
    with open_payments(tmp_path) as driver:
        if crash:
            driver.stop()
        driver.submit_files(tmp_path / "in.csv")
        if crash:
            driver.start()
        (execution,) = driver.executions()
        unit = driver.unit(execution.execution_id, AWAIT)
        assert unit is not None
        assert (unit.status, unit.expected_item_count, unit.dispatch_complete) == ("COMPLETED", 0, True)
        assert (execution.status, driver.requests()) == ("SUCCEEDED", [])
    assert (tmp_path / "out" / "in.csv.out").read_text() == ",".join(HEADER) + "\n"


def test_an_unreadable_file_fails_alone(tmp_path):
    """Other files go on; the reason is in the row."""
    files = [tmp_path / name for name in ("gone.csv", "good.csv")]
    for file in files:
        file.write_bytes(HEAD + b"1,a,1.00,EUR\n")
    settings = {"pipeline.defaults.retry-limit": "1"}
    with open_payments(tmp_path, settings=settings) as driver:
        driver.stop()
        driver.submit_files(*files)
        files[0].unlink()
        driver.start()
        simulate(driver)
        driver.advance(1_000)
        found = {(it.source or {})["key"]: it for it in driver.executions()}
        assert found["good.csv"].status == "SUCCEEDED"
        assert (found["gone.csv"].status, found["gone.csv"].error_code) == ("FAILED", "SOURCE_UNREADABLE")

"""Field cases O19 to O22, as far as the files alone go: which rows are items and which are refused.

What an execution then makes of the items (dispatch, output, duplicates) is shown where executions run.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tpf_streams.connectors.amount import parse_amount
from tpf_streams.connectors.csv_reader import CsvRow, read_csv, scan_csv
from tpf_streams.connectors.csv_writer import PAYMENT_OUTPUT, csv_chunks
from tpf_streams.connectors.filesystem_source import FilesystemSource, execution_key
from tpf_streams.core.step import ItemReject, SourceObject
from tpf_streams.errors import PayloadError

DATA = Path(__file__).parent / "data"
COLUMNS = ("ID", "Recipient", "Amount", "Currency")


def expectation(case: str) -> Any:
    return json.loads((DATA / f"{case}.expect.json").read_text(encoding="utf-8"))


def payments(name: str) -> tuple[list[CsvRow], list[ItemReject]]:
    """The rows of a file as a payments step reads them: structural pass, then rows, then amounts."""
    scan = scan_csv(DATA / name, COLUMNS)
    good: list[CsvRow] = []
    rejects: list[ItemReject] = []
    for item in read_csv(DATA / name, COLUMNS, expected_sha256=scan.sha256, name=name):
        if isinstance(item, ItemReject):
            rejects.append(item)
            continue
        try:
            parse_amount(item.cells["Amount"])
            good.append(item)
        except PayloadError as error:
            rejects.append(item.reject("Amount", str(error)))
    assert len(good) + len(rejects) == scan.records
    return good, rejects


def test_o19_a_spreadsheets_file():
    expected = expectation("O19")
    rows, rejects = payments("O19.payments.csv")
    assert [
        {
            "csvId": row.cells["ID"],
            "recipient": row.cells["Recipient"],
            "amount": row.cells["Amount"],
            "currency": row.cells["Currency"],
        }
        for row in rows
    ] == expected["items"]
    assert len(rejects) == expected["rejected"]
    scan = scan_csv(DATA / "O19.payments.csv", COLUMNS)
    assert (scan.records, scan.skipped) == (expected["expected_item_count"], 5)


def test_o20_line_ends_inside_quotes(tmp_path):
    expected = expectation("O20")
    rows, rejects = payments("O20.payments.csv")
    assert [row.cells["Recipient"] for row in rows] == expected["recipients"]
    assert (len(rows), len(rejects)) == (expected["items"], expected["rejected"])
    assert [row.line for row in rows] == [2, 4, 5, 6, 8]

    outputs = [
        {"csvId": row.cells["ID"], "recipient": row.cells["Recipient"], "amount": row.cells["Amount"]}
        | {"currency": "EUR", "conversationId": "c", "status": 1000, "message": "", "fee": "1.01"}
        for row in rows
    ]
    (tmp_path / "out.csv").write_bytes(b"".join(csv_chunks(outputs, PAYMENT_OUTPUT)))
    read_again = list(read_csv(tmp_path / "out.csv", [column.header for column in PAYMENT_OUTPUT.columns]))
    assert [row.cells["Recipient"] for row in read_again if isinstance(row, CsvRow)] == expected["recipients"]


def test_o21_amounts():
    """Contract 0.15 wins over the case in two rows: row 2, `5,047.29`, is refused, for only the plain form is read;
    row 16, `0.1`, keeps its spelling, for amounts are written as read."""
    expected = expectation("O21")
    rows, rejects = payments("O21.payments.csv")
    accepted = {row.cells["ID"]: row.cells["Amount"] for row in rows}
    refused = {reject.raw.partition(",")[0]: reject for reject in rejects}

    del expected["accepted"]["2"]
    assert set(accepted) == set(expected["accepted"])
    assert {key: Decimal(amount) for key, amount in accepted.items()} == {
        key: Decimal(amount) for key, amount in expected["accepted"].items()
    }
    assert accepted["16"] == "0.1"
    assert accepted["15"] == "100000000000000001.01"
    assert set(refused) == {"2", *expected["rejected_or_declared"]}
    lines = (DATA / "O21.payments.csv").read_text(encoding="utf-8").splitlines()
    for key, reject in refused.items():
        assert (reject.file, reject.line, reject.column) == ("O21.payments.csv", int(key) + 1, "Amount")
        assert reject.reason
        assert reject.raw == lines[reject.line - 1]
    for key, never in expected["never"].items():
        assert accepted.get(key) not in never


@pytest.mark.parametrize(("name", "part"), [("O22.file_a.csv", "file_a"), ("O22.file_b.csv", "file_b_while_a_is_open")])
def test_o22_rows_that_look_the_same_stay_apart(name, part):
    rows, rejects = payments(name)
    assert len(rows) == expectation("O22")[part]["items"]
    assert rejects == []
    assert len({row.line for row in rows}) == len(rows)


def test_o22_two_files_are_two_executions_and_one_file_is_one():
    files = FilesystemSource("csv-payment-files", [str(DATA)], include=["O22.file_*.csv"])
    first, again = (
        [execution_key(item) for item in files.listing() if isinstance(item, SourceObject)] for _ in range(2)
    )
    assert first == again
    assert len(set(first)) == 2

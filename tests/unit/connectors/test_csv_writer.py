"""CSV output: dialects, the formula guard, and the round trip through the reader (contract 0.16, 12.3)."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tpf_streams.connectors.csv_reader import CsvRow, read_csv, scan_csv
from tpf_streams.connectors.csv_writer import (
    CHUNK_CHARS,
    PAYMENT_OUTPUT,
    CellKind,
    CsvColumn,
    CsvDialect,
    CsvLayout,
    csv_chunks,
    guard,
    reject_csv_chunks,
    strip_guard,
)
from tpf_streams.core.step import ItemReject
from tpf_streams.errors import PayloadError

PAYMENT = {
    "csvPaymentsInputFilePath": "payments.csv",
    "csvId": "1",
    "recipient": "Natasha Thomas",
    "amount": "5047.29",
    "currency": "AUD",
    "conversationId": "b2f0",
    "status": 1000,
    "message": "Mock response",
    "fee": "1.01",
}


def payment_file(dialect: CsvDialect = CsvDialect.STANDARD, **changes: object) -> str:
    return b"".join(csv_chunks([{**PAYMENT, **changes}], PAYMENT_OUTPUT, dialect)).decode()


def test_a_payment_output():
    assert payment_file() == (
        "CSV Id,Recipient,Amount,Currency,Reference,Status,Message,Fee\n"
        "1,Natasha Thomas,5047.29,AUD,b2f0,1000,Mock response,1.01\n"
    )


def test_the_dialect_of_the_reference():
    assert payment_file(CsvDialect.REFERENCE, recipient="O'Hara") == (
        "'CSV ID','RECIPIENT','AMOUNT','CURRENCY','REFERENCE','STATUS','MESSAGE','FEE'\n"
        "'1','O''Hara','5,047.29','AUD','b2f0','1000','Mock response','1.01'\n"
    )


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("0.1", ".10"),
        ("0", ".00"),
        ("12", "12.00"),
        ("999.5", "999.50"),
        ("1000", "1,000.00"),
        ("0001234567.89", "1,234,567.89"),
        ("-1234.5", "-1,234.50"),
        ("-0.5", "-.50"),
        ("12.345", "12.345"),
        ("100000000000000001.01", "100,000,000,000,000,001.01"),
    ],
)
def test_amounts_of_the_reference_are_grouped_and_never_rounded(amount, shown):
    cells = next(
        csv.reader(io.StringIO(payment_file(CsvDialect.REFERENCE, amount=amount).splitlines()[1]), quotechar="'")
    )
    assert cells[2] == shown
    assert Decimal(shown.replace(",", "")) == Decimal(amount)


@pytest.mark.parametrize("amount", ["0.1", "0.10", "100000000000000001.01", "-5.00", "007"])
def test_amounts_are_written_as_read(amount):
    assert payment_file(amount=amount).splitlines()[1].split(",")[2] == amount


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "  =1", "\xa0=1", "\n=1", " \tx", "'=1", "''-1"]
)
def test_text_that_could_be_a_formula_is_guarded(text):
    assert guard(text) == f"'{text}"
    assert strip_guard(guard(text)) == text
    for dialect, quote in ((CsvDialect.STANDARD, '"'), (CsvDialect.REFERENCE, "'")):
        data = payment_file(dialect, message=text, csvId=text, currency=text)
        cells = list(csv.reader(io.StringIO(data, newline=""), quotechar=quote))[1]
        assert cells[0] == cells[3] == cells[6] == f"'{text}"


@pytest.mark.parametrize("text", ["", "a=1", "'", "'a", "5-3", "O'Hara", "a\t"])
def test_other_text_is_left_alone(text):
    assert guard(text) == strip_guard(text) == text


def test_a_formula_does_not_hide_in_an_amount():
    assert payment_file(amount="=HYPERLINK(1)", status="@x").splitlines()[1].split(",")[2::3] == [
        "'=HYPERLINK(1)",
        "'@x",
    ]


@given(st.text())
@example("''=")
def test_the_guard_can_always_be_taken_off(text):
    assert strip_guard(guard(text)) == text


def test_values_are_json_scalars():
    line = payment_file(message=None, recipient=True, currency=1.5).splitlines()[1]
    assert line == "1,true,5047.29,1.5,b2f0,1000,,1.01"
    with pytest.raises(PayloadError, match="'message'"):
        payment_file(message=["a"])
    with pytest.raises(PayloadError, match="no field 'fee'"):
        list(csv_chunks([{key: value for key, value in PAYMENT.items() if key != "fee"}], PAYMENT_OUTPUT))


def test_a_lone_surrogate_cannot_stop_the_output():
    assert "\\ud800" in payment_file(message="\ud800")


def test_an_output_without_rows_has_a_header():
    assert b"".join(csv_chunks([], PAYMENT_OUTPUT)).count(b"\n") == 1


def test_rows_are_read_lazily_and_leave_in_chunks():
    taken = 0

    def rows():
        nonlocal taken
        for _ in range(100_000):
            taken += 1
            yield PAYMENT

    chunks = csv_chunks(rows(), PAYMENT_OUTPUT)
    first = next(chunks)
    assert CHUNK_CHARS <= len(first) < CHUNK_CHARS + 200
    assert taken < 2000
    rest = list(chunks)
    assert b"".join([first, *rest]).count(b"\n") == 100_001
    assert max(len(chunk) for chunk in rest) < CHUNK_CHARS + 200


def test_rejects():
    data = b"".join(
        reject_csv_chunks([ItemReject("in.csv", 3, "Amount", "a comma", '1,"=x"'), ItemReject("=in", 4, "", "r")])
    )
    assert data.decode() == ('File,Line,Column,Reason,Raw\nin.csv,3,Amount,a comma,"1,""=x"""\n\'=in,4,,r,\n')


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20) | st.text(
    alphabet=" ,\"'\r\n\t=+-@x\ufeffé", max_size=8
)


def read_back(names: Sequence[str], data: bytes) -> list[dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out.csv"
        path.write_bytes(data)
        rows = list(read_csv(path, names, expected_sha256=scan_csv(path, names).sha256))
    return [
        {column: strip_guard(cell) for column, cell in row.cells.items()} for row in rows if isinstance(row, CsvRow)
    ]


@given(st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(TEXT, min_size=width, max_size=width), max_size=6)))
@example([[""]])
@example([["", ""]])
@example([[" "], ["\n"], ["\r"], ["\ufeff"], ['"']])
def test_what_is_written_is_read_back(table):
    width = len(table[0]) if table else 1
    names = [f"c{index}" for index in range(width)]
    layout = CsvLayout(tuple(CsvColumn(name, name, CellKind.TEXT) for name in names))
    rows = [dict(zip(names, cells, strict=True)) for cells in table]
    data = b"".join(csv_chunks(rows, layout))
    assert read_back(names, data) == rows
    assert list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True)) == [
        names,
        *([guard(cell) for cell in cells] for cells in table),
    ]

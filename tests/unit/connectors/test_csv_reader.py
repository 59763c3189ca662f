"""Rows, row errors and file errors of CSV input (contract 0.15)."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from tpf_streams.connectors.csv_reader import RAW_CHARS_MAX, CsvRow, read_csv, scan_csv
from tpf_streams.core.step import ItemReject
from tpf_streams.errors import CsvStructureError, SourceChangedError, SourceUnreadableError, TerminalError

COLUMNS = ("ID", "Amount")


def write(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "in.csv"
    path.write_bytes(content)
    return path


def read(tmp_path: Path, content: bytes, encoding: str | None = None) -> list[CsvRow | ItemReject]:
    return list(read_csv(write(tmp_path, content), COLUMNS, encoding, name="in.csv"))


def cells(items: list[CsvRow | ItemReject]) -> list[dict[str, str]]:
    return [item.cells for item in items if isinstance(item, CsvRow)]


def test_columns_are_found_by_name_in_any_order(tmp_path):
    items = read(tmp_path, b"Amount,Note,ID,\n1.00,x,7,\n2.00,y,8,,,\n")
    assert cells(items) == [{"ID": "7", "Amount": "1.00"}, {"ID": "8", "Amount": "2.00"}]
    assert [item.line for item in items] == [2, 3]


def test_only_unquoted_cells_are_trimmed(tmp_path):
    assert cells(read(tmp_path, b'ID,Amount\n \t7 ," 8 "\n"","x""y"\n\xc2\xa0z,1\n')) == [
        {"ID": "7", "Amount": " 8 "},
        {"ID": "", "Amount": 'x"y'},
        {"ID": "\xa0z", "Amount": "1"},
    ]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_blank_lines_are_skipped_and_counted(tmp_path, end):
    path = write(tmp_path, end.join([b"", b" ,", b"ID,Amount", b"", b"1,2", b" \t", b",,,", b"3,4"]))
    scan = scan_csv(path, COLUMNS)
    assert (scan.records, scan.skipped) == (2, 5)
    assert [row.line for row in read_csv(path, COLUMNS)] == [5, 8]


def test_a_row_of_quoted_blanks_is_a_row(tmp_path):
    assert cells(read(tmp_path, b'ID,Amount\n"",\n')) == [{"ID": "", "Amount": ""}]


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("header", [b"ID,Amount", b'"ID","Amount"', b" ID ,Amount"])
def test_a_byte_order_mark_is_dropped(tmp_path, bom, header):
    assert cells(read(tmp_path, bom + header + b"\n1,2")) == [{"ID": "1", "Amount": "2"}]


@pytest.mark.parametrize(
    ("row", "column", "reason"),
    [
        (b"9", "", "1 cells where the header has 2"),
        (b"9,1,2", "", "3 cells where the header has 2"),
        (b"9,1,,x", "", "4 cells where the header has 2"),
        (b"9,1\x002", "Amount", "a NUL"),
        (b"\xff9,1", "ID", "bytes that are not utf-8"),
        (b'9,"1\xed\xa0\x80"', "Amount", "bytes that are not utf-8"),
        (b"9\r8,1", "", "a carriage return outside quotes that ends no line"),
        (b'9\r,"1"', "", "a carriage return outside quotes that ends no line"),
        (b'9,5" pipe', "", "a quote inside an unquoted cell"),
        (b'9,"a"b', "", "text after a closing quote"),
    ],
)
def test_a_row_error_rejects_its_row_alone(tmp_path, row, column, reason):
    before, reject, after = read(tmp_path, b"ID,Amount\n1,2\n" + row + b"\n3,4\n")
    assert isinstance(reject, ItemReject)
    assert (reject.file, reject.line, reject.column, reject.reason) == ("in.csv", 3, column, reason)
    assert "9" in reject.raw
    assert cells([before, after]) == [{"ID": "1", "Amount": "2"}, {"ID": "3", "Amount": "4"}]


def test_a_carriage_return_inside_quotes_is_text(tmp_path):
    assert cells(read(tmp_path, b'ID,Amount\n1,"a\rb"\n')) == [{"ID": "1", "Amount": "a\rb"}]


@pytest.mark.timeout(20)
def test_a_header_of_very_many_columns_does_not_hold_up_the_others(tmp_path):
    """Compared each with each, 100,000 names took minutes, and nothing could stop the thread that did it."""
    more = ",".join(f"c{number}" for number in range(100_000)).encode()
    header = b"ID,Amount," + more + b"\n"
    assert cells(read(tmp_path, header + b"1,2" + b"," * 100_000 + b"\n")) == [{"ID": "1", "Amount": "2"}]


def test_a_row_can_be_rejected_for_a_value(tmp_path):
    (row,) = read(tmp_path, b'ID,Amount\n1,"5,00"\n')
    assert isinstance(row, CsvRow)
    assert row.reject("Amount", "has a comma") == ItemReject("in.csv", 2, "Amount", "has a comma", '1,"5,00"')


def test_raw_text_is_bounded_and_printable(tmp_path):
    undecodable, nul, bad_value = read(
        tmp_path, b"ID,Amount\n1,\xff" + b"x" * 5000 + b"\n2,\x00" + b"y" * 5000 + b"\n3," + b"z" * 5000 + b"\n"
    )
    assert isinstance(undecodable, ItemReject)
    assert isinstance(nul, ItemReject)
    assert isinstance(bad_value, CsvRow)
    assert undecodable.raw.startswith("1,\\xffx")
    assert nul.raw.startswith("2,\\x00y")
    for raw in (undecodable.raw, nul.raw, bad_value.reject("Amount", "no").raw):
        assert RAW_CHARS_MAX <= len(raw) <= RAW_CHARS_MAX + 3
        assert raw.isprintable()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "^in.csv:1: there is no header"),
        (b"\n \n", "^in.csv:1: there is no header"),
        (b"\nID,Betrag\n", "^in.csv:2: column 'Amount' is missing; the header has: ID, Betrag"),
        (b"ID;Amount\n", "^in.csv:1: column 'ID' is missing; the header has: ID;Amount"),
        (b'"",""\n', "^in.csv:1: column 'ID' is missing"),
        (b"ID,Amount,ID\n", "^in.csv:1: column 'ID' stands twice"),
        (b"ID,Amount,x,x\n", "^in.csv:1: column 'x' stands twice"),
        (b"ID,Amo\xffunt\n", "^in.csv:1: the header is undecodable as utf-8, in column 2"),
        ("ID,Amount\n1,2\n".encode("utf-16"), "^in.csv:1: the header is undecodable: the file looks like UTF-16"),
        (b"ID,Amount\x00\n", "^in.csv:1: the header holds a NUL"),
        (b"ID,Amount\r1,2\r", "^in.csv:1: the header holds a carriage return"),
        (b'ID,Am"ount\n', "^in.csv:1: the header has a quote inside an unquoted cell"),
        (b'ID,"Amount\n1,2\n', "^in.csv:1: the quote opened on this line is not closed"),
        (b'ID,Amount\n1,2\n3,"4\n', "^in.csv:3: the quote opened on this line is not closed"),
    ],
)
def test_a_file_error_is_found_by_the_structural_pass(tmp_path, content, message):
    path = write(tmp_path, content)
    with pytest.raises(CsvStructureError, match=message) as error:
        scan_csv(path, COLUMNS, name="in.csv")
    assert error.value.code == "CSV_STRUCTURE"
    with pytest.raises(CsvStructureError, match=message):
        list(read_csv(path, COLUMNS, name="in.csv"))


def test_the_scan_counts_and_hashes(tmp_path):
    content = b"\xef\xbb\xbfID,Amount\r\n1,2\r\n\r\nragged\r\n"
    scan = scan_csv(write(tmp_path, content), COLUMNS)
    assert (scan.records, scan.skipped, scan.size_bytes) == (2, 1, len(content))
    assert scan.sha256 == hashlib.sha256(content).hexdigest()


def test_a_changed_source_is_told_at_the_end(tmp_path):
    path = write(tmp_path, b"ID,Amount\n1,2\n3,4\n")
    sha256 = scan_csv(path, COLUMNS).sha256
    assert len(list(read_csv(path, COLUMNS, expected_sha256=sha256))) == 2
    write(tmp_path, b"ID,Amount\n1,2\n3,5\n")
    seen: list[object] = []
    with pytest.raises(SourceChangedError, match=r"in\.csv"):
        seen.extend(read_csv(path, COLUMNS, expected_sha256=sha256))
    assert len(seen) == 2


def test_a_structure_broken_since_the_scan_is_a_change(tmp_path):
    path = write(tmp_path, b'ID,Amount\n1,"2\n')
    with pytest.raises(CsvStructureError):
        list(read_csv(path, COLUMNS, expected_sha256=hashlib.sha256(path.read_bytes()).hexdigest()))
    with pytest.raises(SourceChangedError):
        list(read_csv(path, COLUMNS, expected_sha256=hashlib.sha256(b"another").hexdigest()))


def test_reading_is_lazy_and_closing_closes_the_file(tmp_path):
    path = write(tmp_path, b"ID,Amount\n" + b"1,2\n" * 200_000)
    open_before = len(os.listdir("/proc/self/fd"))
    rows = read_csv(path, COLUMNS)
    next(rows)
    assert len(os.listdir("/proc/self/fd")) == open_before + 1
    rows.close()  # type: ignore[attr-defined]
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_declared_encodings_are_read_record_by_record(tmp_path):
    content = "ID,Amount\n1,Müller\n2,Łódź\n".encode("cp1250")
    assert cells(read(tmp_path, content, "cp1250"))[1] == {"ID": "2", "Amount": "Łódź"}
    ok, reject = read(tmp_path, "ID,Amount\n1,ソ\n".encode("shift_jis") + b"2,\x81\n", "shift_jis")
    assert cells([ok]) == [{"ID": "1", "Amount": "ソ"}]
    assert isinstance(reject, ItemReject)
    with pytest.raises(TerminalError, match="utf-16"):
        read(tmp_path, content, "utf-16")


@pytest.mark.parametrize("make", ["missing", "directory", "fifo", "nul"])
def test_an_unreadable_file_is_told_with_the_reason(tmp_path, make):
    path = str(tmp_path / make)
    reasons = {"missing": "No such file", "directory": "regular", "fifo": "regular", "nul": "not a file name"}
    if make == "directory":
        os.mkdir(path)
    elif make == "fifo":
        os.mkfifo(path)
    elif make == "nul":
        path += "\0"
    for attempt in (
        lambda: scan_csv(path, COLUMNS, name="in.csv"),
        lambda: list(read_csv(path, COLUMNS, name="in.csv")),
    ):
        with pytest.raises(SourceUnreadableError, match=f"^in.csv: .*{reasons[make]}"):
            attempt()


def test_a_read_error_in_the_middle_is_told(tmp_path, monkeypatch):
    path = write(tmp_path, b"ID,Amount\n1,2\n")

    def broken(descriptor: int, count: int) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("tpf_streams.connectors.hashed_file.os.read", broken)
    with pytest.raises(SourceUnreadableError, match="Input/output error"):
        scan_csv(path, COLUMNS)

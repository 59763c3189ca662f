"""CSV out (contract 0.16): committed rows to bytes, the same bytes every time.

Two dialects. STANDARD: UTF-8, LF, RFC 4180 double quotes where a reader needs them. REFERENCE (`quirks: reference`,
contract 12.3): upper-case header, every cell in single quotes with a quote doubled, amounts as `#,###.00`.

A text cell that a spreadsheet would take for a formula gets a leading `'` in both; `strip_guard` takes it off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from tpf_streams.core.step import ItemReject, Json
from tpf_streams.errors import PayloadError

CHUNK_CHARS = 64 * 1024

_FORMULA = re.compile(r"'*\s*[=+\-@]|'*[^\S\t\r]*[\t\r]")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_NEEDS_QUOTES = re.compile(r'[,"\r\n]|\A[ \t]|[ \t]\Z')


class CsvDialect(StrEnum):
    STANDARD = "standard"
    REFERENCE = "reference"


class CellKind(StrEnum):
    """What a column holds. A number in an AMOUNT or NUMBER column is never guarded; anything else there is text."""

    TEXT = "text"
    AMOUNT = "amount"
    NUMBER = "number"


@dataclass(frozen=True, slots=True)
class CsvColumn:
    header: str
    field: str
    kind: CellKind = CellKind.TEXT


@dataclass(frozen=True, slots=True)
class CsvLayout:
    """The columns of a file in order, each fed by one field of a row."""

    columns: tuple[CsvColumn, ...]


PAYMENT_OUTPUT = CsvLayout(
    (
        CsvColumn("CSV Id", "csvId"),
        CsvColumn("Recipient", "recipient"),
        CsvColumn("Amount", "amount", CellKind.AMOUNT),
        CsvColumn("Currency", "currency"),
        CsvColumn("Reference", "conversationId"),
        CsvColumn("Status", "status", CellKind.NUMBER),
        CsvColumn("Message", "message"),
        CsvColumn("Fee", "fee", CellKind.AMOUNT),
    )
)
"""A PaymentOutput (contract 0.16 for the header, 12.3 for the fields)."""

ITEM_REJECTS = CsvLayout(
    (
        CsvColumn("File", "file"),
        CsvColumn("Line", "line", CellKind.NUMBER),
        CsvColumn("Column", "column"),
        CsvColumn("Reason", "reason"),
        CsvColumn("Raw", "raw"),
    )
)


def csv_chunks(
    rows: Iterable[Mapping[str, Json]], layout: CsvLayout, dialect: CsvDialect = CsvDialect.STANDARD
) -> Iterator[bytes]:
    """The file as pieces of about `CHUNK_CHARS`: one header, then a line per row, in order. Rows are read lazily.

    Values are JSON scalars, written as they stand: amounts travel as strings and keep their spelling. None is an empty
    cell. Raises PayloadError for a row that lacks a field of the layout, or whose field is an object or an array. A
    lone surrogate, which UTF-8 cannot hold, is written as its escape (`\\ud800`).
    """
    is_reference = dialect is CsvDialect.REFERENCE
    write = _reference_record if is_reference else _standard_record
    columns = [
        (column.field, column.kind is CellKind.TEXT, column.kind is CellKind.AMOUNT and is_reference)
        for column in layout.columns
    ]
    lines = [_header(layout, dialect)]
    size = len(lines[0])
    for row in rows:
        lines.append(write([_cell(row, *column) for column in columns]))
        size += len(lines[-1])
        if size >= CHUNK_CHARS:
            yield "".join(lines).encode("utf-8", "backslashreplace")
            lines.clear()
            size = 0
    if lines:
        yield "".join(lines).encode("utf-8", "backslashreplace")


def reject_csv_chunks(rejects: Iterable[ItemReject]) -> Iterator[bytes]:
    """The item-reject file (contract 0.15): columns File, Line, Column, Reason, Raw, in the standard dialect."""
    columns = ITEM_REJECTS.columns
    return csv_chunks(
        ({column.field: getattr(reject, column.field) for column in columns} for reject in rejects), ITEM_REJECTS
    )


def guard(text: str) -> str:
    """`text` with a leading `'` if a spreadsheet could run it: after blanks it begins with = + - @ tab or CR.

    What already looks guarded is guarded again, so that `strip_guard` gives back every text.
    """
    if text[:1].isalnum():  # most cells, at a quarter of the cost
        return text
    return f"'{text}" if _FORMULA.match(text) else text


def strip_guard(cell: str) -> str:
    """The text that `guard` made this cell of."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell, 1) else cell


def _header(layout: CsvLayout, dialect: CsvDialect) -> str:
    names = [column.header for column in layout.columns]
    if dialect is CsvDialect.REFERENCE:
        return _reference_record([name.upper() for name in names])
    return _standard_record(names)


def _cell(row: Mapping[str, Json], field: str, is_text: bool, is_grouped: bool) -> str:
    try:
        value = row[field]
    except KeyError:
        raise PayloadError(f"an output row has no field {field!r}") from None
    text = value if type(value) is str else _scalar_text(value, field)
    if is_text or _NUMBER.fullmatch(text) is None:
        return guard(text)
    return _grouped(text) if is_grouped else text


def _scalar_text(value: Json, field: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise PayloadError(f"field {field!r} of an output row is no single value")


def _grouped(amount: str) -> str:
    """`#,###.00`: groups of three, two decimals at least, no lone zero before the point. More decimals stay: unlike the
    reference nothing is rounded."""
    whole, _, fraction = f"{Decimal(amount):,f}".partition(".")
    sign = "-" if whole.startswith("-") else ""
    digits = whole.removeprefix("-")
    return f"{sign}{'' if digits == '0' else digits}.{fraction:0<2}"


def _standard_record(cells: Sequence[str]) -> str:
    record = ",".join(cells)
    if _is_plain(record, len(cells)):
        return record + "\n"
    record = ",".join([_quoted(cell) if _NEEDS_QUOTES.search(cell) else cell for cell in cells])
    if not record.strip(","):
        record = '""' + record  # a line of commas alone would be skipped by a reader
    return record + "\n"


def _is_plain(record: str, cells: int) -> bool:
    """Whether no cell needs quotes: a quick look at the whole record, which may say no where a slow one would not."""
    return (
        record.count(",") == cells - 1
        and record.isprintable()
        and '"' not in record
        and " ," not in record
        and ", " not in record
        and record.strip(" ,") != ""
        and record[0] != " " != record[-1]
    )


def _quoted(cell: str) -> str:
    doubled = cell.replace('"', '""')
    return f'"{doubled}"'


def _reference_record(cells: Sequence[str]) -> str:
    return ",".join(["'" + cell.replace("'", "''") + "'" for cell in cells]) + "\n"

"""CSV in (contract 0.15): a structural pass over the whole file, then rows, lazily, in file order.

The header is the first line that is not blank. Columns are found by exact name in any order; other named columns are
not read; trailing columns without a name are ignored as long as their cells are empty. Unquoted cells lose their outer
blanks and tabs, quoted cells are kept as they are. Lines of blanks and commas alone are skipped and counted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tpf_streams.connectors.csv_records import Record, csv_encoding, split_records
from tpf_streams.connectors.hashed_file import HashedFile
from tpf_streams.core.step import ItemReject
from tpf_streams.errors import CsvStructureError, SourceChangedError

RAW_CHARS_MAX = 1024
"""Characters of a rejected record that its report keeps."""

_BLANKS = " \t"
_BLANK_BYTES = b" \t,"
_BOM = b"\xef\xbb\xbf"
_CELL = re.compile(r',(?:"((?:[^"]|"")*+)"|([^,]*+))')
_QUOTED = re.compile(r'"(?:[^"]|"")*+"')


@dataclass(frozen=True, slots=True)
class CsvScan:
    """What the structural pass knows: the content's SHA-256 in hex and its bytes, records to be read (rows and rejects
    together, the header not among them), and blank or comma-only lines skipped."""

    sha256: str
    size_bytes: int
    records: int
    skipped: int


@dataclass(slots=True)
class CsvRow:
    """One record: the physical line on which it starts, from 1; cells by column name; its text as it stands in `file`.

    Not frozen, for speed alone: nothing writes to it after it is made.
    """

    line: int
    cells: dict[str, str]
    file: str
    raw: str

    def reject(self, column: str, reason: str) -> ItemReject:
        """This row as a row error: a cell whose value is bad (contract 0.15)."""
        return ItemReject(self.file, self.line, column, reason, _bounded(self.raw))


def scan_csv(
    path: str | os.PathLike[str], columns: Sequence[str], encoding: str | None = None, name: str = ""
) -> CsvScan:
    """The structural pass, before the first dispatch. `name` is what errors call the file; the path, unless given.

    Raises CsvStructureError for an unclosed quote, an overlong record, and a header that is missing, undecodable, lacks
    one of `columns` or repeats a name; SourceUnreadableError; TerminalError for an unsupported encoding.
    """
    encoding = csv_encoding(encoding)
    with HashedFile(path, name) as file:
        records = split_records(_without_bom(file.chunks(), encoding), file.name)
        _, skipped = _read_header(records, columns, encoding, file.name)
        count = 0
        for _, content, _ in records:
            if content.strip(_BLANK_BYTES):
                count += 1
            else:
                skipped += 1
        return CsvScan(file.finish(), file.size_bytes, count, skipped)


def read_csv(
    path: str | os.PathLike[str],
    columns: Sequence[str],
    encoding: str | None = None,
    expected_sha256: str | None = None,
    name: str = "",
) -> Iterator[CsvRow | ItemReject]:
    """The rows of a file in order, and an ItemReject for each record that is none. Lazy; close it to close the file.

    Row errors: faulty quoting, ragged row, NUL, undecodable bytes, a CR that ends no line. Raises what `scan_csv` does,
    and SourceChangedError at the end when the content read is not the content of `expected_sha256`. A structure that
    breaks in a file that passed the structural pass is such a change, and is reported as one.
    """
    encoding = csv_encoding(encoding)
    with HashedFile(path, name) as file:
        try:
            records = split_records(_without_bom(file.chunks(), encoding), file.name)
            header, _ = _read_header(records, columns, encoding, file.name)
            for record in records:
                if record[1].strip(_BLANK_BYTES):
                    yield _read_row(record, header, encoding, file.name)
        except CsvStructureError:
            _check_content(file, expected_sha256)
            raise
        _check_content(file, expected_sha256)


def _check_content(file: HashedFile, expected_sha256: str | None) -> None:
    if expected_sha256 is not None and file.finish() != expected_sha256:
        raise SourceChangedError(f"{file.name}: the content is not the one that was submitted")


def _without_bom(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    for number, chunk in enumerate(chunks):
        yield chunk.removeprefix(_BOM) if number == 0 and encoding == "utf-8" else chunk


@dataclass(frozen=True, slots=True)
class _Header:
    names: tuple[str, ...]
    wanted: tuple[tuple[str, int], ...]
    """(name, index) of the columns that are read."""

    def name_at(self, index: int) -> str:
        return self.names[index] if index < len(self.names) else ""


def _read_header(records: Iterator[Record], columns: Sequence[str], encoding: str, name: str) -> tuple[_Header, int]:
    """The header, and how many blank lines stand before it."""
    for skipped, (line, content, fault) in enumerate(records):
        if content.strip(_BLANK_BYTES):
            names = _header_names(content, fault, encoding, f"{name}:{line}: the header")
            return _find_columns(names, columns, f"{name}:{line}"), skipped
    raise CsvStructureError(f"{name}:1: there is no header: the file is empty")


def _header_names(content: bytes, fault: str, encoding: str, where: str) -> tuple[str, ...]:
    if fault:
        raise CsvStructureError(f"{where} has {fault}")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise CsvStructureError(f"{where} is undecodable: the file looks like UTF-16; convert it to UTF-8")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        column = _undecodable_cell(content, encoding) + 1
        raise CsvStructureError(f"{where} is undecodable as {encoding}, in column {column}") from None
    if "\0" in text:
        raise CsvStructureError(f"{where} holds a NUL")
    if _has_bare_cr(text):
        raise CsvStructureError(f"{where} holds a carriage return; lines must end with LF or CRLF")
    names = _split_cells(text)
    while names and not names[-1]:
        names.pop()
    return tuple(names)


def _find_columns(names: tuple[str, ...], columns: Sequence[str], where: str) -> _Header:
    seen: set[str] = set()
    for column in names:
        if column in seen:
            raise CsvStructureError(f"{where}: column {_bounded(column)!r} stands twice in the header")
        if column:
            seen.add(column)
    for column in columns:
        if column not in names:
            found = _bounded(", ".join(names))
            raise CsvStructureError(f"{where}: column {column!r} is missing; the header has: {found}")
    return _Header(names, tuple((column, names.index(column)) for column in columns))


def _read_row(record: Record, header: _Header, encoding: str, name: str) -> CsvRow | ItemReject:
    line, content, fault = record
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        column = header.name_at(_undecodable_cell(content, encoding))
        return ItemReject(name, line, column, f"bytes that are not {encoding}", _raw(content, encoding))
    if fault:
        return ItemReject(name, line, "", fault, _bounded(text))
    cells = _split_cells(text)
    if len(cells) != len(header.names) or "\0" in text or "\r" in text:
        column, fault = _row_fault(text, cells, header)
        if fault:
            return ItemReject(name, line, column, fault, _bounded(text))
    return CsvRow(line, {column: cells[index] for column, index in header.wanted}, name, text)


def _row_fault(text: str, cells: list[str], header: _Header) -> tuple[str, str]:
    """(column or "", what is wrong or "")."""
    width = len(header.names)
    if len(cells) < width or any(cells[width:]):
        return "", f"{len(cells)} cells where the header has {width}"
    for index, cell in enumerate(cells):
        if "\0" in cell:
            return header.name_at(index), "a NUL"
    if _has_bare_cr(text):
        return "", "a carriage return outside quotes that ends no line"
    return "", ""


def _split_cells(text: str) -> list[str]:
    """Cells of a record whose quoting is sound."""
    if '"' not in text:
        return [cell.strip(_BLANKS) for cell in text.split(",")]
    return [
        quoted.replace('""', '"') if quoted else plain.strip(_BLANKS) for quoted, plain in _CELL.findall("," + text)
    ]


def _has_bare_cr(text: str) -> bool:
    return "\r" in text and "\r" in _QUOTED.sub("", text)


def _undecodable_cell(content: bytes, encoding: str) -> int:
    """Index of the first cell with undecodable bytes; of the first cell where none shows."""
    cells = _split_cells(content.decode(encoding, "replace"))
    return next((index for index, cell in enumerate(cells) if "\ufffd" in cell), 0)


def _raw(content: bytes, encoding: str) -> str:
    return _bounded(content[: 4 * RAW_CHARS_MAX].decode(encoding, "backslashreplace"))


def _bounded(text: str) -> str:
    return text[:RAW_CHARS_MAX].replace("\0", "\\x00")

"""Where CSV records begin and end: RFC 4180 quoting on bytes, in bounded memory (contract 0.15).

Splitting works on bytes, so that undecodable bytes cost one record and not the file. That is sound for encodings in
which the bytes of `,` `"` CR and LF mean nothing else; `csv_encoding` admits no other.

Quoting is read strictly. A quote inside an unquoted cell, or text after a closing quote (a blank counts as text), is a
fault of that record: `1,5" pipe,10.00`. A record with a fault must end on the line where it began: once it spans lines,
an unclosed quote is the likeliest cause, and which rows it swallowed would be a guess; so that fails the file, naming
the line where the quote opened. Nothing is resynchronised, because text inside a quoted cell must never become a row.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from tpf_streams.errors import CsvStructureError, TerminalError

RECORD_BYTES_MAX = 1024 * 1024
"""A longer record fails the file: where it ends cannot be told in bounded memory, and no item could hold it."""

Record: TypeAlias = tuple[int, bytes, str]
"""(line on which it starts, counted from 1; content without its line end; fault in its quoting, or "")."""

_SOUND_CELL = rb'(?:"[^"]*+(?:""[^"]*+)*+"|[^",]*+)'
_SOUND_RECORD = re.compile(_SOUND_CELL + rb"(?:," + _SOUND_CELL + rb")*+")
_ANY_CELL = re.compile(rb'"[^"]*+(?:""[^"]*+)*+("?+)([^,]*+)|([^,]*+)')

# Every one keeps the ASCII bytes for ASCII alone, except as trail bytes from 0x30 on: no comma, quote or line end.
_ENCODING = re.compile(
    r"utf-8|utf-8-sig|ascii|iso8859-\d+|cp(?:125\d|437|737|775|85\d|86\d|866|874)|koi8-[rtu]|mac-\w+|kz1048|ptcp154|tis-620"
    r"|shift_jis|cp932|euc_jp|euc_kr|cp949|gb2312|gbk|gb18030|big5|big5hkscs|cp950"
)


def csv_encoding(encoding: str | None) -> str:
    """Python's name of a declared encoding; `utf-8` where none is declared.

    Raises TerminalError with code `ENCODING_UNSUPPORTED` for a name Python does not know, and for encodings in which a
    byte of `,` `"` CR or LF may be part of another character, such as UTF-16, UTF-7, ISO-2022 and EBCDIC.
    """
    try:
        codec = codecs.lookup(encoding or "utf-8").name
    except LookupError:
        raise TerminalError(f"unknown encoding {encoding!r}", "ENCODING_UNSUPPORTED") from None
    if _ENCODING.fullmatch(codec) is None:
        raise TerminalError(
            f"encoding {encoding!r} cannot be read record by record; convert the file to UTF-8", "ENCODING_UNSUPPORTED"
        )
    return "utf-8" if codec == "utf-8-sig" else codec


def split_records(chunks: Iterable[bytes], name: str) -> Iterator[Record]:
    """All records in order, blank ones too. Raises CsvStructureError with `name` and line; memory stays bounded."""
    lines = enumerate(_lines(chunks, name), 1)
    for number, line in lines:
        if b'"' not in line:
            yield number, line.removesuffix(b"\r"), ""
            continue
        content = line.removesuffix(b"\r")
        if _SOUND_RECORD.fullmatch(content):
            yield number, content, ""
        else:
            yield _unsound(number, line, lines, name)


def _lines(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Lines without their LF. Only the first line of a piece can be long: a piece is shorter than the bound."""
    rest = b""
    before = 0
    for chunk in chunks:
        lines = (rest + chunk).split(b"\n")
        if len(lines[0]) > RECORD_BYTES_MAX:
            raise CsvStructureError(f"{name}:{before + 1}: the line is longer than {RECORD_BYTES_MAX} bytes")
        rest = lines.pop()
        before += len(lines)
        yield from lines
    if rest:
        yield rest


def _walk(content: bytes) -> tuple[int, str]:
    """(where the cell starts that is still open at the end, or -1; first fault in the quoting, or "")."""
    fault = ""
    position = 0
    while True:
        cell = _ANY_CELL.match(content, position)
        assert cell is not None  # matches the empty cell at least
        close, tail, plain = cell.groups()
        if close == b"":
            return position, fault
        if tail:
            fault = fault or "text after a closing quote"
        elif plain and b'"' in plain:
            fault = fault or "a quote inside an unquoted cell"
        if cell.end() == len(content):
            return -1, fault
        position = cell.end() + 1


def _unsound(number: int, first: bytes, lines: Iterator[tuple[int, bytes]], name: str) -> Record:
    """The record that begins with line `first`, which alone is no sound record: it spans lines, or has a fault."""
    opened, fault = _walk(first.removesuffix(b"\r"))
    if opened < 0:
        return number, first.removesuffix(b"\r"), fault
    if fault:
        raise _unclosed(name, number)
    return number, _spanning(number, first, lines, name), ""


def _spanning(number: int, first: bytes, lines: Iterator[tuple[int, bytes]], name: str) -> bytes:
    """The whole record that begins with line `first`, in which a quote is open."""
    parts = [first]
    size = len(first)
    opened_line = number
    for line_number, line in lines:
        parts.append(line)
        size += len(line) + 1
        opened, fault = _walk(b'"' + line.removesuffix(b"\r"))  # going on inside quotes = starting a quoted cell
        if fault or size > RECORD_BYTES_MAX:
            break
        if opened < 0:
            return b"\n".join(parts).removesuffix(b"\r")
        if opened > 0:
            opened_line = line_number
    raise _unclosed(name, opened_line)


def _unclosed(name: str, line: int) -> CsvStructureError:
    return CsvStructureError(
        f"{name}:{line}: the quote opened on this line is not closed, or not by a quote that ends its cell"
    )

"""Record boundaries: quoting on bytes, in bounded memory, and never a guess."""

from __future__ import annotations

import codecs
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpf_streams.connectors.csv_records import RECORD_BYTES_MAX, csv_encoding, split_records
from tpf_streams.errors import CsvStructureError, TerminalError


def records(data: bytes, chunk_bytes: int = 7) -> list[tuple[int, bytes, str]]:
    chunks = [data[start : start + chunk_bytes] for start in range(0, len(data), chunk_bytes)]
    return list(split_records(chunks, "in.csv"))


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_lines_without_quotes_are_records(end):
    assert records(b"a,b" + end + end + b"c") == [(1, b"a,b", ""), (2, b"", ""), (3, b"c", "")]


def test_line_ends_inside_quotes_belong_to_the_cell():
    assert records(b'1,"a\nb\r\n""c"""\r\n2') == [(1, b'1,"a\nb\r\n""c"""', ""), (4, b"2", "")]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b'1,5" pipe', "a quote inside an unquoted cell"),
        (b'1, "blank before"', "a quote inside an unquoted cell"),
        (b'1,"a"b', "text after a closing quote"),
        (b'1,"blank after" ,2', "text after a closing quote"),
        (b'1,"a"b,c"d', "text after a closing quote"),
    ],
)
def test_a_fault_in_quoting_is_told_and_reading_goes_on(line, fault):
    assert records(line + b"\n2,ok\n") == [(1, line, fault), (2, b"2,ok", "")]


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b'1,"never closed\n2,a\n3,b\n', 1),
        (b'1,a\n2,"never closed', 2),
        (b'1,"closed\nhere","not here\n3,b\n', 2),
        (b'1,"Five,50.00\n6,Six,60.00\n7,"Seven",70.00\n', 1),  # closed by the next row's quote
        (b'1,"Five,50.00\n6,Six,60.00\n7,"Seven,70.00\n', 1),
        (b'1,"Five,50.00\n6,"",60.00\n', 1),
        (b'1,a"b,"x\n7,Evil,1000.00\n",2\n', 1),  # text in a quoted cell must never become a row
    ],
)
def test_an_unclosed_quote_fails_the_file_at_the_line_where_it_opened(data, line):
    for chunk_bytes in (1, 5, 1000):
        with pytest.raises(CsvStructureError, match=f"^in.csv:{line}: "):
            records(data, chunk_bytes)


@pytest.mark.parametrize("start", [b"", b'1,"'], ids=["no line end", "unclosed quote"])
def test_memory_is_bounded_whatever_the_file_lacks(start):
    filler = b"x" * (256 * 1024)

    def endless():
        yield start
        for _ in range(400):
            yield filler

    tracemalloc.start()
    try:
        with pytest.raises(CsvStructureError, match=r"^in.csv:1: "):
            list(split_records(endless(), "in.csv"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * RECORD_BYTES_MAX


def test_an_unclosed_quote_over_many_lines_is_bounded_too():
    line = b"x" * 1023 + b"\n"
    taken = 0

    def lines():
        nonlocal taken
        yield b'1,"'
        for _ in range(100_000):
            taken += 1
            yield line

    with pytest.raises(CsvStructureError, match=r"^in.csv:1: "):
        list(split_records(lines(), "in.csv"))
    assert taken <= RECORD_BYTES_MAX // len(line) + 2


def test_the_bound_of_a_record_does_not_depend_on_the_chunks():
    fits = b"x" * RECORD_BYTES_MAX + b"\n"
    assert len(records(fits, 100_000)) == 1
    with pytest.raises(CsvStructureError, match=r"^in.csv:2: "):
        records(b"a\nx" + fits, 100_000)


@given(st.binary(max_size=60).map(lambda data: data.translate(bytes(b'a,"\n\r\x00\xffb' * 32))), st.integers(1, 60))
def test_chunks_never_change_the_records(data, chunk_bytes):
    def outcome(size: int) -> object:
        try:
            return records(data, size)
        except CsvStructureError as error:
            return str(error)

    assert outcome(chunk_bytes) == outcome(1000)


@given(st.binary(max_size=60).map(lambda data: data.translate(bytes(b'a,"\n\r\x00\xffb' * 32))))
def test_records_hold_every_byte_of_the_file_but_line_ends(data):
    try:
        found = records(data)
    except CsvStructureError:
        return
    assert b"".join(content for _, content, _ in found).replace(b"\r", b"").replace(b"\n", b"") == data.replace(
        b"\r", b""
    ).replace(b"\n", b"")


SUPPORTED = [
    *("utf-8", "ascii", "latin-1", "cp1252", "iso8859-15", "koi8-r", "mac-roman", "tis-620", "kz1048", "ptcp154"),
    *("shift_jis", "cp932", "euc_jp", "euc_kr", "cp949", "gb2312", "gbk", "gb18030", "big5", "big5hkscs", "cp950"),
]


@pytest.mark.parametrize("encoding", SUPPORTED)
def test_in_a_supported_encoding_delimiters_are_never_part_of_another_character(encoding):
    delimiters = set(b',"\r\n')
    for point in range(128, sys.maxunicode + 1 if encoding == "gb18030" else 0x10000):
        try:
            encoded = chr(point).encode(csv_encoding(encoding))
        except UnicodeEncodeError:
            continue
        assert not delimiters & set(encoded), (encoding, hex(point))
    assert b',"\r\n'.decode(csv_encoding(encoding)) == ',"\r\n'


@pytest.mark.parametrize(
    "encoding",
    ["utf-16", "utf-16-le", "utf-32", "utf-7", "iso2022_jp", "hz", "cp037", "cp500", "rot13", "base64", "idna", "nope"],
)
def test_other_encodings_are_refused(encoding):
    with pytest.raises(TerminalError, match=encoding) as refusal:
        csv_encoding(encoding)
    assert refusal.value.code == "ENCODING_UNSUPPORTED"


def test_utf8_is_the_default_and_has_one_name():
    assert csv_encoding(None) == csv_encoding("UTF8") == csv_encoding("utf-8-sig") == codecs.lookup("utf8").name

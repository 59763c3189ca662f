"""Whatever the bytes are, a reader ends in time, with a value or with the error it names.

Good inputs are broken at random, by characters, bytes and pieces; hand-made ones aim at what is quadratic or recursive;
`inputs/<target>/` keeps what was found. `TPF_FUZZ_EXAMPLES=100000 pytest tests/fuzz` looks longer.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, Target

KEPT = Path(__file__).parent / "inputs"
EXAMPLES = int(os.environ.get("TPF_FUZZ_EXAMPLES", "150"))
CPU_MAX_S = 1.0
"""Of this process, so that a busy machine is no hang."""
LONG = 100_000

PIECES = [
    b"null", b"true", b"NaN", b"-Infinity", b"1e400", b"1E-400", b"-0", b"9" * 25, b"9" * 5_000,
    b"-9223372036854775809",
    b"18446744073709551616", b"0.1", b"1e63", b"{}", b"[]", b'""', b'"', b"'", b"\\", b'"\\ud800"', b'"\\udc00\\ud800"',
    b'"\\u0000"', b"\x00", b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\r", b"\n",
    b"\r\n", b",", b":", b"[" * 70, b"]" * 70, b'{"a":' * 70, b'"a":1,"a":2,', b".", b"..", b"=", b"-", b"_", b"+",
    b" ", b"\t", b"a" * 300, b"\x01", b"\x02", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"completion", b"-1",
    b"tenantId", b"responsePayload", b"ID", b"ID,ID", b'"""', b'",', b"\x81", b"\x81\x30", b"\x82\xa0", b"WAITING",
]  # fmt: skip

LARGE = {
    "nested lists": b"[" * LONG,
    "nested and closed": b"[" * 900 + b"]" * 900,
    "nested objects": b'{"a":' * (LONG // 5),
    "digits": b"9" * LONG,
    "a fraction": b"0." + b"3" * LONG,
    "an exponent": b"1e" + b"9" * LONG,
    "one key again and again": b"{" + b",".join([b'"k":1'] * (LONG // 6)) + b"}",
    "many keys": b"{" + b",".join(b'"%d":1' % n for n in range(LONG // 8)) + b"}",
    "surrogates": b'"' + b"\\ud800" * (LONG // 6) + b'"',
    "backslashes": b'"' + b"\\" * LONG,
    "quotes": b'"' * LONG,
    "quotes and line ends": b'"\n' * (LONG // 2),
    "commas": b"," * LONG,
    "line ends": b"\n" * LONG,
    "carriage returns": b"\r" * LONG,
    "an open quote": b'ID,Amount\n1,"' + b"x\n" * (LONG // 2),
    "quote after quote": b'ID,Amount\n' + b'1,"a""' * (LONG // 6),
    "a huge header": b"ID,Amount," + b",".join(b"c%d" % n for n in range(LONG // 7)) + b"\n1,2\n",
    "a wide row": b"ID,Amount\n" + b"1," * (LONG // 2) + b"\n",
    "dots": b"." * LONG,
    "letters": b"A" * LONG,
    "blanks": b" " * LONG,
    "zeros": b"\x00" * LONG,
    "high bytes": b"\xff" * LONG,
}  # fmt: skip


def read(target: Target, data: bytes) -> None:
    began = time.process_time()
    try:
        target.read(data)
    except target.refusals as error:
        said = len(str(error))
    else:
        said = 0
    assert said < 2_000, "an error is for people, and never a copy of what came"
    took = time.process_time() - began
    assert took < CPU_MAX_S, f"{target.name} took {took:.1f} s"


@st.composite
def broken(draw: st.DrawFn, target: Target) -> bytes:
    """A sample with some pieces put in, taken out or exchanged; now and then nothing but pieces."""
    data = draw(st.sampled_from([*target.samples, b""]))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 12)))
        piece = draw(st.sampled_from(PIECES) | st.binary(max_size=4) | st.just(data[start:end] * 2))
        data = data[:start] + piece + data[end:]
    return data


each = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)


@each
def test_the_samples_are_good(target: Target) -> None:
    for sample in target.samples:
        target.read(sample)


@each
def test_broken_inputs(target: Target) -> None:
    @given(broken(target))
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), deadline=None)
    def any_of_them(data: bytes) -> None:
        read(target, data)

    any_of_them()


@each
@pytest.mark.parametrize("name", LARGE)
def test_large_inputs(target: Target, name: str) -> None:
    data = LARGE[name]
    read(target, data)
    for sample in target.samples:
        middle = len(sample) // 2
        read(target, sample + data)
        read(target, sample[:middle] + data + sample[middle:])


@pytest.mark.parametrize("path", sorted(KEPT.glob("*/*")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_kept_inputs(path: Path) -> None:
    (target,) = [it for it in TARGETS if it.name == path.parent.name]
    read(target, path.read_bytes())


def test_a_reader_that_breaks_is_found_out() -> None:
    with pytest.raises(UnicodeDecodeError):
        read(Target("bad", lambda data: str(data, "ascii").clear(), (), (LookupError,)), b"\xff")  # type: ignore[attr-defined]

"""The judge of a system-call trace, on traces written by hand: it must see what it is there to see."""

from __future__ import annotations

import pytest

from tests.benchmarks.syscalls import Findings, calls, judge

JOURNAL = "/d/data/db/000004.log"

GOOD = f"""\
7 fdatasync(9<{JOURNAL}>) = 0
5 write(3</dev/null>, "tpf-mark begin 0 2 0", 20) = 20
5 write(9<{JOURNAL}>, "\\1\\"x", 3) = 3
5 write(3</dev/null>, "tpf-mark stored", 15) = 15
7 fdatasync(9<{JOURNAL}> <unfinished ...>
6 write(4<anon_inode:[eventfd]>, "\\1", 8) = 8
7 <... fdatasync resumed>)          = 0
5 write(3</dev/null>, "tpf-mark hold 0", 15) = 15
5 write(3</dev/null>, "tpf-mark seen 0 2", 17) = 17
5 write(3</dev/null>, "tpf-mark begin 1 0 2", 20) = 20
5 write(9<{JOURNAL}>, "y", 1) = 1
5 write(3</dev/null>, "tpf-mark stored", 15) = 15
7 fdatasync(9<{JOURNAL}>) = 0
5 write(3</dev/null>, "tpf-mark hold 1", 15) = 15
8 write(11</d/out/.e.part>, "1,a", 3) = 3
8 fsync(11</d/out/.e.part>) = 0
8 rename("/d/out/.e.part", "/d/out/p.csv.out") = 0
9 +++ exited with 0 +++
""".splitlines()


def _judged(lines: list[str]) -> Findings:
    return judge(calls(lines), "/d/out", 2)


def _moved(lines: list[str], at: int, to: int) -> list[str]:
    """The line `at` stands before the line that was `to`."""
    left = [*lines]
    line = left.pop(at)
    left.insert(to if to < at else to - 1, line)
    return left


def test_a_good_trace():
    assert _judged(GOOD) == Findings(
        turns=2, syncs=2, syncs_of_turns=2, fewest_syncs=1, requests_seen=2, files=1, problems=[]
    )


def test_a_commit_that_returns_before_the_sync_does():
    assert _judged(_moved(GOOD, 7, 6)).problems == ["turn 0 was told as durable before it was synced"]


def test_a_sync_that_began_before_the_write_does_not_count():
    found = _judged(_moved(GOOD, 4, 2))
    assert "turn 0 was told as durable before it was synced" in found.problems
    assert "requests of turn 0 were seen before its sync" in found.problems
    assert found.fewest_syncs == 0


def test_a_request_that_is_seen_before_the_sync():
    assert _judged(_moved(GOOD, 8, 4)).problems == ["requests of turn 0 were seen before its sync"]


def test_a_sync_that_fails_does_not_count():
    lines = [*GOOD]
    lines[12] = lines[12].replace("= 0", "= -1 EIO (Input/output error)")
    assert "turn 1 was told as durable before it was synced" in _judged(lines).problems


def test_a_file_that_gets_its_name_before_its_content_is_synced():
    assert _judged(_moved(GOOD, 16, 15)).problems == ["/d/out/p.csv.out got its name before its content was synced"]


def test_a_file_that_gets_its_name_before_its_outputs_are_synced():
    lines = [*GOOD[:12], *GOOD[14:17], *GOOD[12:14]]
    assert _judged(lines).problems == ["/d/out/p.csv.out got its name with 0 of 2 outputs synced"]


def test_a_turn_that_never_returns():
    assert _judged(GOOD[:13] + GOOD[14:]).problems == ["turn 1 never returned from its commit"]


@pytest.mark.parametrize("lines", [[], GOOD[:9], [line for line in GOOD if "seen" not in line]])
def test_a_trace_that_shows_too_little_is_no_proof(lines):
    with pytest.raises(ValueError, match="not a whole run"):
        _judged(lines)

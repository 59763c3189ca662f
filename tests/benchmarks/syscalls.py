"""Reading a trace of `strace -f -y` and judging it: is every turn synced before anybody can see what it did?

A line of the trace stands where the call began or returned, and the traced thread waits while it is written, so the
order of lines is the order of events. A sync covers a write only if it began after the write had returned.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from tests.benchmarks.marks import PREFIX

SYSCALLS = "fsync,fdatasync,sync_file_range,write,writev,pwrite64,pwritev,pwritev2,rename,renameat,renameat2"
SYNCS = ("fsync", "fdatasync")
NEVER = 10**12

_LINE = re.compile(r"(\d+)\s+(?:<\.\.\. (\w+) resumed>|(\w+)\()(.*)")
_DESCRIPTOR = re.compile(r"\d+<([^>]*)>")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_RESULT = re.compile(r"= (-?\d+)")
_JOURNAL = re.compile(r"/db/\d+\.log$")


@dataclass(frozen=True, slots=True)
class Call:
    """One system call; `began` and `ended` are line numbers. `paths`: of its descriptor, or its quoted arguments."""

    thread: str
    name: str
    paths: tuple[str, ...]
    text: str
    began: int
    ended: int = NEVER
    ok: bool = False


@dataclass(slots=True)
class TracedTurn:
    number: int
    began: int
    requests: int
    outputs: int
    writes: list[Call] = field(default_factory=list)
    held: int = NEVER
    durable: int = NEVER


@dataclass(slots=True)
class Findings:
    """What the trace shows. `problems` empty: no effect came before the sync of its turn.

    syncs: of the journal, from the first turn to the last. syncs_of_turns: those by which a turn became durable; turns
    of several partitions can share one. fewest_syncs: of any turn, between its write and the return of its commit.
    """

    turns: int = 0
    syncs: int = 0
    syncs_of_turns: int = 0
    fewest_syncs: int = 0
    requests_seen: int = 0
    files: int = 0
    problems: list[str] = field(default_factory=list)


def calls(lines: Iterable[str]) -> Iterator[Call]:
    """Calls in the order of their return."""
    open_calls: dict[str, Call] = {}
    for number, line in enumerate(lines, start=1):
        match = _LINE.match(line)
        if match is None:
            continue
        thread, resumed, name, rest = match.groups()
        if resumed:
            call = open_calls.pop(thread, None)
            if call is None or call.name != resumed:
                raise ValueError(f"line {number}: {resumed} resumed, and never began")
        else:
            call = _call(thread, name, rest, number)
        if "<unfinished ...>" in rest:
            open_calls[thread] = call
            continue
        result = _RESULT.search(_QUOTED.sub("", rest))
        yield replace(call, ended=number, ok=result is not None and int(result[1]) >= 0)


def _call(thread: str, name: str, rest: str, number: int) -> Call:
    quoted = tuple(_QUOTED.findall(rest))
    if name.startswith("rename"):
        return Call(thread, name, quoted[:2], "", number)
    descriptor = _DESCRIPTOR.match(rest)
    return Call(thread, name, (descriptor[1] if descriptor else "",), quoted[0] if quoted else "", number)


def judge(trace: Iterable[Call], output_dir: str, rows: int) -> Findings:
    """Raises ValueError for a trace that does not show the run it should show."""
    made = sorted(trace, key=lambda call: call.began)
    turns = _turns(made)
    syncs = [call for call in made if call.name in SYNCS and call.ok]
    for turn in turns.values():
        turn.durable = max((_covered(write, syncs) for write in turn.writes), default=NEVER)
    findings = Findings(turns=len(turns))
    journal_syncs = [call for call in syncs if _JOURNAL.search(call.paths[0])]
    findings.syncs = sum(_during(call, turns.values()) for call in journal_syncs)
    findings.syncs_of_turns = len({turn.durable for turn in turns.values()} - {NEVER})
    findings.fewest_syncs = min((_syncs_within(turn, journal_syncs) for turn in turns.values()), default=0)
    for turn in turns.values():
        if turn.durable > turn.held:
            findings.problems.append(f"turn {turn.number} was told as durable before it was synced")
        elif turn.held == NEVER:
            findings.problems.append(f"turn {turn.number} never returned from its commit")
    _judge_requests(findings, made, turns.values())
    _judge_files(findings, made, syncs, turns.values(), output_dir, rows)
    if not turns or findings.requests_seen != rows or not findings.files:
        raise ValueError(f"not a whole run of {rows} rows: {findings}")
    return findings


def _turns(made: Iterable[Call]) -> dict[int, TracedTurn]:
    turns: dict[int, TracedTurn] = {}
    writing: dict[str, TracedTurn] = {}
    for call in made:
        words = _mark(call)
        if words[:1] == ["begin"]:
            number, requests, outputs = map(int, words[1:])
            turns[number] = writing[call.thread] = TracedTurn(number, call.began, requests, outputs)
        elif words == ["stored"]:
            writing.pop(call.thread, None)
        elif words[:1] == ["hold"]:
            turns[int(words[1])].held = call.began
        elif call.thread in writing and call.name not in SYNCS and _JOURNAL.search(call.paths[0]):
            writing[call.thread].writes.append(call)
    return turns


def _mark(call: Call) -> list[str]:
    return call.text.removeprefix(PREFIX).split() if call.text.startswith(PREFIX) else []


def _covered(write: Call, syncs: Iterable[Call]) -> int:
    """When the first sync of the same file that began behind the write had returned."""
    return min((it.ended for it in syncs if it.paths == write.paths and it.began > write.ended), default=NEVER)


def _syncs_within(turn: TracedTurn, syncs: Iterable[Call]) -> int:
    written = max((write.ended for write in turn.writes), default=NEVER)
    return sum(written < call.began and call.ended < turn.held for call in syncs)


def _during(call: Call, turns: Iterable[TracedTurn]) -> bool:
    """Whether the call lies between the first turn and the last; what opens and closes the log is not of a turn."""
    began = [turn.began for turn in turns]
    held = [turn.held for turn in turns if turn.held != NEVER]
    return bool(held) and min(began) < call.began < max(held)


def _judge_requests(findings: Findings, made: Iterable[Call], turns: Iterable[TracedTurn]) -> None:
    """A request is visible when the provider is given it."""
    senders = [turn for turn in turns for _ in range(turn.requests)]
    for call in made:
        words = _mark(call)
        if words[:1] != ["seen"]:
            continue
        first, end = map(int, words[1:])
        findings.requests_seen += end - first
        early = {turn.number for turn in senders[first:end] if turn.durable > call.began}
        findings.problems += [f"requests of turn {number} were seen before its sync" for number in sorted(early)]


def _judge_files(
    findings: Findings,
    made: Iterable[Call],
    syncs: Iterable[Call],
    turns: Iterable[TracedTurn],
    output_dir: str,
    rows: int,
) -> None:
    """A file is visible when it gets its name: by then its content and every output in it must be on disk."""
    written = [call for call in made if not call.name.startswith("rename") and call.name not in SYNCS]
    for call in made:
        if not call.name.startswith("rename") or not call.ok or not call.paths[1].startswith(output_dir):
            continue
        findings.files += 1
        content = [_covered(it, syncs) for it in written if it.paths[0] == call.paths[0] and it.began < call.began]
        if not content or max(content) > call.began:
            findings.problems.append(f"{call.paths[1]} got its name before its content was synced")
        outputs = sum(turn.outputs for turn in turns if turn.durable < call.began)
        if outputs != rows:
            findings.problems.append(f"{call.paths[1]} got its name with {outputs} of {rows} outputs synced")

"""Where the findings of a load are collected, so that one run tells everything that is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from tpf_streams.errors import DefinitionError, Problem

_SHOWN_MAX = 60
"""Longest piece of a file that a message repeats: enough to find it, too little to hide the message."""
_NAMED_MAX = 200
"""Most names that a message lists or a slip is compared with."""
PROBLEMS_MAX = 100
"""A load ends with so many: a file full of nonsense took minutes to find the nearest word for each of its keys."""


@dataclass(frozen=True, slots=True)
class Default:
    """A key of the file that was left out: what holds then, as it would be written, and where it would be set."""

    key: str
    value: str
    where: str


@dataclass(slots=True)
class Report:
    """Problems stop the load, the hundredth at once; the rest is for the person who starts the pipeline."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    defaults: list[Default] = field(default_factory=list)

    def problem(self, file: str, line: int, key: str, message: str) -> None:
        self.problems.append(Problem(file, line, printable(key) or "''", printable(message)))
        if len(self.problems) >= PROBLEMS_MAX:
            self.raise_problems()

    def raise_problems(self) -> None:
        """Raise DefinitionError with every problem, in the order of the file; do nothing without one."""
        if self.problems:
            raise DefinitionError(sorted(set(self.problems), key=lambda it: (it.file, it.line, it.key, it.message)))


def shown(text: str) -> str:
    """`text` as a message may repeat it: quoted, control characters escaped, cut."""
    return repr(text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…")


def printable(text: str) -> str:
    """`text` on one line and without control characters: a name from a file may hold those of a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def one_of(allowed: Iterable[str]) -> str:
    names = list(allowed)
    more = f", … and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return (", ".join(names[:_NAMED_MAX]) or "nothing") + more


def suggestion(word: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` for the nearest known word, whatever its case, or nothing."""
    names = {str(name).lower(): str(name) for name in islice(known, _NAMED_MAX)}
    near = difflib.get_close_matches(word[: _SHOWN_MAX + 1].lower(), names, n=1, cutoff=0.6)
    return f" Did you mean {names[near[0]]!r}?" if near else ""

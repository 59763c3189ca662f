"""Where the findings of a load are collected, so that one run tells everything that is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field

from tpf_streams.errors import DefinitionError, Problem

_SHOWN_MAX = 60
"""Longest piece of a file that a message repeats: enough to find it, too little to hide the message."""


@dataclass(slots=True)
class Report:
    """Problems stop the load; warnings and notes are for the person who starts the pipeline."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def problem(self, file: str, line: int, key: str, message: str) -> None:
        self.problems.append(Problem(file, line, key, message))

    def raise_problems(self) -> None:
        """Raise DefinitionError with every problem, in the order of the file; do nothing without one."""
        if self.problems:
            raise DefinitionError(sorted(set(self.problems), key=lambda it: (it.file, it.line, it.key, it.message)))


def shown(text: str) -> str:
    """`text` as a message may repeat it: quoted, control characters escaped, cut."""
    return repr(text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…")


def one_of(allowed: Iterable[str]) -> str:
    return ", ".join(allowed) or "nothing"


def suggestion(word: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` for the nearest known word, or nothing."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" Did you mean {near[0]!r}?" if near else ""

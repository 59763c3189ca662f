"""The course of a pipeline's values: where streams begin and end, worked out once from the shapes of its steps.

One value flows, or a stream of items. A stream begins where a value becomes many, and its items, numbered from 0, go
side by side as far as the *end* of it: the end of the pipeline, a step that takes them all together (MANY_TO_*), or an
await step that would need a second numbering, because each item has become many on the way. What arrives at such an end
is kept, an item a row, until everything has; then it is a *list*, and either one step takes it whole, or the next
stream begins from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Shaped(Protocol):
    """A step as the course sees it: `joins` takes many together, `expands` gives many."""

    @property
    def awaits(self) -> bool: ...

    @property
    def joins(self) -> bool: ...

    @property
    def expands(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Stream:
    """One numbering of items. Positions are indexes of steps.

    `start`: the segment from there gives the items, of one value or, where `listed`, of a list. `awaited`: the await
    step they are dispatched to; None where they wait for nobody. `end`: where they settle. `seekable`: element n of the
    source is made of item n of the list alone, so that it can begin anywhere.
    """

    number: int
    start: int
    listed: bool
    seekable: bool
    awaited: int | None
    end: int


@dataclass(frozen=True, slots=True)
class Course:
    """`gathered`: the steps before which what arrives is kept until everything has."""

    streams: tuple[Stream, ...]
    gathered: frozenset[int]


def is_stop(steps: Sequence[Shaped], index: int) -> bool:
    """Whether nothing runs from `index` on for a value that arrives there."""
    return index == len(steps) or steps[index].awaits or steps[index].joins


def segment_end(steps: Sequence[Shaped], index: int) -> int:
    """The stop behind the service steps that run from `index`; one that joins may be the first of them."""
    if index == len(steps) or steps[index].awaits:
        return index
    end = index + 1
    while not is_stop(steps, end):
        end += 1
    return end


def course_of(steps: Sequence[Shaped]) -> Course:
    """Follow the values from the input on. The input of a pipeline whose first step joins is a list."""
    walk = _Walk(steps)
    index, listed = 0, bool(steps) and steps[0].joins
    while index < len(steps) or listed:
        index, listed = walk.list_at(index) if listed else walk.value_at(index)
    return Course(tuple(walk.streams), frozenset(walk.gathered))


class _Walk:
    """Each move returns where things stand behind it, and whether a list stands there or one value."""

    def __init__(self, steps: Sequence[Shaped]) -> None:
        self.streams: list[Stream] = []
        self.gathered: set[int] = set()
        self._steps = steps

    def value_at(self, index: int) -> tuple[int, bool]:
        step = self._steps[index]
        if step.joins:
            self.gathered.add(index)
            return index, True
        if step.awaits:
            return index + 1, step.expands
        end = segment_end(self._steps, index)
        return self._stream(index, listed=False) if self._expands(index, end) else (end, False)

    def list_at(self, index: int) -> tuple[int, bool]:
        if index == len(self._steps) or not self._steps[index].joins:
            return self._stream(index, listed=True)
        step = self._steps[index]
        if step.awaits:
            return index + 1, step.expands
        end = segment_end(self._steps, index)
        return self._stream(index, listed=True) if self._expands(index, end) else (end, False)

    def _stream(self, start: int, *, listed: bool) -> tuple[int, bool]:
        steps = self._steps
        at = first = segment_end(steps, start)
        many = False
        while at < len(steps) and steps[at].awaits and not steps[at].joins and not many:
            behind = at + 1
            end = behind if is_stop(steps, behind) else segment_end(steps, behind)
            many = steps[at].expands or self._expands(behind, end)
            at = end
        seekable = listed and not any(step.joins or step.expands for step in steps[start:first])
        awaited = first if at != first else None
        self.streams.append(Stream(len(self.streams), start, listed, seekable, awaited, at))
        if at == len(steps):
            return at, False
        self.gathered.add(at)
        return at, True

    def _expands(self, start: int, end: int) -> bool:
        return any(step.expands for step in self._steps[start:end])

"""One list out of the lists of several workers, page by page, without anything missed or shown twice.

Each worker gives a part: what it has behind a place, in order, and how far it has looked. A page holds what all of them
have looked at: behind the least of these places somebody might have more, which would come too late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import takewhile
from typing import Any, Generic, Protocol, TypeVar


class Ordered(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...


P = TypeVar("P", bound=Ordered)
E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Part(Generic[E, P]):
    """`entries` in the order of their places. `looked_to`: up to this place there is nothing else; None: there is
    nothing else at all."""

    entries: Sequence[E]
    looked_to: P | None


def merged(parts: Sequence[Part[E, P]], limit: int, place_of: Callable[[E], P]) -> Part[E, P]:
    """The next page, of at most `limit` entries. No two entries of different parts have one place."""
    ends = [part.looked_to for part in parts if part.looked_to is not None]
    horizon = min(ends) if ends else None
    known = takewhile(
        lambda entry: horizon is None or not horizon < place_of(entry),
        merge(*(part.entries for part in parts), key=place_of),
    )
    shown: list[E] = []
    for entry in known:
        if len(shown) == limit:
            return Part(shown, place_of(shown[-1]))
        shown.append(entry)
    return Part(shown, horizon)

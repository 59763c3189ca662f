"""Tables of the rows that this worker holds: read-only, committed, and as fresh as the last turn.

They show the partitions of this worker and no others, as the local part of any Faust table does. Reading all of a large
one keeps the application's loop busy for as long as it lasts; looking up a key does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, NoReturn, TypeVar

from tpf_streams.runtime.views import LogViews

R = TypeVar("R")


class ReadOnlyError(TypeError):
    """A row was to be written from outside of a turn."""


class RowTable(Mapping[str, R], Generic[R]):
    """Rows by their id. Empty while no engine runs in this process."""

    def __init__(
        self,
        name: str,
        views: Callable[[], LogViews | None],
        get: Callable[[LogViews, str], R | None],
        scan: Callable[[LogViews], Iterator[tuple[str, R]]],
    ) -> None:
        self.name = name
        self._views = views
        self._get = get
        self._scan = scan

    def __getitem__(self, key: str) -> R:
        views = self._views()
        found = None if views is None else self._get(views, key)
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[str]:
        for key, _ in self._rows():
            yield key

    def __len__(self) -> int:
        return sum(1 for _ in self._rows())

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}>"

    def items(self) -> Iterator[tuple[str, R]]:  # type: ignore[override]  # as Faust's tables: one pass, no look-ups
        return self._rows()

    def values(self) -> Iterator[R]:  # type: ignore[override]
        return (row for _, row in self._rows())

    def __setitem__(self, key: str, value: object) -> NoReturn:
        raise self._refusal()

    def __delitem__(self, key: str) -> NoReturn:
        raise self._refusal()

    def _refusal(self) -> ReadOnlyError:
        return ReadOnlyError(
            f"{self.name} is read-only: its rows change in the turns of their partition's task alone, in one "
            "transaction with the changelog; submit, complete or cancel instead"
        )

    def _rows(self) -> Iterator[tuple[str, R]]:
        views = self._views()
        return iter(()) if views is None else self._scan(views)

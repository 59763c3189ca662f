"""A list over several workers, page by page, while entries end and begin: none missed, none twice, in order."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tpf_streams.runtime.pages import Part, merged

Entry = tuple[int, str]
"""Its place: a deadline, and an id that no other has."""


def own(entries: Sequence[Entry], after: Entry | None, limit: int, patience: int, wanted: str) -> Part[Entry, Entry]:
    """What a worker gives: it looks at `patience` entries at most and leaves out those that are not wanted."""
    shown: list[Entry] = []
    looked = [entry for entry in sorted(entries) if after is None or entry > after]
    for count, entry in enumerate(looked, 1):
        shown += [entry] if entry[1][0] in wanted else []
        if len(shown) == limit or count == patience:
            return Part(shown, entry)
    return Part(shown, None)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[list[Entry]], list[tuple[str, int]]]:
    """Entries of some workers; and what happens between pages: entries end, begin, or move to another worker."""
    count = draw(st.integers(0, 16))
    entries = [(draw(st.integers(0, 6)), f"{draw(st.sampled_from('ab'))}{number:03}") for number in range(count)]
    workers: list[list[Entry]] = [[] for _ in range(draw(st.integers(1, 4)))]
    for entry in entries:
        draw(st.sampled_from(workers)).append(entry)
    happens = draw(st.lists(st.tuples(st.sampled_from(("end", "begin", "move")), st.integers(0, 10**6)), max_size=12))
    return workers, happens


def happen(workers: list[list[Entry]], what: str, which: int, ended: set[Entry], begun: set[Entry]) -> None:
    there = sorted(entry for worker in workers for entry in worker)
    if what == "begin":
        begun.add(entry := (which % 8, f"a9{len(begun):03}"))
        workers[which % len(workers)].append(entry)
    elif there:
        entry = there[which % len(there)]
        next(worker for worker in workers if entry in worker).remove(entry)
        if what == "end":
            ended.add(entry)
        else:
            workers[which % len(workers)].append(entry)


@given(worlds(), st.integers(1, 7), st.integers(1, 9), st.sampled_from(("a", "ab")))
@settings(max_examples=200)
def test_what_is_there_all_the_time_is_shown_once(world, limit, patience, wanted):
    workers, happens = world
    before = {entry for worker in workers for entry in worker if entry[1][0] in wanted}
    ended: set[Entry] = set()
    begun: set[Entry] = set()
    shown: list[Entry] = []
    after: Entry | None = None
    for _ in range(100):
        page = merged([own(worker, after, limit, patience, wanted) for worker in workers], limit, lambda it: it)
        assert len(page.entries) <= limit
        shown += page.entries
        if page.looked_to is None:
            break
        assert after is None or page.looked_to > after, "every page goes on"
        after = page.looked_to
        if happens:
            what, which = happens.pop()
            happen(workers, what, which, ended, begun)
    else:
        raise AssertionError("the list has no end")
    assert shown == sorted(set(shown)), "in order, and none twice"
    assert before - ended <= set(shown) <= before | begun, "none missed that was there all the time"


@given(worlds(), st.integers(1, 7))
def test_one_page_over_all_is_the_page_of_one_worker_that_has_all(world, limit):
    workers, _ = world
    everything = [entry for worker in workers for entry in worker]
    parts = [own(worker, None, limit, 10**6, "ab") for worker in workers]
    page = merged(parts, limit, lambda it: it)
    assert list(page.entries) == sorted(everything)[:limit]
    assert (page.looked_to is None) == (len(everything) <= limit) or len(everything) == limit

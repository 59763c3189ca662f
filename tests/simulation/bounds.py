"""The engine's bounds made small: what takes a thousand items in life takes three here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from types import ModuleType

from tpf_streams.core import ending, fallback, parts, recall, state, window
from tpf_streams.engine import live_session, router, task

_SMALL: tuple[tuple[tuple[ModuleType, ...], str, tuple[int, ...]], ...] = (
    ((ending, fallback, recall), "CLOSE_AT_ONCE", (1, 2, 3)),
    ((parts,), "PAGE", (1, 2)),
    ((parts,), "ROWS_MAX", (1, 2)),
    ((window,), "DURABLE_PULL", (1, 2, 3)),
    ((state,), "_CACHE_MAX", (1, 2, 5)),
    ((task,), "LOCAL_EVENTS_MAX", (1, 2, 5)),
    ((live_session,), "PULL_MAX", (1, 2)),
    ((live_session,), "_SKIP_AT_ONCE", (1, 2)),
    ((router,), "BATCH_MAX", (1, 2, 5)),
    ((task,), "DELETE_AT_ONCE", (1, 3, 10)),
)


@contextmanager
def small_bounds(rng: Random) -> Iterator[None]:
    """Each of them small in half of the seeds."""
    before = [(module, name, getattr(module, name)) for modules, name, _ in _SMALL for module in modules]
    try:
        for modules, name, values in _SMALL:
            value, small = rng.choice(values), rng.random() < 0.5
            for module in modules:
                if small:
                    setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)

"""The user's steps, simulated: pure functions of their input, until the plan says that they raise."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import orjson

from tests.simulation.pipelines import Call, Pipeline
from tpf_streams.core.context import StepContext
from tpf_streams.core.step import ItemReject, Json
from tpf_streams.errors import TerminalError
from tpf_streams.ports import BoundStep, Clock, StepKind

BROKE, REFUSED = "StepBrokeError", "STEP_REFUSED"


class StepBrokeError(Exception):
    """A step fails; the next call may succeed."""


@dataclass(slots=True)
class Sources:
    """What the submitted inputs are, and what their streams give: the truth that outputs are compared with.

    `counts`: items of a stream by execution key. `versions`: grow when a source changes. `rejects`: places of rows that
    are no items. `keyless`: places of items that lack the field of the idempotency key; None is a scalar input.
    """

    counts: dict[str, int] = field(default_factory=dict)
    versions: Counter[str] = field(default_factory=Counter)
    changed_from: dict[tuple[str, int], int] = field(default_factory=dict)
    rejects: dict[str, frozenset[int]] = field(default_factory=dict)
    keyless: dict[str, frozenset[int | None]] = field(default_factory=dict)

    def submit(self, key: str, items: int, rng: Random) -> None:
        """A new execution key; `items` do not count for a scalar pipeline."""
        self.counts[key] = items
        self.rejects[key] = frozenset(place for place in range(items) if rng.random() < 0.05)
        places = (None, *range(items)) if rng.random() < 0.15 else ()
        self.keyless[key] = frozenset(place for place in places if rng.random() < 0.4)

    def input(self, key: str, *, listed: bool = False) -> Json:
        """What is submitted."""
        if listed:
            return [{"k": key, "n": place, "v": 0} for place in range(self.counts[key])]
        return {"k": key} if None in self.keyless[key] else {"k": key, "g": "one"}

    def change(self, key: str, first: int) -> None:
        """From here on the source gives something else from element `first` on."""
        self.versions[key] += 1
        self.changed_from[key, self.versions[key]] = first

    def version_of(self, key: str, place: int, version: int) -> int:
        """The version of one element as of a version of the whole."""
        return max((v for v in range(1, version + 1) if self.changed_from[key, v] <= place), default=0)

    def elements(self, key: str, version: int | None = None) -> Iterator[Json | ItemReject]:
        """The elements as they are now, or were; a change while it runs does not touch it."""
        version = self.versions[key] if version is None else version
        for place in range(self.counts[key]):
            if place in self.rejects[key]:
                yield ItemReject(key, place + 1, "column", "bad value", "raw")
            else:
                item = {"k": key, "n": place, "v": self.version_of(key, place, version)}
                yield item if place in self.keyless[key] else {**item, "g": f"g{place % 2}"}


@dataclass(slots=True)
class Failures:
    """How often a step still raises, by (step index, execution key, place); `for_good`: always, and terminal."""

    left: Counter[tuple[int, str, int | None]] = field(default_factory=Counter)
    for_good: set[tuple[int, str, int | None]] = field(default_factory=set)
    planned: dict[tuple[int, str, int | None], int] = field(default_factory=dict)
    raised: list[Callable[[], None]] = field(default_factory=list)

    def plan(self, place: tuple[int, str, int | None], times: int) -> None:
        """`times` 0: for good."""
        self.planned[place] = 0 if times == 0 or place in self.for_good else self.planned.get(place, 0) + times
        if times:
            self.left[place] += times
        else:
            self.for_good.add(place)

    def meet(self, place: tuple[int, str, int | None]) -> None:
        """Raise what is planned for this call."""
        if place in self.for_good or self.left[place] > 0:
            for told in self.raised:
                told()
        if place in self.for_good:
            raise TerminalError(f"step {place[0]} refuses {place[1]}/{place[2]}", REFUSED)
        if self.left[place] > 0:
            self.left[place] -= 1
            raise StepBrokeError(f"step {place[0]} breaks at {place[1]}/{place[2]}")


def origin(value: Json) -> Json:
    """The source item, or the scalar input, inside whatever steps and answers have wrapped around it."""
    while True:
        if "in" in value:
            value = value["in"]
        elif value.keys() & {"yes", "no"}:
            value = next(iter(value.values()))["of"]
        else:
            return value


def seal(values: list[Json]) -> Json:
    """A list as one value: what it held can be compared, and does not grow from list to list."""
    key = origin(values[0])["k"] if values else ""
    return {"k": key, "list": hashlib.sha256(orjson.dumps(values)).hexdigest()[:16]}


def split(index: int, value: Json) -> list[Json]:
    """What an expanding step makes of a value."""
    return [{"in": value, "s": index, "p": part} for part in range(2)]


def as_list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]


def mark(index: int, value: Json) -> Json:
    """What a step makes of its input; the field of the idempotency key is handed on."""
    item = origin(value)
    return {"in": value, "s": index, **({"g": item["g"]} if "g" in item else {})}


def takes(selective: bool, value: Json) -> bool:
    """Whether a step takes a value; a selective one lets refusals pass by."""
    return not (selective and "no" in value)


@dataclass(slots=True)
class Steps:
    """`ports.Bindings` of a pipeline."""

    pipeline: Pipeline
    sources: Sources
    failures: Failures
    clock: Clock
    pulled: Callable[[str, int], None]
    ran: Callable[[], None]

    def step(self, index: int) -> BoundStep:
        return _Bound(self, self.pipeline.calls[index])

    def decode(self, index: int, payload: Json) -> object:
        return payload

    def encode(self, index: int, value: object) -> Json:
        return value


_KINDS = {
    "function": StepKind.FUNCTION,
    "async": StepKind.ASYNC_FUNCTION,
    "generator": StepKind.GENERATOR,
    "async generator": StepKind.ASYNC_GENERATOR,
}


class _Bound:
    """`ports.BoundStep`."""

    takes_context = True

    def __init__(self, steps: Steps, call: Call) -> None:
        self.kind = _KINDS[call.style]
        self.name = f"step {call.index}"
        self._steps = steps
        self._index = call.index
        self._selective = call.selective

    def accepts(self, value: Any) -> bool:
        return takes(self._selective, value)

    def finish(self, result: Any) -> Any:
        return result

    def call(self, value: Any, context: StepContext | None) -> Any:
        step = self._steps.pipeline.definition.steps[self._index]
        if step.joins:
            return self._each(value) if step.expands else self._join(list(value))
        if self.kind is StepKind.GENERATOR:
            return self._elements(value["k"]) if self._index == 0 else self._parts(value)
        if self.kind is StepKind.ASYNC_GENERATOR:
            return self._elements_async(value["k"])
        return self._async(value) if self.kind is StepKind.ASYNC_FUNCTION else self._run(value)

    def _run(self, value: Json) -> Json:
        item = origin(value)
        self._steps.failures.meet((self._index, item["k"], item.get("n")))
        self._steps.ran()
        return mark(self._index, value)

    def _async(self, value: Json) -> Awaitable[Json]:
        async def run() -> Json:
            item = origin(value)
            # Some calls are over at once, some give way, some take a while.
            pause = (self._index + item.get("n", 0)) % 3
            await (self._steps.clock.sleep(0.05) if pause == 2 else asyncio.sleep(0))
            return self._run(value)

        return run()

    def _join(self, values: list[Json]) -> Json:
        sealed = seal(values)
        self._steps.failures.meet((self._index, sealed["k"], None))
        self._steps.ran()
        return mark(self._index, sealed)

    def _each(self, values: Iterator[Json]) -> Iterator[Json]:
        for place, value in enumerate(values):
            self._steps.failures.meet((self._index, origin(value)["k"], place))
            yield mark(self._index, value)

    def _parts(self, value: Json) -> Iterator[Json]:
        item = origin(value)
        self._steps.failures.meet((self._index, item["k"], item.get("n")))
        yield from split(self._index, value)

    def _elements(self, key: str) -> Iterator[Json | ItemReject]:
        for place, element in enumerate(self._steps.sources.elements(key)):
            self._steps.failures.meet((self._index, key, place))
            self._steps.pulled(key, place)
            yield element

    async def _elements_async(self, key: str) -> AsyncIterator[Json | ItemReject]:
        for element in self._elements(key):
            if isinstance(element, dict) and element["n"] % 2:
                await (asyncio.sleep(0) if element["n"] % 3 else self._steps.clock.sleep(0.5))
            yield element

"""A stream's segment as one source of plain JSON: generators and the steps behind them, sync or async."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterable, Iterator, Sequence
from contextlib import aclosing

from tpf_streams.core.context import StepContext
from tpf_streams.core.parts import Parts
from tpf_streams.core.step import ItemReject, Json, StepDefinition
from tpf_streams.engine.pull import AsyncSource, Element, Source, SyncSource
from tpf_streams.engine.segments import SegmentRunner, finished
from tpf_streams.ports import BoundStep, StepKind


def open_source(runner: SegmentRunner, index: int, value: object, context: StepContext) -> Source:
    """The source that the segment from step `index` makes of `value`, plain JSON, or of a list of it in rows. Nothing
    runs before `take`."""
    return open_items(runner, index, value if isinstance(value, Parts) else [value], context)


def open_items(runner: SegmentRunner, index: int, payloads: Iterable[Json], context: StepContext) -> Source:
    """The same of several payloads, one after the other; a first step that joins takes them all at once."""
    steps = runner.definition.segment(index)
    kinds = {runner.bindings.step(step.index).kind for step in steps}
    chain = _Chain(runner, steps, runner.definition.segment_end(index), context)
    items = runner.items(index, payloads)
    start: Iterable[object] = [items] if steps and steps[0].joins else items
    if kinds & {StepKind.ASYNC_FUNCTION, StepKind.ASYNC_GENERATOR}:
        return AsyncSource(runner, chain.flow_async(start))
    return SyncSource(runner, chain.flow(start))


class _Chain:
    """The steps of one segment, an item at a time; rejects pass by."""

    def __init__(self, runner: SegmentRunner, steps: Sequence[StepDefinition], end: int, context: StepContext) -> None:
        self._runner = runner
        self._steps = steps
        self._end = end
        self._context = context

    def flow(self, start: Iterable[object]) -> Generator[Element, None, None]:
        for value in start:
            yield from self._from(0, value)

    def _from(self, place: int, value: object) -> Iterator[Element]:
        if isinstance(value, ItemReject):
            yield value
        elif place == len(self._steps):
            yield self._runner.bindings.encode(self._end, value)
        else:
            step = self._steps[place]
            bound = self._runner.bindings.step(step.index)
            if not bound.accepts(value):
                yield from self._from(place + 1, value)
            elif step.expands:
                results = bound.call(value, self._context)
                try:
                    for item in results:
                        yield from self._from(place + 1, finished(bound, item))
                finally:
                    _close(results)
            else:
                yield from self._from(place + 1, finished(bound, bound.call(value, self._context)))

    async def flow_async(self, start: Iterable[object]) -> AsyncGenerator[Element, None]:
        for value in start:
            async with aclosing(self._from_async(0, value)) as elements:
                async for element in elements:
                    yield element

    async def _from_async(self, place: int, value: object) -> AsyncGenerator[Element, None]:
        if isinstance(value, ItemReject):
            yield value
            return
        if place == len(self._steps):
            yield self._runner.bindings.encode(self._end, value)
            return
        step = self._steps[place]
        bound = self._runner.bindings.step(step.index)
        if not bound.accepts(value):
            async for element in self._from_async(place + 1, value):
                yield element
            return
        async with aclosing(self._results(step, bound, value)) as results:
            async for item in results:
                async with aclosing(self._from_async(place + 1, finished(bound, item))) as elements:
                    async for element in elements:
                        yield element

    async def _results(self, step: StepDefinition, bound: BoundStep, value: object) -> AsyncGenerator[object, None]:
        if bound.kind == StepKind.ASYNC_GENERATOR:
            async with aclosing(self._runner.step_loop.iterate(bound.call(value, self._context))) as results:
                async for item in results:
                    yield item
            return
        result = await self._runner.call(bound, value, self._context)
        if not step.expands:
            yield result
            return
        # A sync generator works while it is asked for an item: in the pool, or it would hold up the loop.
        waiting = iter(result)
        try:
            while (item := await self._runner.in_pool(lambda: next(waiting, _END))) is not _END:
                yield item
        finally:
            await self._runner.in_pool(lambda: _close(waiting))


_END = object()


def _close(results: object) -> None:
    """Let a generator of the user's go now, and not when nobody refers to it any more."""
    close = getattr(results, "close", None)
    if close is not None:
        close()

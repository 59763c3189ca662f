"""Running the user's steps: a segment at a time, inline in the turn or owed after it."""

from __future__ import annotations

import asyncio
import contextvars
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

from tpf_streams.core.context import StepContext
from tpf_streams.core.events import SegmentCompleted, SegmentFailed
from tpf_streams.core.execution import OwedRecord
from tpf_streams.core.parts import Parts
from tpf_streams.core.step import Cardinality, Json, PipelineDefinition, StepDefinition
from tpf_streams.engine.jobs import Pause
from tpf_streams.engine.retry import RetryPolicy, code_of, is_control, is_terminal, message_of
from tpf_streams.engine.step_loop import StepLoop
from tpf_streams.errors import TerminalError
from tpf_streams.ports import Bindings, BoundStep, Clock, StepKind


class SegmentRunner:
    """Calls the bound steps. Holds no state of an execution.

    `executor` None: sync steps run on the caller's thread, for tests and simulation that must be repeatable. `loop`:
    where async steps run, None for the caller's.
    """

    def __init__(
        self,
        definition: PipelineDefinition,
        bindings: Bindings,
        clock: Clock,
        policy: RetryPolicy,
        executor: Executor | None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.definition = definition
        self.bindings = bindings
        self.clock = clock
        self.policy = policy
        self.executor = executor
        self.step_loop = StepLoop(loop)
        self._inline = {
            index: bool(steps) and all(self._quick(step) for step in steps)
            for index, steps in ((i, definition.segment(i)) for i in range(len(definition.steps)))
        }
        self._told = {
            index: any(bindings.step(step.index).takes_context for step in definition.segment(index))
            for index in self._inline
        }

    def _quick(self, step: StepDefinition) -> bool:
        return (
            step.inline
            and step.cardinality is Cardinality.ONE_TO_ONE
            and self.bindings.step(step.index).kind == StepKind.FUNCTION
        )

    def inline(self, index: int) -> bool:
        """Whether the segment from `index` is declared pure and quick, and so runs inside the turn."""
        return self._inline[index]

    def tells_inline(self, index: int) -> bool:
        """Whether a step of the inline segment from `index` asks for a context: one is made of two rows each time."""
        return self._told[index]

    def run_inline(self, owed: OwedRecord, value: object, converted: bool, context: StepContext | None) -> list[Json]:
        """The segment's outputs. Raises whatever a step raises."""
        if not converted:
            value = self.bindings.decode(owed.step_index, value)
        for step in self.definition.segment(owed.step_index):
            bound = self.bindings.step(step.index)
            if bound.accepts(value):
                value = finished(bound, bound.call(value, context))
        return [self.bindings.encode(self.definition.segment_end(owed.step_index), value)]

    async def run(
        self, owed: OwedRecord, value: object, converted: bool, context: StepContext
    ) -> SegmentCompleted | SegmentFailed | Pause:
        """Run once: how it ended, or when to run it again."""
        return await self.tried(owed, context, lambda told: self._run_once(owed, value, converted, told))

    async def tried(
        self, owed: OwedRecord, context: StepContext, once: Callable[[StepContext], Awaitable[Sequence[Json]]]
    ) -> SegmentCompleted | SegmentFailed | Pause:
        """What `once` gives, or when to ask it again."""
        try:
            return SegmentCompleted(owed, await once(context))
        except BaseException as error:
            if is_control(error):
                raise
            pause = self.policy.pause_s(context.attempt, error)
            if pause is None:
                return SegmentFailed(
                    owed, code_of(error), message_of(error), detail_of(error), retryable=not is_terminal(error)
                )
            again = replace(context, attempt=context.attempt + 1)
            return Pause(pause, lambda: self.tried(owed, again, once))

    async def _run_once(self, owed: OwedRecord, value: object, converted: bool, context: StepContext) -> Sequence[Json]:
        if isinstance(value, Parts):
            value = self.items(owed.step_index, value)
        elif not converted:
            value = self.bindings.decode(owed.step_index, value)
        for step in self.definition.segment(owed.step_index):
            bound = self.bindings.step(step.index)
            if bound.accepts(value):
                value = finished(bound, await self.call(bound, value, context))
        return [self.bindings.encode(self.definition.segment_end(owed.step_index), value)]

    def items(self, index: int, payloads: Iterable[Json]) -> Iterator[object]:
        """The items of a list as the step at `index` takes them, read as it asks for them."""
        return (self.bindings.decode(index, payload) for payload in payloads)

    async def call(self, bound: BoundStep, value: object, context: StepContext) -> Any:
        """One step that gives one result: an async one on the loop of steps, a sync one in the pool."""
        if bound.kind == StepKind.ASYNC_FUNCTION:
            return await self.step_loop.run(lambda: bound.call(value, context))
        return await self.in_pool(lambda: bound.call(value, context))

    async def in_pool(self, function: Callable[[], Any]) -> Any:
        """Run blocking code beside the loop, in the caller's context."""
        if self.executor is None:
            return _contained(function)
        copied = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self.executor, lambda: copied.run(_contained, function))


def _contained(function: Callable[[], Any]) -> Any:
    """No future can hold a StopIteration: a step that raises one would never be heard of again."""
    try:
        return function()
    except StopIteration as error:
        raise RuntimeError("the step raised StopIteration") from error


def finished(bound: BoundStep, result: Any) -> Any:
    """A step's result as it flows on. Raises PayloadError, or TerminalError when there is none."""
    if result is None:
        raise TerminalError(f"step {bound.name!r} returned nothing", "NO_OUTPUT")
    return bound.finish(result)


def detail_of(error: BaseException) -> str:
    """The traceback, for the record; never for the screen."""
    return "".join(traceback.format_exception(error))

"""An item that becomes many on its way: its answer is a list, or a step behind the answer gives several values."""

from __future__ import annotations

from functools import partial

from tpf_streams.core.context import StepContext
from tpf_streams.core.events import SegmentCompleted, SegmentFailed
from tpf_streams.core.execution import OwedRecord
from tpf_streams.core.joining import elements
from tpf_streams.core.json_policy import row_bytes
from tpf_streams.core.step import ItemReject, Json, PipelineDefinition
from tpf_streams.engine.jobs import Pause
from tpf_streams.engine.pull import Element
from tpf_streams.engine.segments import SegmentRunner
from tpf_streams.engine.source import open_items
from tpf_streams.errors import PayloadError, TerminalError

_AT_ONCE = 256


def answers_many(definition: PipelineDefinition, index: int) -> bool:
    """Whether what flows into step `index` is the answer of an await step that gives many."""
    return index > 0 and definition.steps[index - 1].awaits and definition.steps[index - 1].expands


def expands(definition: PipelineDefinition, index: int) -> bool:
    """Whether an item that goes on at step `index` comes out of its segment as many."""
    return answers_many(definition, index) or any(step.expands for step in definition.segment(index))


async def run_expanding(
    runner: SegmentRunner, owed: OwedRecord, value: object, context: StepContext
) -> SegmentCompleted | SegmentFailed | Pause:
    """As `SegmentRunner.run`; `value` is plain JSON."""
    return await runner.tried(owed, context, partial(_once, runner, owed, value))


async def _once(runner: SegmentRunner, owed: OwedRecord, value: object, context: StepContext) -> list[Json]:
    items = elements(value) if answers_many(runner.definition, owed.step_index) else [value]
    source = open_items(runner, owed.step_index, items, context)
    limit = runner.definition.limits.max_aggregate_bytes
    found: list[Json] = []
    size = 0
    try:
        while taken := await source.take(_AT_ONCE):
            plain = [_plain(element) for element in taken]
            found.extend(plain)
            size += row_bytes(plain)
            if size > limit:
                message = f"an item became more than {limit} bytes (pipeline.max-aggregate-bytes)"
                raise TerminalError(message, "PAYLOAD_TOO_LARGE")
    finally:
        await source.close()
    return found


def _plain(element: Element) -> Json:
    if isinstance(element, ItemReject):
        raise PayloadError(f"a step behind an answer rejects a part of an item: {element.reason}")
    return element

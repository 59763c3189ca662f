"""Lists: what a stream comes to where a step takes all of it together, and what a stream may begin from.

A list is rows, one an item (contract 0.21), under the step that takes it. Nothing else holds it: the row of an
aggregate interaction has neither request nor answer in it, so that no turn writes them again.
"""

from __future__ import annotations

from collections.abc import Sequence

from tpf_streams.core.effects import RequestSlot, RunSegment, StartSource
from tpf_streams.core.evolve import replace
from tpf_streams.core.execution import ExecutionRecord, ExecutionStatus, OwedKind, OwedRecord, PartRecord, Summary
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.json_policy import row_bytes
from tpf_streams.core.parts import in_rows
from tpf_streams.core.state import Draft, State
from tpf_streams.core.step import AnyStep, AwaitDefinition, Cardinality, Json, StepDefinition
from tpf_streams.core.unit import SessionRecord
from tpf_streams.errors import PayloadError

INPUT_ITEMS = "pipeline.orchestrator.await-aggregate-max-input-items"
OUTPUT_ITEMS = "pipeline.orchestrator.await-aggregate-max-output-items"


def open_stream(draft: Draft, execution: ExecutionRecord, owed: OwedRecord) -> None:
    """Owe the source of the stream that begins at `owed.step_index`."""
    stream = draft.definition.stream_from(owed.step_index)
    assert stream is not None, "a source is where a stream begins"
    draft.put_owed(owed)
    carried = execution.summary or Summary()
    draft.put_session(
        SessionRecord(
            execution.execution_id,
            live=stream.awaited is None or draft.step(stream.awaited).transport.live,
            rejected_rows=carried.rejected_rows,
            rejected_items=carried.rejected_items,
            by_arm=carried.by_arm,
            stream=stream.number,
        )
    )
    draft.effect(StartSource(execution.execution_id))


def end_stream(draft: Draft, execution: ExecutionRecord, session: SessionRecord) -> None:
    """Everything of a stream has arrived where it ends, and a step behind it takes the list."""
    end = draft.definition.course.streams[session.stream].end
    draft.delete(draft.keys.session(execution.execution_id))
    execution = replace(
        execution,
        status=ExecutionStatus.RUNNING,
        version=execution.version + 1,
        current_step_index=end,
        await_unit_id=None,
        updated_at_epoch_ms=draft.now_ms,
        summary=counted(execution, session, outputs=0),
    )
    draft.put_execution(execution)
    take_list(draft, execution, end, session.outputs)


def counted(execution: ExecutionRecord, session: SessionRecord, outputs: int) -> Summary:
    """The counts of an execution so far; its items are those of its first stream."""
    carried = execution.summary
    return Summary(
        items=session.next_item_index if carried is None else carried.items,
        outputs=outputs,
        rejected_rows=session.rejected_rows,
        rejected_items=session.rejected_items,
        by_arm=session.by_arm,
    )


def take_list(draft: Draft, execution: ExecutionRecord, index: int, count: int) -> None:
    """The list of `count` items that is taken at step `index` is complete."""
    definition = draft.definition
    owed = OwedRecord(execution.execution_id, OwedKind.SEGMENT, None, index, attempt=execution.attempt)
    if definition.stream_from(index) is not None:
        open_stream(draft, execution, owed)
        return
    step = definition.steps[index]
    if isinstance(step, StepDefinition):
        draft.put_owed(owed)
        draft.effect(RunSegment(owed, None))
    elif count == 0 and step.cardinality is Cardinality.MANY_TO_MANY:
        take_list(draft, execution, index + 1, 0)
    else:
        # Read in a turn of its own, with the slot: the last items of the list are only written by this one.
        owed = replace(owed, kind=OwedKind.SLOT)
        draft.put_owed(owed)
        draft.effect(RequestSlot(owed))


def put_list(draft: Draft, execution_id: str, index: int, items: Sequence[Json]) -> None:
    """Write a list that came whole, an input or an answer, for the step that takes it."""
    for number, part in enumerate(in_rows(items)):
        draft.put(draft.keys.part(execution_id, index, number), part)


def gathered(
    draft: Draft, session: SessionRecord, index: int, item_index: int, outputs: Sequence[Json]
) -> SessionRecord:
    """An item has come to the end of its stream, and is kept there until all have."""
    draft.put(draft.keys.part(session.execution_id, index, item_index), PartRecord(list(outputs)))
    size = sum(row_bytes(output) + 1 for output in outputs)
    return replace(session, outputs=session.outputs + len(outputs), output_bytes=session.output_bytes + size)


def check_request(draft: Draft, index: int, items: int, size: int) -> None:
    """Whether a list that has come to `items` of together `size` bytes can still become the request of step `index`.

    Asked with each item: the first one over ends it, before anything of the boundary is created. Raises PayloadError.
    """
    step = draft.definition.steps[index] if index < len(draft.definition.steps) else None
    if not isinstance(step, AwaitDefinition) or not step.joins:
        return
    limits = draft.definition.limits
    if 0 < limits.max_aggregate_input_items < items:
        raise PayloadError(
            f"Await step {step.step_id} materialized {items} input items for {step.cardinality}, exceeding "
            f"{INPUT_ITEMS}={limits.max_aggregate_input_items}.",
            "AGGREGATE_LIMIT",
        )
    if size > limits.max_aggregate_bytes:
        raise PayloadError(
            f"the request of {step.step_id} has over {limits.max_aggregate_bytes} bytes (pipeline.max-aggregate-bytes)",
            "PAYLOAD_TOO_LARGE",
        )


def check_list(draft: Draft, what: str, items: Sequence[Json]) -> None:
    """Whether each item of a list that came whole fits a row. Raises PayloadError."""
    limit = draft.definition.limits.max_payload_bytes
    for number, item in enumerate(items):
        size = row_bytes(item)
        if size > limit:
            message = f"item {number} of {what} has {size} bytes; pipeline.max-payload-bytes is {limit}"
            raise PayloadError(message, "PAYLOAD_TOO_LARGE")


def check_together(draft: Draft, outputs: Sequence[Json], step: AnyStep) -> None:
    """What one item became stands in one row: a row over what a log takes would break its commit, for ever. Raises
    PayloadError."""
    limit = draft.definition.limits.max_aggregate_bytes
    if row_bytes(outputs) > limit:
        message = f"the outputs of {step.step_id} for one item have over {limit} bytes (pipeline.max-aggregate-bytes)"
        raise PayloadError(message, "PAYLOAD_TOO_LARGE")


def elements(payload: Json) -> list[Json]:
    """The items of an answer; one that is no list is one item (contract section 5)."""
    return payload if isinstance(payload, list) else [payload]


def whole_request(state: State, interaction: InteractionRecord) -> InteractionRecord:
    """The interaction with its request in it, as a transport sends it and a person sees it."""
    step = state.definition.steps[interaction.step_index]
    if not step.joins:
        return interaction
    return replace(interaction, request_payload=state.parts_now(interaction.execution_id, interaction.step_index))


def stored_answer(draft: Draft, step: AwaitDefinition, interaction: InteractionRecord) -> Json:
    """The answer that a completed interaction was given, to compare another one with."""
    if not step.expands:
        return interaction.response_payload
    if interaction.item_index is not None:
        return elements(interaction.response_payload)
    return draft.state.parts_now(interaction.execution_id, step.index + 1)


def plain_answer(step: AwaitDefinition, payload: Json) -> Json:
    """An answer in the form in which two are compared."""
    return elements(payload) if step.expands else payload

"""The items of a redriven stream: each is taken up where it stands, in order, as the window has room for it."""

from __future__ import annotations

from collections.abc import Sequence

from tpf_streams.core.continuation import item_failed, stop_source
from tpf_streams.core.course import Stream
from tpf_streams.core.dead_letter import TerminalReason
from tpf_streams.core.dispatch import dispatch, dispatch_when_allowed
from tpf_streams.core.effects import UseSlot
from tpf_streams.core.ending import CLOSE_AT_ONCE, await_steps, close_interaction, finish_if_drained
from tpf_streams.core.events import ItemsRecalled
from tpf_streams.core.evolve import replace
from tpf_streams.core.execution import ExecutionRecord, OwedKind, OwedRecord, PartRecord, RejectRecord
from tpf_streams.core.fallback import start_item
from tpf_streams.core.gates import end_source, item_unanswered, stream_await
from tpf_streams.core.generations import newest
from tpf_streams.core.interaction import InteractionRecord, InteractionStatus
from tpf_streams.core.json_policy import row_bytes
from tpf_streams.core.state import Draft
from tpf_streams.core.step import AwaitDefinition, Json, OnItemFailure
from tpf_streams.core.unit import Recall, SessionRecord
from tpf_streams.errors import PayloadError


def items_recalled(draft: Draft, event: ItemsRecalled) -> None:
    """Take up at most `event.count` items that are not settled, and pass by a bounded number of those that are."""
    execution = draft.execution(event.execution_id)
    session = draft.session(event.execution_id)
    if execution is None or execution.status.terminal or session is None:
        return
    if session.source_ended or not session.recalling or event.generation != execution.generation:
        return
    if session.next_item_index != event.first:
        return
    room = event.count
    for _ in range(CLOSE_AT_ONCE):
        if room == 0 or not session.recalling:
            break
        room -= recall_item(draft, execution, session)
        session = draft.session(event.execution_id)
        if session is None or session.source_ended:
            # One of them has failed the execution: what is in flight drains, and the rest waits for another redrive.
            break
    if session is None or session.source_ended:
        if session is not None:
            finish_if_drained(draft, execution, session)
        return
    recall = session.recall
    if recall is not None and recall.ended and not session.recalling:
        finish_if_drained(draft, execution, end_source(draft, execution, session))


def stream_of(draft: Draft, session: SessionRecord) -> Stream:
    return draft.definition.course.streams[session.stream]


def recall_item(draft: Draft, execution: ExecutionRecord, session: SessionRecord) -> int:
    """Take up the next item; -> how many places of the window it takes, 0 or 1."""
    number, stream = session.next_item_index, stream_of(draft, session)
    given = settled_with(draft, session, number)
    rejected = draft.state.get_bytes(draft.keys.rejected(execution.execution_id, stream.end, number))
    session = replace(session, next_item_index=number + 1)
    if given is not None and rejected is None:
        draft.put_session(kept(draft, session, given))
        return 0
    found = furthest(draft, execution, stream, number)
    draft.put_session(session)
    if found is None:
        keep_reject(draft, execution, stream, number)
        return 0
    if rejected is not None:
        session = forget_reject(draft, session, number, int.from_bytes(rejected, "big"))
    step, interaction = found
    answered = interaction.status is InteractionStatus.COMPLETED
    draft.put_session(passed(draft, session, step.index + 1 if answered else step.index))
    if not answered:
        ask_item_again(draft, execution, session, step, interaction)
    elif session.live or step is not stream_await(draft, session):
        start_item(draft, execution, step, interaction, holds_slot=None)
    # Else its answer waits for the gates of the durable path, and the release behind them finds it.
    return 1


def settled_with(draft: Draft, session: SessionRecord, number: int) -> Sequence[Json] | None:
    """What the item came to at the end of its stream, or None."""
    end = stream_of(draft, session).end
    if end == len(draft.definition.steps):
        output = draft.output(session.execution_id, number)
        return None if output is None else output.payloads
    part = draft.get(draft.keys.part(session.execution_id, end, number), PartRecord)
    return None if part is None else part.payloads


def furthest(
    draft: Draft, execution: ExecutionRecord, stream: Stream, number: int
) -> tuple[AwaitDefinition, InteractionRecord] | None:
    """The last await step of the stream that the item has reached, and its newest interaction there."""
    for step in reversed(steps_of(draft, stream)):
        interaction = newest(draft, execution, step, number)
        if interaction is not None:
            return step, interaction
    return None


def steps_of(draft: Draft, stream: Stream) -> list[AwaitDefinition]:
    """The await steps that a stream's items pass."""
    if stream.awaited is None:
        return []
    return [step for step in await_steps(draft) if stream.awaited <= step.index < stream.end]


def passed(draft: Draft, session: SessionRecord, index: int) -> SessionRecord:
    """Count the item's answer at every await step of the stream before `index`."""
    counts = dict(session.completed)
    for step in steps_of(draft, stream_of(draft, session)):
        if step.index < index:
            counts[str(step.index)] = counts.get(str(step.index), 0) + 1
    return replace(session, completed=counts)


def kept(draft: Draft, session: SessionRecord, given: Sequence[Json]) -> SessionRecord:
    """The item has come to its end, and counts as it did; by arm it was counted then."""
    session = passed(draft, session, len(draft.definition.steps))
    size = 0
    if stream_of(draft, session).end < len(draft.definition.steps):
        size = sum(row_bytes(each) + 1 for each in given)
    return replace(
        session,
        settled=session.settled + 1,
        outputs=session.outputs + len(given),
        output_bytes=session.output_bytes + size,
    )


def forget_reject(draft: Draft, session: SessionRecord, number: int, ordinal: int) -> SessionRecord:
    """The item is tried once more: it is not rejected. Ordinals are given once: one that is free stays so."""
    keys, execution_id, end = draft.keys, session.execution_id, stream_of(draft, session).end
    last = end == len(draft.definition.steps)
    draft.delete(keys.output(execution_id, number) if last else keys.part(execution_id, end, number))
    draft.delete(keys.rejected(execution_id, end, number))
    draft.delete(keys.reject(execution_id, ordinal))
    draft.fact("item.recalled.total", {}, executionId=execution_id, itemIndex=number, stream=session.stream)
    recall = session.recall or Recall(0, ended=False, rejects=0)
    recall = replace(recall, rejects=recall.rejects + 1)
    return replace(session, rejected_items=session.rejected_items - 1, recall=recall)


def keep_reject(draft: Draft, execution: ExecutionRecord, stream: Stream, number: int) -> None:
    """An item that could not even be asked for is not kept, so that there is nothing to ask with: it stays rejected,
    and where that fails an execution it fails this one again."""
    session = draft.session(execution.execution_id)
    if session is None:
        return
    draft.put_session(replace(session, settled=session.settled + 1))
    if stream.awaited is not None:
        item_unanswered(draft, execution, draft.step(stream.awaited))
    session = draft.session(execution.execution_id)
    if session is not None and draft.definition.on_item_failure is OnItemFailure.FAIL_EXECUTION:
        code, message = reject_reason(draft, execution, stream, number)
        stop_source(draft, execution, session, (code, message, "", TerminalReason.NON_RETRYABLE), publish=False)


def reject_reason(draft: Draft, execution: ExecutionRecord, stream: Stream, number: int) -> tuple[str, str]:
    ordinal = draft.state.get_bytes(draft.keys.rejected(execution.execution_id, stream.end, number)) or b"\0"
    key = draft.keys.reject(execution.execution_id, int.from_bytes(ordinal, "big"))
    row = draft.get(key, RejectRecord)
    code, _, message = ("REJECTED: item " + str(number) if row is None else row.reason).partition(": ")
    return code, message


def ask_item_again(
    draft: Draft, execution: ExecutionRecord, session: SessionRecord, step: AwaitDefinition, last: InteractionRecord
) -> None:
    """The same request under new ids. At the stream's own await step the session holds the slot already."""
    if not last.status.terminal:
        close_interaction(draft, last, InteractionStatus.CANCELLED)
    owed = OwedRecord(execution.execution_id, OwedKind.SLOT, last.item_index, step.index, payload=last.request_payload)
    try:
        if step is stream_await(draft, session):
            draft.effect(UseSlot(execution.execution_id))
            owed = replace(owed, holds_slot=step.index)
            dispatch(draft, execution, step.index, last.item_index, last.request_payload)
        else:
            dispatch_when_allowed(draft, execution, owed)
    except PayloadError as error:
        item_failed(draft, execution, owed, error.code, str(error), "")

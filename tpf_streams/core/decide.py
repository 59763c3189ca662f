"""`decide(state, event) -> Decision`: the whole machine in one table. Pure: no I/O, no clock, no random, no logging."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tpf_streams.core import events
from tpf_streams.core.admission import completion_received, early_due
from tpf_streams.core.continuation import interaction_ended, item_failed, segment_completed, slot_granted
from tpf_streams.core.dead_letter import TerminalReason, reason_of
from tpf_streams.core.dispatch import sent
from tpf_streams.core.effects import ReturnSlot
from tpf_streams.core.ending import continue_closing, fail_bare, fail_execution, publish_failed, published
from tpf_streams.core.execution import ExecutionRecord, OwedKind, OwedRecord
from tpf_streams.core.fallback import release, session_cancelled
from tpf_streams.core.interaction import InteractionStatus
from tpf_streams.core.outcome import OperatorOutcome
from tpf_streams.core.recall import items_recalled
from tpf_streams.core.redrive import redrive_requested
from tpf_streams.core.retention import life_ended, retention_reached
from tpf_streams.core.retry import retries_due, retry_later
from tpf_streams.core.source import items_pulled, source_failed, submitted
from tpf_streams.core.state import Decision, Draft, State
from tpf_streams.core.timeout import deadlines_reached


def decide(state: State, event: events.Event) -> Decision:
    """What `event` changes and asks for, given `state`. The same state and event give the same decision."""
    draft = Draft(state)
    _TABLE[type(event)](draft, event)
    return draft.decision()


def owing(draft: Draft, owed: OwedRecord) -> ExecutionRecord | None:
    """The execution of a local result that is still owed, or None: a repeat, or the execution has ended.

    A result that is not owed any more must change nothing (architecture D3, incarnations).
    """
    current = draft.owed(owed.execution_id, owed.kind, owed.item_index)
    execution = draft.execution(owed.execution_id)
    if (current is not owed and current != owed) or execution is None or execution.status.terminal:
        return None
    return execution


def _segment_completed(draft: Draft, event: events.SegmentCompleted) -> None:
    execution = owing(draft, event.owed)
    if execution is not None:
        segment_completed(draft, execution, event.owed, event.outputs)


def _segment_failed(draft: Draft, event: events.SegmentFailed) -> None:
    execution = owing(draft, event.owed)
    if execution is not None and not retry_later(draft, execution, event):
        reason = reason_of(retryable=event.retryable)
        item_failed(draft, execution, event.owed, event.code, event.message, event.detail, reason)


def _slot_granted(draft: Draft, event: events.SlotGranted) -> None:
    execution = owing(draft, event.owed)
    if execution is None:
        draft.effect(ReturnSlot(event.owed.execution_id, event.owed.step_index))
    else:
        slot_granted(draft, execution, event.owed)


def _request_failed(draft: Draft, event: events.RequestFailed) -> None:
    execution = owing(draft, event.owed)
    interaction = draft.interaction(event.owed.interaction_id or "")
    if execution is None or interaction is None:
        return
    draft.done(event.owed)
    if not interaction.status.terminal:
        code, reason = "DISPATCH_FAILED", reason_of(retryable=event.retryable)
        interaction_ended(draft, interaction, InteractionStatus.FAILED, code, event.message, event.detail, reason)


def _owed_due(draft: Draft, event: events.OwedDue) -> None:
    if draft.owed(event.owed.execution_id, event.owed.kind, event.owed.item_index) != event.owed:
        return
    if event.owed.kind is OwedKind.CLOSE:
        continue_closing(draft, event.owed)
    else:
        release(draft, event.owed)


def _arrival_marked(draft: Draft, event: events.ArrivalMarked) -> None:
    stored = draft.state.markers
    draft.put(draft.keys.markers, {**stored, **event.offsets})


def _execution_cancelled(draft: Draft, event: events.ExecutionCancelled) -> None:
    execution = draft.execution(event.execution_id)
    draft.outcome = OperatorOutcome.NOT_FOUND if execution is None else OperatorOutcome.TERMINAL
    if execution is not None and not execution.status.terminal:
        draft.outcome = OperatorOutcome.CANCELLED
        fail_execution(draft, execution, "CANCELLED", event.reason, reason=TerminalReason.UNREPORTED)


def _interaction_cancelled(draft: Draft, event: events.InteractionCancelled) -> None:
    interaction = draft.interaction(event.interaction_id)
    draft.outcome = OperatorOutcome.NOT_FOUND if interaction is None else OperatorOutcome.TERMINAL
    if interaction is not None and not interaction.status.terminal:
        draft.outcome = OperatorOutcome.CANCELLED
        message = f"Await interaction cancelled: {event.reason}"
        interaction_ended(draft, interaction, InteractionStatus.CANCELLED, "AWAIT_CANCELLED", message)


def _decision_raised(draft: Draft, event: events.DecisionRaised) -> None:
    execution = draft.execution(event.execution_id)
    if execution is not None and not execution.status.terminal:
        fail = fail_bare if event.bare else fail_execution
        fail(draft, execution, "INTERNAL_ERROR", event.message, event.detail)


_TABLE: dict[type, Callable[[Draft, Any], None]] = {
    events.ExecutionSubmitted: submitted,
    events.CompletionReceived: completion_received,
    events.ArrivalMarked: _arrival_marked,
    events.ItemsPulled: items_pulled,
    events.ItemsRecalled: items_recalled,
    events.SourceFailed: source_failed,
    events.SegmentCompleted: _segment_completed,
    events.SegmentFailed: _segment_failed,
    events.SlotGranted: _slot_granted,
    events.EarlyDue: lambda draft, event: early_due(draft, event.interaction_id),
    events.RequestSent: lambda draft, event: sent(draft, event.owed, dict(event.metadata)),
    events.RequestFailed: _request_failed,
    events.OwedDue: _owed_due,
    events.DeadlinesReached: lambda draft, event: deadlines_reached(draft, event.limit),
    events.RetriesDue: lambda draft, event: retries_due(draft, event.limit),
    events.RetentionReached: lambda draft, event: retention_reached(draft, event.limit),
    events.LifeEnded: life_ended,
    events.ObjectPublished: published,
    events.PublishFailed: publish_failed,
    events.SessionCancelled: lambda draft, event: session_cancelled(draft, event.execution_id),
    events.ExecutionCancelled: _execution_cancelled,
    events.InteractionCancelled: _interaction_cancelled,
    events.RedriveRequested: redrive_requested,
    events.DecisionRaised: _decision_raised,
}

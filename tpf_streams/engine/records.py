"""Records in and out of a turn: what came as events, and the effects that join the transaction as records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tpf_streams.core import effects as fx
from tpf_streams.core.events import CompletionReceived, Event, ExecutionSubmitted
from tpf_streams.core.identity import id_bytes, partition_of, route_of
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.state import State
from tpf_streams.core.step import AwaitDefinition, PipelineDefinition
from tpf_streams.engine.environment import Environment
from tpf_streams.engine.wire import (
    Origin,
    WireError,
    dead_execution_record,
    dead_letter_record,
    dead_letters_topic,
    decode_event,
    encode_life_ended,
    encode_submission,
    events_topic,
    item_reject_record,
    item_rejects_topic,
    output_record,
)
from tpf_streams.ports import InputRecord, Record

Decoded: TypeAlias = tuple[InputRecord, Event | WireError]
"""A record and the event that it is, or why it is none."""


def decoded(definition: PipelineDefinition, found: Sequence[InputRecord]) -> list[Decoded]:
    """The events of a batch, in its order."""
    events: list[Decoded] = []
    for record in found:
        try:
            events.append((record, decode_event(record, definition.limits, strict=definition.strict_envelopes)))
        except WireError as error:
            events.append((record, error))
    return events


def prefetch(state: State, found: Sequence[Decoded]) -> None:
    """One multi-get for the rows of a batch of answers."""
    named = [event.envelope.interaction_id for _, event in found if isinstance(event, CompletionReceived)]
    ids = [id_bytes(name) for name in named if name is not None]
    state.prefetch(InteractionRecord, [state.keys.interaction_of(raw) for raw in ids if raw is not None])


class RecordMaker:
    """Makes the records of a turn. Holds nothing of it."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._dead_letters = dead_letters_topic(env.definition.application_id)
        self._item_rejects = item_rejects_topic(env.definition.application_id)

    def split(self, effects: Sequence[fx.Effect]) -> tuple[list[Record], list[fx.Effect]]:
        """The records of a decision, and its other effects. Raises what a transport raises.

        Called before anything of the decision is taken: what cannot become a record is as good as a decision that
        raises.
        """
        records: list[Record] = []
        others: list[fx.Effect] = []
        for effect in effects:
            make = _MAKE.get(type(effect))
            if make is None:
                others.append(effect)
            elif (record := make(self, effect)) is not None:
                records.append(record)
        return records, others

    def dead_letter(self, record: InputRecord, reason: str, message: str) -> Record:
        """`record` set aside as it came."""
        origin = Origin.of(record)
        return dead_letter_record(self._dead_letters, origin, record.key, record.value, reason, message)

    def _request(self, effect: fx.SendRequest) -> Record | None:
        step = self._env.definition.steps[effect.interaction.step_index]
        assert isinstance(step, AwaitDefinition)
        return self._env.transports[step.transport.type].request_record(step, effect.interaction)

    def _output(self, effect: fx.EmitOutput) -> Record:
        return output_record(effect, self._env.definition.output_topic)

    def _forward(self, effect: fx.Forward) -> Record:
        event = effect.event
        parts = encode_submission(event) if isinstance(event, ExecutionSubmitted) else encode_life_ended(event)
        home = partition_of(route_of(effect.execution_id) or 0, self._env.log.partitions)
        return Record(events_topic(self._env.definition.application_id), *parts, home)

    def _letter(self, effect: fx.DeadLetter) -> Record:
        letters = self._dead_letters
        return dead_letter_record(letters, effect.origin, None, effect.value, effect.reason, effect.message)

    def _dead_execution(self, effect: fx.DeadLetterExecution) -> Record:
        return dead_execution_record(effect, self._dead_letters)

    def _reject(self, effect: fx.EmitReject) -> Record:
        return item_reject_record(effect, self._item_rejects)


_MAKE: dict[type, Callable[[RecordMaker, Any], Record | None]] = {
    fx.SendRequest: RecordMaker._request,
    fx.EmitOutput: RecordMaker._output,
    fx.DeadLetter: RecordMaker._letter,
    fx.DeadLetterExecution: RecordMaker._dead_execution,
    fx.EmitReject: RecordMaker._reject,
    fx.Forward: RecordMaker._forward,
}

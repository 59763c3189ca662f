"""Records of the application's own topics: events, outputs, dead letters (architecture 3; contract 0.5, 0.16).

Every record says what it is in the header `tpf-event` and in which format in `tpf-version`; another version is refused,
never guessed. Values are JSON of ours, but for completions and dead letters: these are the bytes as they came.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeAlias

import orjson

from tpf_streams.core.effects import DeadLetterExecution, EmitOutput, EmitReject
from tpf_streams.core.envelope import EnvelopeRefusedError, parse_completion
from tpf_streams.core.events import (
    ArrivalMarked,
    CompletionReceived,
    Event,
    ExecutionCancelled,
    ExecutionSubmitted,
    InteractionCancelled,
    LifeEnded,
    RedriveRequested,
    SessionCancelled,
)
from tpf_streams.core.frozen import frozen
from tpf_streams.core.identity import route_of
from tpf_streams.core.step import Limits, SourceObject
from tpf_streams.errors import TpfError
from tpf_streams.ports import Headers, InputRecord, Record

VERSION = b"1"
EVENT_HEADER = "tpf-event"
VERSION_HEADER = "tpf-version"
ARRIVED_HEADER = "tpf-arrived-at"
SOURCE_HEADER = "tpf-source"
REASON_HEADER = "tpf-reason"
MESSAGE_HEADER = "tpf-message"
CUT_HEADER = "tpf-original-bytes"

DEAD_LETTER_BYTES = 4 * 1024 * 1024 - 64 * 1024
"""Internal topics take 4 MiB records (contract 0.6). A longer dead letter is cut: one refused would stop its reader."""
DEAD_LETTER_KEY_BYTES = 16 * 1024
MESSAGE_BYTES = 2048

_INT64_MAX = 2**63 - 1

Parts: TypeAlias = tuple[bytes | None, bytes, Headers]
"""Key, value and headers of a record of the events topic."""


class WireError(TpfError):
    """A record of the events topic that is no event. `reason` is one word for the dead letter; never the content."""

    code = "invalid_event"

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@frozen
class Origin:
    """Where a record was read. As text `topic/partition/offset`; topic names hold no slash."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"

    @classmethod
    def of(cls, record: InputRecord) -> Origin:
        return cls(record.topic, record.partition, record.offset)

    @classmethod
    def parse(cls, text: str) -> Origin | None:
        """None for an origin that is no record of a topic: an HTTP call, say."""
        parts = text.split("/")
        if len(parts) != 3 or not (parts[1].isdecimal() and parts[2].isdecimal()):
            return None
        return cls(parts[0], int(parts[1]), int(parts[2]))


def events_topic(application_id: str) -> str:
    return f"{application_id}-events"


def dead_letters_topic(application_id: str) -> str:
    return f"{application_id}-dead-letters"


def item_rejects_topic(application_id: str) -> str:
    return f"{application_id}-item-rejects"


def payload_bytes_max(limits: Limits) -> int:
    """The largest response payload any step can take, bytes (contract 0.6)."""
    return max(limits.max_payload_bytes, limits.max_aggregate_bytes)


def _headers(kind: str) -> Headers:
    return ((EVENT_HEADER, kind.encode()), (VERSION_HEADER, VERSION))


_SUBMIT = _headers("submit")
_COMPLETION = _headers("completion")
_MARKER = _headers("marker")
_CANCEL_SESSION = _headers("cancel-session")
_CANCEL_EXECUTION = _headers("cancel-execution")
_CANCEL_INTERACTION = _headers("cancel-interaction")
_REDRIVE = _headers("redrive")
_LIFE_ENDED = _headers("life-ended")
_OUTPUT = _headers("output")
_DEAD_LETTER = _headers("dead-letter")
_DEAD_EXECUTION = _headers("dead-letter-execution")
_ITEM_REJECT = _headers("item-reject")


def encode_submission(event: ExecutionSubmitted) -> Parts:
    """Kind `submit`: {tenantId, executionKey, inputPayload, source}; the key is the execution key.

    `life` and `gone` are there where they are not 0: in a record of one partition for another. `origin` where somebody
    waits for the outcome.
    """
    value: dict[str, Any] = {
        "tenantId": event.tenant_id,
        "executionKey": event.execution_key,
        "inputPayload": event.input_payload,
        "source": None if event.source is None else asdict(event.source),
    }
    if event.life or event.gone:
        value |= {"life": event.life, "gone": event.gone}
    if event.origin:
        value["origin"] = event.origin
    return event.execution_key.encode(), orjson.dumps(value), _SUBMIT


def encode_marker(event: ArrivalMarked) -> Parts:
    """Kind `marker`: {"topic/partition": offset}."""
    return None, orjson.dumps(dict(event.offsets)), _MARKER


def encode_redrive(event: RedriveRequested) -> Parts:
    """Kind `redrive`: {executionId, expectedVersion, allowFailed, reason, origin}."""
    value = {
        "executionId": event.execution_id,
        "expectedVersion": event.expected_version,
        "allowFailed": event.allow_failed,
        "reason": event.reason,
        "origin": event.origin,
    }
    return event.execution_id.encode(), orjson.dumps(value), _REDRIVE


def encode_life_ended(event: LifeEnded) -> Parts:
    """Kind `life-ended`: {tenantId, executionKey, life}."""
    value = {"tenantId": event.tenant_id, "executionKey": event.execution_key, "life": event.life}
    return event.execution_key.encode(), orjson.dumps(value), _LIFE_ENDED


def encode_cancel(event: SessionCancelled | ExecutionCancelled | InteractionCancelled) -> Parts:
    """Kinds `cancel-session`, `cancel-execution`, `cancel-interaction`: the id, and of the last two the reason and the
    origin."""
    match event:
        case SessionCancelled(execution_id):
            return execution_id.encode(), orjson.dumps({"executionId": execution_id}), _CANCEL_SESSION
        case ExecutionCancelled(execution_id, reason, origin):
            value = orjson.dumps({"executionId": execution_id, "reason": reason, "origin": origin})
            return execution_id.encode(), value, _CANCEL_EXECUTION
        case InteractionCancelled(interaction_id, reason, origin):
            value = orjson.dumps({"interactionId": interaction_id, "reason": reason, "origin": origin})
            return interaction_id.encode(), value, _CANCEL_INTERACTION


def completion_record(
    topic: str, partition: int, ident: str, value: bytes | None, arrived_at_ms: int, source: str
) -> Record:
    """Kind `completion` for its home partition of the events topic: the envelope as it came, keyed by its id.

    `source`: `topic/partition/offset` of the response record, or a word for another way in.
    """
    arrived, origin = (ARRIVED_HEADER, b"%d" % arrived_at_ms), (SOURCE_HEADER, source.encode())
    return Record(topic, ident.encode(), value, (*_COMPLETION, arrived, origin), partition)


def decode_event(record: InputRecord, limits: Limits, *, strict: bool = False) -> Event:
    """The event that a record of the events topic is.

    Raises WireError, and nothing else, for whatever is no event; the caller makes it a dead letter (contract 0.5).
    """
    headers = dict(record.headers)
    kind = headers.get(EVENT_HEADER, b"")
    version = headers.get(VERSION_HEADER, b"")
    if version != VERSION:
        raise WireError("unknown_version", f"format {_shown(version)} of event {_shown(kind)} is not known here")
    if record.value is None:
        raise WireError("null_value", f"event {_shown(kind)} without a value")
    if kind == b"completion":
        return _completion(record.value, headers, limits, strict)
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise WireError("unknown_event", f"event {_shown(kind)} is not known here")
    try:
        return decoder(orjson.loads(record.value))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise WireError("invalid_event", f"event {_shown(kind)} cannot be read: {type(error).__name__}") from error


def _completion(value: bytes, headers: Mapping[str, bytes], limits: Limits, strict: bool) -> CompletionReceived:
    try:
        arrived_at_ms = int(headers[ARRIVED_HEADER])
        if not 0 <= arrived_at_ms <= _INT64_MAX:
            raise ValueError("no row could hold it: its turn would never commit")
        origin = headers.get(SOURCE_HEADER, b"").decode()
    except (KeyError, ValueError) as error:
        raise WireError("invalid_event", "a completion needs its arrival time in milliseconds") from error
    try:
        envelope = parse_completion(value, max_bytes=payload_bytes_max(limits), strict=strict)
    except EnvelopeRefusedError as error:
        raise WireError(error.reason, str(error)) from error
    return CompletionReceived(envelope, arrived_at_ms, origin, value)


def _submit(value: dict[str, Any]) -> Event:
    source = value["source"]
    return ExecutionSubmitted(
        tenant_id=_text(value["tenantId"]),
        execution_key=_text(value["executionKey"]),
        input_payload=value["inputPayload"],
        source=None if source is None else SourceObject(**{name: _text(part) for name, part in source.items()}),
        life=_count(value.get("life", 0)),
        gone=_count(value.get("gone", 0)),
        origin=_text(value.get("origin", "")),
    )


def _life_ended(value: dict[str, Any]) -> Event:
    return LifeEnded(_text(value["tenantId"]), _text(value["executionKey"]), _count(value["life"]))


def _marker(value: dict[str, Any]) -> Event:
    if not all(type(offset) is int for offset in value.values()):
        raise TypeError("offsets are whole numbers")
    return ArrivalMarked(value)


def _redrive(value: dict[str, Any]) -> Event:
    version, allowed = value["expectedVersion"], value["allowFailed"]
    if not (version is None or type(version) is int) or type(allowed) is not bool:
        raise TypeError("expectedVersion is a whole number or null, allowFailed true or false")
    return RedriveRequested(
        _text(value["executionId"]), version, allowed, _text(value["reason"]), _text(value["origin"])
    )


def _cancel(
    kind: type[ExecutionCancelled | InteractionCancelled], name: str, value: dict[str, Any]
) -> ExecutionCancelled | InteractionCancelled:
    """Earlier versions wrote no origin."""
    return kind(_text(value[name]), _text(value["reason"]), _text(value.get("origin", "")))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is needed")
    return value


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise TypeError("a whole number from 0 on is needed")
    return value


_DECODERS: dict[bytes, Callable[[dict[str, Any]], Event]] = {
    b"submit": _submit,
    b"marker": _marker,
    b"life-ended": _life_ended,
    b"cancel-session": lambda value: SessionCancelled(_text(value["executionId"])),
    b"cancel-execution": lambda value: _cancel(ExecutionCancelled, "executionId", value),
    b"cancel-interaction": lambda value: _cancel(InteractionCancelled, "interactionId", value),
    b"redrive": _redrive,
}


def output_record(effect: EmitOutput, topic: str) -> Record:
    """The record of one output (contract 0.16). Outputs of one execution keep their order: they share a partition."""
    value = {
        "tenantId": effect.tenant_id,
        "executionId": effect.execution_id,
        "itemIndex": effect.item_index,
        "type": effect.type,
        "arm": effect.arm,
        "payload": effect.payload,
    }
    return Record(topic, effect.key.encode(), orjson.dumps(value), _OUTPUT, place=route_of(effect.execution_id))


def item_reject_record(effect: EmitReject, topic: str) -> Record:
    """The record of one item or row that was turned away. Those of one execution keep their order."""
    return Record(
        topic, effect.key.encode(), orjson.dumps(effect.value), _ITEM_REJECT, place=route_of(effect.execution_id)
    )


def dead_execution_record(effect: DeadLetterExecution, topic: str) -> Record:
    """The record of an execution that failed for good: its envelope (contract section 14), keyed by its id."""
    headers: Headers = (*_DEAD_EXECUTION, (REASON_HEADER, effect.reason.encode()))
    return Record(topic, effect.execution_id.encode(), orjson.dumps(effect.envelope), headers)


def dead_letter_record(
    topic: str, origin: Origin | str, key: bytes | None, value: bytes | None, reason: str, message: str
) -> Record:
    """The record that keeps what could not be used: the bytes as they came, and in headers whence and why.

    `origin` that is no place in a topic stands in `tpf-source` alone. A null value stays null.
    """
    place = Origin.parse(origin) if isinstance(origin, str) else origin
    headers: Headers = (*_DEAD_LETTER, (SOURCE_HEADER, str(origin).encode()), (REASON_HEADER, reason.encode()))
    if place is not None:
        headers += (
            ("tpf-source-topic", place.topic.encode()),
            ("tpf-source-partition", b"%d" % place.partition),
            ("tpf-source-offset", b"%d" % place.offset),
        )
    if message:
        headers += ((MESSAGE_HEADER, _cut(message)),)
    if key is not None and len(key) > DEAD_LETTER_KEY_BYTES:
        key = key[:DEAD_LETTER_KEY_BYTES]
    if value is not None and len(value) > DEAD_LETTER_BYTES:
        headers += ((CUT_HEADER, b"%d" % len(value)),)
        value = value[:DEAD_LETTER_BYTES]
    return Record(topic, key, value, headers)


def _cut(message: str) -> bytes:
    return message.encode(errors="replace")[:MESSAGE_BYTES].decode(errors="ignore").encode()


def _shown(text: bytes) -> str:
    return repr(text[:40].decode(errors="replace"))

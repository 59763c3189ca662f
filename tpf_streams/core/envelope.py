"""What goes out to a provider and what comes back (contract 1.1, 1.2, 0.4 to 0.7)."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache

from tpf_streams.core.frozen import frozen
from tpf_streams.core.json_policy import JsonReason, JsonRefusedError, canonical, dumps, parse_json, plain_decimal
from tpf_streams.core.step import Json
from tpf_streams.errors import EnvelopeError, PayloadError

ENVELOPE_OVERHEAD_BYTES = 64 * 1024
"""What an envelope may have around its payload: ids, token, unknown fields."""

IDEMPOTENCY_KEY_CHARS_MAX = 4096
_GROWTH_MAX = 16
"""Normalised JSON is less than this many times the bytes that came: `1e63,` becomes 67 bytes."""

KEPT_BYTES = 64 * 1024
"""Of normalised JSON at the most: envelopes up to 4 KiB are parsed once (`_kept`)."""

_FIELDS = frozenset(
    {"tenantId", "interactionId", "correlationId", "resumeToken", "idempotencyKey", "actor", "responsePayload"}
)
_ESCAPED = re.compile(r"[:=\\\x00-\x1f\x7f]")
_USUAL = re.compile(r"(0|[1-9][0-9]{0,17})(?:\.([0-9]{1,18}))?")
"""A decimal that needs no arithmetic to lose its trailing zeros."""

_DECIMAL = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,6})?")


class EnvelopeReason(StrEnum):
    """The reasons beside those of `JsonReason`."""

    NOT_AN_OBJECT = "not an object"
    WRONG_SHAPE = "wrong shape"
    UNKNOWN_FIELD = "unknown field"
    PAYLOAD_TOO_LARGE = "payload too large"


class EnvelopeRefusedError(EnvelopeError):
    """`EnvelopeError` with its outcome and reason as values; the message says more, and never holds content.

    `outcome`: invalid_envelope or payload_too_large (contract 0.4).
    """

    def __init__(self, reason: JsonReason | EnvelopeReason, message: str | None = None) -> None:
        super().__init__(message or reason.value)
        self.reason = reason
        large = reason in (JsonReason.TOO_LARGE, EnvelopeReason.PAYLOAD_TOO_LARGE)
        self.outcome = "payload_too_large" if large else "invalid_envelope"


@frozen
class CompletionEnvelope:
    """A completion as a provider sent it. Texts are trimmed; blank ones are None. Nothing is looked up yet.

    `unknown_fields` are counted and otherwise ignored. `payload_bytes_max`: what the payload has at the most, as far as
    the bytes that came tell: most are so few that nobody need measure it.
    """

    tenant_id: str
    interaction_id: str | None
    correlation_id: str | None
    resume_token: str | None
    idempotency_key: str | None
    actor: str | None
    response_payload: Json
    unknown_fields: tuple[str, ...] = ()
    payload_bytes_max: int = field(default=sys.maxsize, compare=False)


def parse_completion(data: bytes | None, *, max_bytes: int, strict: bool = False) -> CompletionEnvelope:
    """A completion envelope from the value of a record or the body of a message.

    `max_bytes` bounds the response payload in its normalised form; the whole envelope may have 64 KiB more.
    `strict`: an unknown field is refused. Raises `EnvelopeRefusedError` (an `EnvelopeError`) and nothing else.
    A `resumeToken` of a wrong type is kept as its JSON text, which no secret has signed: it is refused as a token
    (`resume_token_rejected`), not as an envelope.
    """
    if data is not None and len(data) * _GROWTH_MAX <= min(max_bytes, KEPT_BYTES):
        return _kept(data, strict)
    return _parse(data, max_bytes, strict)


@lru_cache(maxsize=1_024)
def _kept(data: bytes, strict: bool) -> CompletionEnvelope:
    """Router and task of one process read the same bytes within moments: small envelopes are parsed once for both."""
    return _parse(data, len(data) * _GROWTH_MAX, strict)


def _parse(data: bytes | None, max_bytes: int, strict: bool) -> CompletionEnvelope:
    try:
        found = parse_json(data, max_bytes + ENVELOPE_OVERHEAD_BYTES)
    except JsonRefusedError as error:
        raise EnvelopeRefusedError(error.reason) from None
    if not isinstance(found, dict):
        raise EnvelopeRefusedError(EnvelopeReason.NOT_AN_OBJECT)
    assert data is not None
    if len(data) * _GROWTH_MAX > max_bytes and len(dumps(found.get("responsePayload"))) > max_bytes:
        raise EnvelopeRefusedError(EnvelopeReason.PAYLOAD_TOO_LARGE)
    return _envelope(found, _unknown(found, strict), len(data) * _GROWTH_MAX)


def envelope_bytes(envelope: CompletionEnvelope) -> bytes:
    """A completion as bytes again, where those that came are not kept."""
    return dumps(
        {
            "tenantId": envelope.tenant_id,
            "interactionId": envelope.interaction_id,
            "correlationId": envelope.correlation_id,
            "resumeToken": envelope.resume_token,
            "idempotencyKey": envelope.idempotency_key,
            "actor": envelope.actor,
            "responsePayload": envelope.response_payload,
        }
    )


def dispatch_envelope(
    *,
    tenant_id: str,
    execution_id: str,
    interaction_id: str,
    correlation_id: str,
    step_id: str,
    deadline_epoch_ms: int,
    input_type: str,
    output_type: str,
    resume_token: str,
    request_payload: Json,
    transport_metadata: Mapping[str, Json] | None,
) -> bytes:
    """The request to a provider: eleven keys in the order of contract 1.1. Raises `PayloadError` if not plain JSON."""
    return dumps(
        {
            "tenantId": tenant_id,
            "executionId": execution_id,
            "interactionId": interaction_id,
            "correlationId": correlation_id,
            "stepId": step_id,
            "deadlineEpochMs": deadline_epoch_ms,
            "inputType": input_type,
            "outputType": output_type,
            "resumeToken": resume_token,
            "requestPayload": request_payload,
            "transportMetadata": dict(transport_metadata or {}),
        }
    )


def idempotency_key(
    step_id: str,
    fields: Sequence[str],
    payload: Json,
    item_index: int | None,
    execution_id: str,
    decimal_fields: frozenset[str] = frozenset(),
) -> str:
    """The business idempotency key for the provider (contract 0.7 and 4.3); it never merges interactions.

    `stepId:f1=v1:f2=v2`, without fields `executionId:stepId`; an item of a stream adds `:item=<index>`. Values of
    `decimal_fields` are plain, without trailing zeros: 12.50 and 12.5 give the same key. Explicit null is `<null>`, an
    object or array its JSON with sorted keys. Unlike the reference, a `:`, `=` or backslash in a name or value gets a
    backslash before it and a control character is `\\xNN`, so that different values never give the same key and the
    key fits into a header line; a text that is literally `<null>` is `\\<null>`.
    Raises `PayloadError` naming the field that is missing or no decimal.
    """
    parts = [step_id] if fields else [execution_id, step_id]
    parts += [f"{_escaped_name(name)}={_key_value(name, payload, name in decimal_fields)}" for name in fields]
    if item_index is not None:
        parts.append(f"item={item_index}")
    key = ":".join(parts)
    if len(key) > IDEMPOTENCY_KEY_CHARS_MAX:
        raise PayloadError(f"the idempotency key of {step_id} is longer than {IDEMPOTENCY_KEY_CHARS_MAX} characters")
    return key


def _unknown(found: dict[str, Json], strict: bool) -> tuple[str, ...]:
    if found.keys() <= _FIELDS:
        return ()
    unknown = tuple([name for name in found if name not in _FIELDS])
    if strict:
        raise EnvelopeRefusedError(EnvelopeReason.UNKNOWN_FIELD, f"unknown field {unknown[0][:64]!a}")
    return unknown


def _envelope(found: dict[str, Json], unknown: tuple[str, ...], bytes_max: int) -> CompletionEnvelope:
    tenant_id = _text(found, "tenantId")
    if tenant_id is None:
        raise _wrong_shape("tenantId must not be blank")
    interaction_id, correlation_id = _text(found, "interactionId"), _text(found, "correlationId")
    if interaction_id is None and correlation_id is None:
        raise _wrong_shape("interactionId or correlationId must be supplied")
    payload = found.get("responsePayload")
    if payload is None:
        raise _wrong_shape("responsePayload must not be null")
    token, idempotency, actor = _token(found), _text(found, "idempotencyKey"), _text(found, "actor")
    return CompletionEnvelope(
        tenant_id, interaction_id, correlation_id, token, idempotency, actor, payload, unknown, bytes_max
    )


def _text(found: dict[str, Json], name: str) -> str | None:
    """A trimmed text; numbers are taken as their text; blank, null and missing are None."""
    value = found.get(name)
    if value is None:
        return None
    if type(value) is str:
        return value.strip() or None
    if type(value) is int:
        return str(value)
    raise _wrong_shape(f"{name} must be a string")


def _token(found: dict[str, Json]) -> str | None:
    value = found.get("resumeToken")
    if value is None:
        return None
    return value.strip() or None if type(value) is str else canonical(value).decode()


def _wrong_shape(message: str) -> EnvelopeRefusedError:
    return EnvelopeRefusedError(EnvelopeReason.WRONG_SHAPE, message)


def _escape(text: str) -> str:
    return text if text.isalnum() else _ESCAPED.sub(_escape_one, text)


@lru_cache(maxsize=1_024)
def _escaped_name(name: str) -> str:
    return _escape(name)


def _escape_one(match: re.Match[str]) -> str:
    char = match.group()
    return f"\\{char}" if char in ":=\\" else f"\\x{ord(char):02x}"


def _key_value(name: str, payload: Json, decimal: bool) -> str:
    if not isinstance(payload, dict) or name not in payload:
        raise PayloadError(f"idempotency field {name} is missing")
    value = payload[name]
    if value is None:
        return "<null>"
    if decimal or isinstance(value, float):
        return _stripped(name, value)
    if isinstance(value, str):
        return "\\<null>" if value == "<null>" else _escape(value)
    return _escape(canonical(value).decode())


def _stripped(name: str, value: Json) -> str:
    """A decimal without exponent and trailing zeros; zero has no sign."""
    text = repr(value) if isinstance(value, float) else str(value)
    if (usual := _USUAL.fullmatch(text)) is not None and not isinstance(value, bool):
        whole, fraction = usual.group(1), (usual.group(2) or "").rstrip("0")
        return f"{whole}.{fraction}" if fraction else whole
    if isinstance(value, bool) or _DECIMAL.fullmatch(text) is None:
        raise PayloadError(f"idempotency field {name} is not a decimal")
    plain = plain_decimal(Decimal(text))
    if "." in plain:
        plain = plain.rstrip("0").removesuffix(".")
    return "0" if plain == "-0" else plain

"""What a completion is told (contract 0.4)."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """What a completion is told. The names are on the wire."""

    PAYLOAD_TOO_LARGE = "payload_too_large"
    INVALID_ENVELOPE = "invalid_envelope"
    HELD = "held"
    NOT_FOUND = "not_found"
    TENANT_MISMATCH = "tenant_mismatch"
    IDENTITY_MISMATCH = "identity_mismatch"
    RESUME_TOKEN_REJECTED = "resume_token_rejected"
    INVALID_PAYLOAD = "invalid_payload"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    TERMINAL = "terminal"
    LATE = "late"
    ADMITTED = "admitted"

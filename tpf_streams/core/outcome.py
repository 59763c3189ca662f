"""What a completion is told (contract 0.4)."""

from __future__ import annotations

from enum import StrEnum


class OperatorOutcome(StrEnum):
    """What became of an operator's wish."""

    CANCELLED = "cancelled"
    REDRIVEN = "redriven"
    NOT_FOUND = "not_found"
    TERMINAL = "terminal"
    """Nothing is open that could be cancelled."""
    NOT_FAILED = "not_failed"
    """Only what has failed can be redriven."""
    FAILED_NOT_ALLOWED = "failed_not_allowed"
    """It is FAILED, and the redrive does not say that this will do (contract 4.4)."""
    VERSION_MISMATCH = "version_mismatch"
    CLOSING = "closing"
    """What it had open is still being closed, in bounded turns."""
    NOT_REDRIVABLE = "not_redrivable"
    """Its rows do not hold what it would begin with."""


class SubmitOutcome(StrEnum):
    """What became of a submission that somebody waits for."""

    SUBMITTED = "submitted"
    DUPLICATE = "duplicate"
    """Its key has an execution already."""
    CONFLICT = "conflict"
    """That execution was begun with another input."""


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

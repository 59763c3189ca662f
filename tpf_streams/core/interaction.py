"""The interaction row: one request to an external actor and its one answer."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum

from tpf_streams.core.frozen import frozen
from tpf_streams.core.step import Json
from tpf_streams.core.token import TokenClaims


class InteractionStatus(StrEnum):
    """Contract 4.2. Terminal is final."""

    WAITING = "WAITING"
    DISPATCHING = "DISPATCHING"
    DISPATCHED = "DISPATCHED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"

    @property
    def terminal(self) -> bool:
        return self in _TERMINAL


_TERMINAL = frozenset(
    {
        InteractionStatus.COMPLETED,
        InteractionStatus.FAILED,
        InteractionStatus.TIMED_OUT,
        InteractionStatus.CANCELLED,
    }
)


@frozen
class InteractionRecord:
    """Contract 4.2. Times in epoch milliseconds; `item_index` None is the scalar interaction.

    `issued_at_epoch_ms` and `dispatched_at_epoch_ms` are taken once, so that a repeated request is the same bytes.
    """

    tenant_id: str
    execution_id: str
    unit_id: str
    step_id: str
    step_index: int
    item_index: int | None
    interaction_id: str
    correlation_id: str
    causation_id: str
    idempotency_key: str
    status: InteractionStatus
    version: int
    input_type: str
    output_type: str
    request_payload: Json
    response_payload: Json
    actor: str | None
    assignee: str | None
    group: str | None
    transport_type: str
    deadline_epoch_ms: int
    issued_at_epoch_ms: int
    dispatched_at_epoch_ms: int
    created_at_epoch_ms: int
    updated_at_epoch_ms: int
    transport_metadata: dict[str, Json] = field(default_factory=dict)

    def claims(self) -> TokenClaims:
        """What the request's resume token says: a function of the row, so that a repeat carries the same token."""
        return TokenClaims(
            self.tenant_id,
            self.interaction_id,
            self.correlation_id,
            self.execution_id,
            self.step_id,
            self.deadline_epoch_ms,
            self.issued_at_epoch_ms,
        )


@frozen
class EarlyRecord:
    """A completion that came before its row, with a verified token (contract 0.11).

    `more`: others that came behind it, each as the fields in which they may differ (`core/early.py`): the first may
    prove invalid, and then the next one counts.
    """

    interaction_id: str
    tenant_id: str
    correlation_id: str | None
    resume_token: str
    idempotency_key: str | None
    actor: str | None
    response_payload: Json
    arrived_at_epoch_ms: int
    expires_at_epoch_ms: int
    more: list[list[Json]] = field(default_factory=list)

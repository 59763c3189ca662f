"""The steps around the restaurant's decision (contract 12.4). None reads a clock or draws a random id: a step that
runs again after a crash must give the order that is waiting already."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid5

from topologies.restaurant_approval.domain import (
    PendingRestaurantApproval,
    PlaceRestaurantOrderRequest,
    RestaurantOrderAccepted,
    RestaurantOrderDeclined,
    TerminalOrderState,
    ValidatedRestaurantOrderRequest,
)
from tpf_streams.core.context import StepContext
from tpf_streams.errors import TerminalError

_ORDERS = UUID("6f6c8a52-3f0e-5d43-9a5e-2f6d1c6f0b7a")
"""Namespace of order ids."""


def validate_order_request(
    request: PlaceRestaurantOrderRequest, context: StepContext
) -> ValidatedRestaurantOrderRequest:
    """Raises TerminalError for an order that no restaurant should be asked about."""
    for name in ("customer_name", "restaurant_name", "items", "currency"):
        if not getattr(request, name).strip():
            raise TerminalError(f"the order has no {name.replace('_', ' ')}", "INVALID_ORDER")
    if request.total_amount <= 0:
        raise TerminalError("the order's total amount is not above zero", "INVALID_ORDER")
    return ValidatedRestaurantOrderRequest(**dict(request), validated_at=_timestamp(context))


def create_pending_approval(
    request: ValidatedRestaurantOrderRequest, context: StepContext
) -> PendingRestaurantApproval:
    fields: dict[str, Any] = request.model_dump(exclude={"validated_at"})
    order_id = uuid5(_ORDERS, context.execution_id)
    return PendingRestaurantApproval(**fields, order_id=order_id, created_at=_timestamp(context))


def finalize_restaurant_decision(decision: RestaurantOrderAccepted | RestaurantOrderDeclined) -> TerminalOrderState:
    accepted = isinstance(decision, RestaurantOrderAccepted)
    return TerminalOrderState(
        order_id=decision.order_id,
        outcome="APPROVED" if accepted else "DECLINED",
        resolved_at=decision.decided_at,
        restaurant_status="ACCEPTED" if accepted else "DECLINED",
        summary=_summary(decision),
    )


def _summary(decision: RestaurantOrderAccepted | RestaurantOrderDeclined) -> str:
    note = (decision.note or "").strip()
    if isinstance(decision, RestaurantOrderAccepted):
        return note or "Restaurant approved the order."
    return f"{note} ({decision.decline_reason})" if note else decision.decline_reason


def _timestamp(context: StepContext) -> str:
    moment = datetime.fromtimestamp(context.now_epoch_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

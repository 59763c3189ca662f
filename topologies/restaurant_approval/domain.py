"""What the steps of restaurant-approval speak about (contract 12.4). JSON names are camel case, as in pipeline.yaml."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """Immutable: an order that waits for days must still be what it was."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class PlaceRestaurantOrderRequest(Model):
    request_id: UUID
    customer_name: str
    restaurant_name: str
    items: str
    total_amount: Decimal
    currency: str


class ValidatedRestaurantOrderRequest(PlaceRestaurantOrderRequest):
    validated_at: str


class PendingRestaurantApproval(PlaceRestaurantOrderRequest):
    order_id: UUID
    created_at: str


class RestaurantOrderAccepted(Model):
    order_id: UUID
    decided_at: str
    note: str | None = None


class RestaurantOrderDeclined(Model):
    order_id: UUID
    decided_at: str
    decline_reason: str
    note: str | None = None


class TerminalOrderState(Model):
    order_id: UUID
    outcome: str
    resolved_at: str
    restaurant_status: str
    summary: str

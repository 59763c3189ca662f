"""What the steps speak about. Plain dataclasses: their fields are the JSON fields."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Parcel:
    parcel_id: str
    grams: int
    country: str


@dataclass(frozen=True, slots=True)
class QuoteRequest:
    parcel_id: str
    grams: int
    country: str
    express: bool


@dataclass(frozen=True, slots=True)
class Quote:
    parcel_id: str
    price: Decimal
    days: int


@dataclass(frozen=True, slots=True)
class Refusal:
    parcel_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Shipment:
    parcel_id: str
    booked: bool
    note: str

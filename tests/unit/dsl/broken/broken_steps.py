"""Step callables of the broken pipelines; found beside them, as a pipeline finds its own code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

NOT_CALLABLE = 7


@dataclass(frozen=True)
class Order:
    order_id: str
    amount: float


@dataclass(frozen=True)
class Other:
    order_id: str


def step(value: dict[str, Any]) -> dict[str, Any]:
    return value


def three(value: object, context: object, more: object) -> object:
    return (value, context, more)


def nothing() -> None:
    return None


def many(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield value


async def slow(value: dict[str, Any]) -> dict[str, Any]:
    return value


def money_as_float(order: Order) -> dict[str, Any]:
    return {"orderId": order.order_id}


def lacks_a_field(order: Other) -> dict[str, Any]:
    return {"orderId": order.order_id}


def wrong_arm(decision: Order) -> dict[str, Any]:
    return {"orderId": decision.order_id}

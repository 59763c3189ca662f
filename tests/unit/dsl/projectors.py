"""Classes and functions that pipelines of the tests name, most of them wrong in one way each."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

from tests.topology.partner import messages

_MESSAGES = messages(
    "broken.v1",
    Partial={"order_id": "string"},
    Rounded={"order_id": "string", "fee": "double", "code": "string", "paid_at": "int64", "ok": "[bool]"},
    Loose={"done": "Partial", "failed": "oneof Partial"},
    Whole={"order_id": "string", "fee": "string", "code": "int64", "paid_at": "string", "ok": "bool"},
)
Partial, Rounded, Loose, Whole = (_MESSAGES[name] for name in ("Partial", "Rounded", "Loose", "Whole"))


class Floating(BaseModel):
    orderId: str  # noqa: N815
    fee: float
    code: int
    paidAt: str  # noqa: N815
    ok: bool


@dataclass
class Short:
    orderId: str  # noqa: N815


class Plain:
    pass


class Unreadable(BaseModel):
    model_config = {"arbitrary_types_allowed": True}

    plain: Plain


@dataclass
class Opaque:
    plain: Plain


def fine(request: dict[str, Any], completion: Short) -> dict[str, Any]:
    return request


def alone(request: dict[str, Any]) -> dict[str, Any]:
    return request


async def waits(request: dict[str, Any], completion: Any) -> dict[str, Any]:
    return request


def takes_another(request: dict[str, Any], completion: Decimal) -> dict[str, Any]:
    return request


def gives_another(request: dict[str, Any], completion: Any) -> Short:
    return Short("1")


not_callable = 5

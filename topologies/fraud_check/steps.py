"""What happens once the partner has decided. The step takes plain JSON, as small pipelines may."""

from __future__ import annotations

from typing import Any


def release_order(decision: dict[str, Any]) -> dict[str, Any]:
    """The order goes out when the partner approved it."""
    return {
        "orderId": decision["orderId"],
        "released": decision["approved"],
        "reason": decision["reason"],
    }

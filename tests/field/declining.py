"""The provider of field case O15: the answers of csv-payments, and every seventh payment is declined."""

from __future__ import annotations

from typing import Any

from topologies.csv_payments.provider import answer
from tpf_streams.testing.provider_options import ProviderOptions

EVERY_SEVENTH = 7


def is_declined(csv_id: str) -> bool:
    return int(csv_id) % EVERY_SEVENTH == 0


def declines_every_seventh(request: dict[str, Any], options: ProviderOptions) -> Any:
    found = answer(request, options)
    assert found is not None
    (status,) = found.values()
    return {"unapproved" if is_declined(request["requestPayload"]["csvId"]) else "approved": status}

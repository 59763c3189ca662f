"""The payment provider of the demo, as the reference's mock answers (contract 12.3); found beside the steps by name."""

from __future__ import annotations

import hashlib
from typing import Any

from tpf_streams.testing.provider_options import ProviderOptions, falls

ACTOR = "csv-payments-mock-provider"


def answer(request: dict[str, Any], options: ProviderOptions) -> dict[str, Any] | None:
    """The payment status for the payment in `request`: the arm `approved` or `unapproved`, or None for no answer.

    Raises KeyError or TypeError when the request holds no payment.
    """
    payment = request["requestPayload"]
    csv_id, payment_id = payment["csvId"], payment["id"]
    if falls(csv_id, "provider-timeout", options.timeout):
        return None
    rejected = falls(csv_id, "provider-reject", options.reject)
    status = {
        "reference": "101",
        "status": "Rejected" if rejected else "Complete",
        "message": "Mock payment provider rejected the payment." if rejected else "Mock response",
        "fee": "1.01",
        "conversationId": name_uuid(f"conversation|{payment_id}"),
        "statusCode": "1000",
        "paymentRecordId": payment_id,
        "paymentRecord": payment,
    }
    return {"unapproved" if rejected else "approved": status}


def name_uuid(name: str) -> str:
    """Java's UUID.nameUUIDFromBytes: a version 3 UUID of the text alone, without a namespace."""
    digest = bytearray(hashlib.md5(name.encode(), usedforsecurity=False).digest())
    digest[6] = digest[6] & 0x0F | 0x30
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

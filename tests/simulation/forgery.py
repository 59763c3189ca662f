"""Completions that nobody honest would send."""

from __future__ import annotations

from random import Random

from tests.simulation.pipelines import FORGED, PAYLOAD_BYTES
from tests.simulation.words import Fault
from tpf_streams.core.step import Json


def forge(fault: Fault, envelope: dict[str, Json], others: list[dict[str, Json]], rng: Random, *, listed: bool) -> None:
    """Spoil an envelope so that it must not be admitted. Its payload says so, for the checkers."""
    envelope["responsePayload"] = {"yes": {"of": {FORGED: True}, "nonce": -1}}
    match fault:
        case Fault.BAD_TOKEN:
            head, _, signature = envelope["resumeToken"].partition(".")
            turned = "A" if signature[0] != "A" else "B"
            envelope["resumeToken"] = rng.choice((f"{head}.{turned}{signature[1:]}", "no.token", head))
        case Fault.OTHER_TENANT:
            envelope["tenantId"] = "intruder"
        case Fault.MIXED_IDS:
            other = next((o for o in others if o["interactionId"] != envelope["interactionId"]), None)
            if other is None:
                envelope["correlationId"] = envelope["interactionId"]
            else:
                name = rng.choice(("correlationId", "resumeToken"))
                envelope[name] = other[name]
        case Fault.BAD_PAYLOAD:
            envelope["responsePayload"] = rng.choice(
                ([7] if listed else [], {FORGED: 1}, {"yes": 3}, "text", 7, FORGED * (PAYLOAD_BYTES // 6 + 1))
            )
        case _:
            raise AssertionError(f"{fault} is no forgery")

"""Flow control of a stream: how much may be in flight, how much may be pulled, and what was pulled.

In flight is `dispatched - settled`: a place is given back by the settlement of an item, exactly once, whatever became
of it (field case O16), because it is a difference of two counters and not a counter of its own.
"""

from __future__ import annotations

import hashlib

import orjson

from tpf_streams.core.step import Json, PipelineDefinition
from tpf_streams.core.unit import SessionRecord

DURABLE_PULL = 100
"""Items pulled at a time when no live window bounds a stream (contract 0.20): bounds a turn, not the stream."""


def credit(definition: PipelineDefinition, session: SessionRecord) -> int:
    """Items that may be pulled from the source now. The engine's one step ahead makes the window + 1 of 0.17."""
    if session.source_ended:
        return 0
    if not session.live:
        return DURABLE_PULL
    return max(0, definition.window - session.in_flight)


def chain(digest: str, payload: Json) -> str:
    """The digest of the items so far and one more. Chained, so that a session resumes from its row alone."""
    return hashlib.sha256(digest.encode() + orjson.dumps(payload)).hexdigest()[:32]

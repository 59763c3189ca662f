"""What those who asked were told (contract 0.4), beside the rows: an outcome that was told must be true for ever."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

from tests.simulation.provider import FORGERIES, Question
from tests.simulation.shadow import Violation
from tests.simulation.words import Fault
from tests.simulation.world import World
from tpf_streams.core.interaction import InteractionRecord, InteractionStatus
from tpf_streams.core.outcome import Outcome
from tpf_streams.core.step import Json

_FORGED = {
    Fault.BAD_TOKEN: {Outcome.RESUME_TOKEN_REJECTED, Outcome.NOT_FOUND},
    Fault.OTHER_TENANT: {Outcome.TENANT_MISMATCH, Outcome.NOT_FOUND},
    Fault.MIXED_IDS: {Outcome.IDENTITY_MISMATCH, Outcome.RESUME_TOKEN_REJECTED, Outcome.NOT_FOUND},
    Fault.BAD_PAYLOAD: {Outcome.INVALID_PAYLOAD, Outcome.PAYLOAD_TOO_LARGE, Outcome.HELD, Outcome.TERMINAL},
}


def outcomes_hold(world: World) -> None:
    if world.sync == "interval":
        return
    admitted: Counter[str] = Counter()
    for question, future in world.questions:
        if future.done() and not future.cancelled():
            outcome = Outcome(future.result())
            row = world.auditor.shadow.interaction(question.interaction_id)
            if not _true(question, outcome, row, None if row is None else _answer(world, row)):
                raise Violation(f"told {outcome}: {question}, {row}")
            admitted[question.interaction_id] += outcome is Outcome.ADMITTED
    if any(count > 1 for count in admitted.values()):
        raise Violation(f"told more than once that it was admitted: {admitted}")


def _answer(world: World, row: InteractionRecord) -> Json:
    return world.auditor.shadow.answer(world.pipeline, row)


def _true(question: Question, outcome: Outcome, row: InteractionRecord | None, answer: Json) -> bool:
    if question.fault in FORGERIES:
        return outcome in _FORGED[question.fault]
    if row is None:
        return outcome in (Outcome.HELD, Outcome.TERMINAL)
    match outcome:
        case Outcome.ADMITTED | Outcome.DUPLICATE:
            return row.status is InteractionStatus.COMPLETED and _said(row, answer, question.payload)
        case Outcome.CONFLICT:
            return row.status is InteractionStatus.COMPLETED and not _said(row, answer, question.payload)
        case Outcome.LATE:
            return row.status is InteractionStatus.TIMED_OUT
        case Outcome.TERMINAL:
            return row.status is not InteractionStatus.COMPLETED
        case _:
            return outcome is Outcome.HELD


def _said(row: InteractionRecord, answer: Json, payload: Json) -> bool:
    """Whether the row was answered with this payload: it keeps that, or what was projected and a digest."""
    digest = row.transport_metadata.get("tpf.await.completion.digest")
    if digest is None:
        return bool(answer == payload)
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return bool(digest == hashlib.sha256(text.encode()).hexdigest())

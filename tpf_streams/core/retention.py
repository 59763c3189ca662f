"""How long ended executions are kept, and what remembers them afterwards (contract 0.18).

An execution that ends gets one row in the order of time. When that is due, its own row makes place for a *tombstone* in
one turn, so that nobody meets an execution half there; then its other rows go, a bounded number a turn, and the row in
the order of time says how far that has come. A tombstone goes in the same order.

A key that is used again begins another *life*, with other ids, and so at another partition. The home of its first life
is where people ask: its tombstone knows the last life, sends submissions on to it, and begins the next one when that is
over. The home of a later life tells it of the end, and keeps a tombstone of its own: a submission may be on its way
while the life that it was sent to goes, and must not begin it again.
"""

from __future__ import annotations

from tpf_streams.core.effects import Forward
from tpf_streams.core.events import ExecutionSubmitted, LifeEnded
from tpf_streams.core.evolve import replace
from tpf_streams.core.execution import ExecutionRecord, TombstoneRecord
from tpf_streams.core.interaction import EarlyRecord, InteractionRecord
from tpf_streams.core.rows import EARLY_KIND, INTERACTION_KIND, KIND_AT, UNIT_KIND, deadline_of, decode, decode_bytes
from tpf_streams.core.state import Draft
from tpf_streams.core.unit import AwaitUnitRecord
from tpf_streams.errors import TokenError

DELETE_AT_ONCE = 1_000
"""Rows looked at in one turn."""
LOOK_AGAIN_MS = 60_000
"""An ended execution that still has something to close is looked at again so much later."""
_LISTED_STEPS = 32
"""A tombstone that is met by its object again and again is written anew this often in its time, and not each time."""


def keep_for_a_while(draft: Draft, execution_id: str) -> None:
    """The execution ends now: note when it has to go."""
    draft.put(draft.keys.retention(draft.now_ms + draft.definition.limits.execution_ttl_ms, execution_id), b"")


def retention_reached(draft: Draft, limit: int) -> None:
    """Delete what has been kept long enough, oldest first, until `limit` rows were looked at."""
    left = limit
    for key, value in list(draft.state.stored(draft.keys.retention_until(draft.now_ms), limit)):
        if left <= 0:
            return
        execution_id, behind = deadline_of(key)[1], decode_bytes(value)
        execution = None if behind else draft.execution(execution_id)
        if behind or (execution is not None and _bury(draft, key, execution)):
            left -= _clear(draft, key, execution_id, behind, max(left - 1, 1))
        elif execution is None:
            _forget(draft, key, execution_id)
        left -= 1


def _bury(draft: Draft, key: bytes, execution: ExecutionRecord) -> bool:
    """The execution's row goes, where it may. Else the look is put off, or is no use any more."""
    limits, execution_id = draft.definition.limits, execution.execution_id
    # It may have gone on since and ended later, or the setting is a longer one by now.
    due_ms = execution.updated_at_epoch_ms + limits.execution_ttl_ms
    draft.delete(key)
    if not execution.status.terminal:
        return False
    if due_ms >= draft.now_ms or any(draft.state.stored(draft.keys.owed_of(execution_id), 1)):
        draft.put(draft.keys.retention(max(due_ms, draft.now_ms + LOOK_AGAIN_MS), execution_id), b"")
        return False
    draft.delete(draft.keys.execution(execution_id))
    stone = TombstoneRecord(
        tenant_id=execution.tenant_id,
        execution_key=execution.execution_key,
        execution_id=execution_id,
        life=execution.life,
        expires_at_epoch_ms=None,
        ingested=execution.source is not None,
    )
    _remember(draft, stone)
    if execution.life > 0:
        told = LifeEnded(execution.tenant_id, execution.execution_key, execution.life)
        draft.effect(Forward(life_id(draft, told, 0), told))
    draft.fact("execution.deleted.total", {}, executionId=execution_id)
    return True


def _clear(draft: Draft, key: bytes, execution_id: str, behind: bytes, limit: int) -> int:
    """Delete rows of a deleted execution, those behind the key `behind`; -> how many were looked at.

    Going on from a key, and not from the start, spares the store to pass by everything deleted so far each time.
    """
    looked = 0
    for start, end in draft.keys.left_of(execution_id):
        if behind >= end:
            continue
        for place, value in draft.state.stored((max(start, behind + b"\0"), end), max(limit - looked, 0)):
            looked += 1
            behind = place
            _delete_if_of(draft, execution_id, place, value)
        if looked >= limit:
            draft.put(key, behind or start)
            return looked
    draft.delete(key)
    return looked


def _delete_if_of(draft: Draft, execution_id: str, key: bytes, value: bytes) -> None:
    kind = key[KIND_AT]
    if kind == INTERACTION_KIND:
        interaction = decode(InteractionRecord, value)
        if interaction.execution_id != execution_id:
            return
        draft.delete(draft.keys.correlation(interaction.correlation_id))
    elif kind == UNIT_KIND:
        if decode(AwaitUnitRecord, value).execution_id != execution_id:
            return
    elif kind == EARLY_KIND:
        early = decode(EarlyRecord, value)
        if _early_of(draft, early) != execution_id:
            return
        draft.delete(draft.keys.early_expiry(early.expires_at_epoch_ms, early.interaction_id))
    draft.delete(key)


def _early_of(draft: Draft, early: EarlyRecord) -> str | None:
    """The execution that a held completion is for; None when its secret was retired meanwhile: it expires by itself."""
    try:
        return None if draft.state.signer is None else draft.state.signer.verify(early.resume_token).execution_id
    except TokenError:
        return None


def _forget(draft: Draft, key: bytes, execution_id: str) -> None:
    """The memory of a key goes, unless it was renewed meanwhile."""
    draft.delete(key)
    stone = draft.tombstone(execution_id)
    if stone is not None and stone.expires_at_epoch_ms == deadline_of(key)[0]:
        draft.delete(draft.keys.tombstone(execution_id))


def _remember(draft: Draft, stone: TombstoneRecord) -> None:
    """Keep the tombstone from now on for as long as keys are remembered."""
    if stone.expires_at_epoch_ms is not None:
        draft.delete(draft.keys.retention(stone.expires_at_epoch_ms, stone.execution_id))
    expires_ms = draft.now_ms + draft.definition.limits.identity_ttl_ms
    draft.put(draft.keys.tombstone(stone.execution_id), replace(stone, expires_at_epoch_ms=expires_ms))
    draft.put(draft.keys.retention(expires_ms, stone.execution_id), b"")


# --- the same key again -----------------------------------------------------------------------------------------------


def life_id(draft: Draft, event: ExecutionSubmitted | LifeEnded, life: int) -> str:
    """The execution id of a life of the key that `event` names."""
    return draft.state.ids.execution_id(event.tenant_id, draft.definition.pipeline_id, event.execution_key, life)


def remembered(draft: Draft, event: ExecutionSubmitted, execution_id: str) -> bool:
    """Whether the life that is asked for is over, and the submission meets another one, or has to begin it."""
    stone = draft.tombstone(execution_id)
    if stone is None:
        return False
    if event.life > 0:
        first = replace(event, life=0, gone=event.life)
        draft.effect(Forward(life_id(draft, first, 0), first))
    elif stone.ingested and event.source is not None:
        _listed_again(draft, stone)
    else:
        _send_on(draft, event, stone)
    return True


def _listed_again(draft: Draft, stone: TombstoneRecord) -> None:
    """The object was worked on, and is still there: a second time would pay everybody twice."""
    ttl_ms, expires_ms = draft.definition.limits.identity_ttl_ms, stone.expires_at_epoch_ms
    if expires_ms is not None and draft.now_ms + ttl_ms - expires_ms > ttl_ms // _LISTED_STEPS:
        _remember(draft, stone)
    draft.fact("execution.duplicate.total", {}, executionId=stone.execution_id)


def _send_on(draft: Draft, event: ExecutionSubmitted, stone: TombstoneRecord) -> None:
    """To the life that the key has now. One that was found gone is over, though its end has not been told here yet."""
    life = max(stone.next_life, event.gone + 1 if event.gone else 0)
    if stone.expires_at_epoch_ms is not None or life != stone.life:
        if stone.expires_at_epoch_ms is not None:
            draft.delete(draft.keys.retention(stone.expires_at_epoch_ms, stone.execution_id))
        draft.put(draft.keys.tombstone(stone.execution_id), replace(stone, life=life, expires_at_epoch_ms=None))
    draft.effect(Forward(life_id(draft, event, life), replace(event, life=life, gone=0)))


def life_ended(draft: Draft, event: LifeEnded) -> None:
    """The last life of a key has been deleted elsewhere: from now on the key is remembered for a while."""
    stone = draft.tombstone(life_id(draft, event, 0))
    if stone is not None and stone.expires_at_epoch_ms is None and stone.life == event.life:
        _remember(draft, stone)

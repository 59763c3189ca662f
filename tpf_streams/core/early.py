"""Completions that come before their row, or instead of one (contract 0.11)."""

from __future__ import annotations

from tpf_streams.core.envelope import CompletionEnvelope, envelope_bytes
from tpf_streams.core.events import CompletionReceived
from tpf_streams.core.evolve import replace
from tpf_streams.core.identity import id_bytes
from tpf_streams.core.interaction import EarlyRecord
from tpf_streams.core.json_policy import canonical
from tpf_streams.core.outcome import Outcome
from tpf_streams.core.state import Draft
from tpf_streams.core.token import TokenClaims
from tpf_streams.errors import BackPressureError, TokenError

MORE_MAX = 3
"""Held behind the first completion of one row: bounds the row, and what one bad provider can make a partition keep."""


def without_row(draft: Draft, event: CompletionReceived) -> Outcome:
    """Contract 0.11: held with a good token in time, terminal with one later, else not found."""
    envelope = event.envelope
    claims = claims_of(draft, envelope)
    if claims is None or claims.tenant_id != envelope.tenant_id:
        return Outcome.NOT_FOUND
    if not (
        names(envelope.interaction_id, claims.interaction_id) and names(envelope.correlation_id, claims.correlation_id)
    ):
        return Outcome.NOT_FOUND
    if event.arrived_at_ms > claims.deadline_epoch_ms or draft.tombstone(claims.execution_id) is not None:
        return Outcome.TERMINAL
    first = draft.get(draft.keys.early(claims.interaction_id), EarlyRecord)
    if first is None:
        hold(draft, event, claims)
    else:
        hold_behind(draft, event, first)
    return Outcome.HELD


def hold_behind(draft: Draft, event: CompletionReceived, first: EarlyRecord) -> None:
    """Keep another completion for the same row; a repeat of what is held is held already."""
    envelope = event.envelope
    payloads = [first.response_payload, *(it[3] for it in first.more)]
    if len(first.more) >= MORE_MAX or canonical(envelope.response_payload) in map(canonical, payloads):
        return
    token, key, actor = envelope.resume_token, envelope.idempotency_key, envelope.actor
    one = [token, key, actor, envelope.response_payload, event.arrived_at_ms]
    draft.put(draft.keys.early(first.interaction_id), replace(first, more=[*first.more, one]))


def held(early: EarlyRecord) -> list[CompletionReceived]:
    """What was held for a row, in the order of its coming."""
    first = [
        early.resume_token,
        early.idempotency_key,
        early.actor,
        early.response_payload,
        early.arrived_at_epoch_ms,
    ]
    found = []
    for token, key, actor, payload, arrived_at_ms in (first, *early.more):
        envelope = CompletionEnvelope(
            tenant_id=early.tenant_id,
            interaction_id=early.interaction_id,
            correlation_id=early.correlation_id,
            resume_token=token,
            idempotency_key=key,
            actor=actor,
            response_payload=payload,
        )
        found.append(CompletionReceived(envelope, arrived_at_ms, "early", envelope_bytes(envelope)))
    return found


def names(text: str | None, ident: str) -> bool:
    """Whether an id of an envelope, where it has one, is `ident`, in either case."""
    return text is None or text.lower() == ident.lower()


def named_step(draft: Draft, envelope: CompletionEnvelope) -> str | None:
    """The step that the token of an envelope was issued for."""
    claims = claims_of(draft, envelope)
    return None if claims is None else claims.step_id


def claims_of(draft: Draft, envelope: CompletionEnvelope) -> TokenClaims | None:
    """The verified claims of a token that was issued for an id of ours, or None."""
    if envelope.resume_token is None or draft.state.signer is None:
        return None
    try:
        claims = draft.state.signer.verify(envelope.resume_token)
    except TokenError:
        return None
    return claims if id_bytes(claims.interaction_id) is not None else None


def hold(draft: Draft, event: CompletionReceived, claims: TokenClaims) -> None:
    """Keep a completion for the row to come. Raises BackPressureError when the partition holds as many as it may."""
    limit = draft.definition.limits.early_rows_max
    if draft.state.early_rows >= limit:
        raise BackPressureError(f"the partition holds {limit} early completions (await.early-rows-max)")
    envelope = event.envelope
    expires = claims.deadline_epoch_ms
    draft.put(
        draft.keys.early(claims.interaction_id),
        EarlyRecord(
            interaction_id=claims.interaction_id,
            tenant_id=envelope.tenant_id,
            correlation_id=envelope.correlation_id,
            resume_token=envelope.resume_token or "",
            idempotency_key=envelope.idempotency_key,
            actor=envelope.actor,
            response_payload=envelope.response_payload,
            arrived_at_epoch_ms=event.arrived_at_ms,
            expires_at_epoch_ms=expires,
        ),
    )
    draft.put(draft.keys.early_expiry(expires, claims.interaction_id), b"")
    draft.fact("completion.early_held.total", {"step_id": claims.step_id}, about=claims)

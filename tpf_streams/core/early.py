"""Completions that come before their row, or instead of one (contract 0.11)."""

from __future__ import annotations

from tpf_streams.core.envelope import CompletionEnvelope
from tpf_streams.core.events import CompletionReceived
from tpf_streams.core.identity import id_bytes
from tpf_streams.core.interaction import EarlyRecord
from tpf_streams.core.outcome import Outcome
from tpf_streams.core.state import Draft
from tpf_streams.core.token import TokenClaims
from tpf_streams.errors import BackPressureError, TokenError


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
    if event.arrived_at_ms > claims.deadline_epoch_ms:
        return Outcome.TERMINAL
    if draft.get(draft.keys.early(claims.interaction_id), EarlyRecord) is None:
        hold(draft, event, claims)
    return Outcome.HELD


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

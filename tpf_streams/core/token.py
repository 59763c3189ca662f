"""The signed resume token (contract section 2).

`B64URL(payload) + "." + B64URL(HMAC-SHA256(secret, B64URL(payload)))`, base64url without padding, in its canonical
spelling only. The payload is compact JSON with seven keys in a fixed order. No message ever holds the token.
"""

from __future__ import annotations

import hmac
import re
from binascii import a2b_base64, b2a_base64
from collections import OrderedDict
from typing import Any

import orjson

from tpf_streams.core.frozen import frozen
from tpf_streams.core.identity import KeyedDigest
from tpf_streams.errors import TerminalError, TokenError

TOKEN_CHARS_MAX = 4096
"""A token of ours has about 500 characters; anything longer than this is refused before any work is done on it."""

TOKENS_KEPT = 2_048
"""Tokens of the requests signed last, above the largest window: the answer echoes its token within moments."""

_PARTS = re.compile(rb"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]{43})")
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")
_INT64_MAX = 2**63 - 1


@frozen
class TokenClaims:
    """What a token says. Times in epoch milliseconds."""

    tenant_id: str
    interaction_id: str
    correlation_id: str
    execution_id: str
    step_id: str
    deadline_epoch_ms: int
    issued_at_epoch_ms: int


class TokenSigner:
    """Signs with the first secret and verifies with all of them (contract 0.13).

    Without any secret `verify` refuses every token, and `sign` raises `TerminalError`.
    """

    __slots__ = ("_digests", "_given")

    def __init__(self, secrets: tuple[str, ...]) -> None:
        """Raises ValueError when a secret is blank."""
        if any(not secret.strip() for secret in secrets):
            raise ValueError("a resume token secret is blank")
        self._digests = tuple([KeyedDigest(secret.encode()) for secret in secrets])
        self._given: OrderedDict[str, TokenClaims] = OrderedDict()

    def sign(self, claims: TokenClaims) -> str:
        """The token of `claims`: about 500 ASCII characters."""
        if not self._digests:
            message = "pipeline.orchestrator.resume-token-secret must be configured for signed await resume tokens"
            raise TerminalError(message, "RESUME_TOKEN_SECRET_MISSING")
        payload = _encode(_payload(claims))
        token = (payload + b"." + _encode(self._digests[0].digest(payload))).decode("ascii")
        self._given[token] = claims
        if len(self._given) > TOKENS_KEPT:
            self._given.popitem(last=False)
        return token

    def gave(self, token: str, claims: TokenClaims) -> bool:
        """Whether this signer made `token` of `claims` a while ago: the usual case, and a quick look where `verify`
        computes. False says nothing: an older token may be as good."""
        return self._given.get(token) == claims

    def verify(self, token: str) -> TokenClaims:
        """The claims of a genuine token. Raises `TokenError`, and nothing else. Says nothing about time or rows."""
        payload, signature = _split(token)
        if not self._genuine(payload, signature):
            raise TokenError("Invalid await resume token signature")
        return _claims(payload)

    def _genuine(self, payload: bytes, signature: bytes) -> bool:
        """Compares the canonical text of the signature, so a second spelling of the same bits is refused."""
        found = False
        for digest in self._digests:
            found |= hmac.compare_digest(_encode(digest.digest(payload)), signature)
        return found


def hinted(token: object) -> str | None:
    """The interaction that a token says it is of, its signature unseen: to find the row by, and nothing else."""
    if not isinstance(token, str):
        return None
    try:
        return _claims(_split(token)[0]).interaction_id
    except TokenError:
        return None


def check_token(
    claims: TokenClaims, *, tenant_id: str, interaction_id: str, correlation_id: str, execution_id: str, step_id: str
) -> None:
    """Raises `TokenError` naming the first key in which the token and the row differ (contract section 2, check 7)."""
    pairs = (
        ("tenantId", claims.tenant_id, tenant_id),
        ("interactionId", claims.interaction_id, interaction_id),
        ("correlationId", claims.correlation_id, correlation_id),
        ("executionId", claims.execution_id, execution_id),
        ("stepId", claims.step_id, step_id),
    )
    for key, told, true in pairs:
        if told != true:
            raise TokenError(f"Await resume token {key} mismatch")


def _encode(data: bytes) -> bytes:
    return b2a_base64(data, newline=False).translate(_TO_URL).rstrip(b"=")


def _payload(claims: TokenClaims) -> bytes:
    return orjson.dumps(
        {
            "tenantId": claims.tenant_id,
            "interactionId": claims.interaction_id,
            "correlationId": claims.correlation_id,
            "executionId": claims.execution_id,
            "stepId": claims.step_id,
            "deadlineEpochMs": claims.deadline_epoch_ms,
            "issuedAtEpochMs": claims.issued_at_epoch_ms,
        }
    )


def _split(token: str) -> tuple[bytes, bytes]:
    if len(token) > TOKEN_CHARS_MAX:
        raise TokenError("Await resume token is too long")
    match = _PARTS.fullmatch(token.encode("ascii", "replace"))
    if match is None:
        raise TokenError("Malformed await resume token" if token.strip() else "resumeToken must not be blank")
    return match.group(1), match.group(2)


def _claims(payload: bytes) -> TokenClaims:
    try:
        data = a2b_base64(payload.translate(_FROM_URL) + b"=" * (-len(payload) % 4))
        found = orjson.loads(data)
    except ValueError:
        raise TokenError("Malformed await resume token payload") from None
    if not _canonical_end(data, payload) or not isinstance(found, dict):
        raise TokenError("Malformed await resume token payload")
    return TokenClaims(
        tenant_id=_text(found, "tenantId"),
        interaction_id=_text(found, "interactionId"),
        correlation_id=_text(found, "correlationId"),
        execution_id=_text(found, "executionId"),
        step_id=_text(found, "stepId"),
        deadline_epoch_ms=_deadline(found.get("deadlineEpochMs")),
        issued_at_epoch_ms=_millis(found.get("issuedAtEpochMs")) or 0,
    )


def _canonical_end(data: bytes, payload: bytes) -> bool:
    """Whether the unused bits of the last character are zero; elsewhere base64url has one spelling only."""
    rest = len(data) % 3
    return rest == 0 or _encode(data[-rest:]) == payload[-rest - 1 :]


def _text(found: dict[str, Any], key: str) -> str:
    value = found.get(key)
    if type(value) is str and value:
        return value
    if type(value) is int:
        return str(value)
    raise TokenError(
        f"Await resume token {key} is missing" if value is None else f"Await resume token {key} is invalid"
    )


def _deadline(value: object) -> int:
    millis = _millis(value)
    if millis is None:
        raise _bad_claim("deadlineEpochMs", value)
    return millis


def _bad_claim(key: str, value: object) -> TokenError:
    return TokenError(f"Await resume token {key} is {'missing' if value is None else 'invalid'}")


def _millis(value: object) -> int | None:
    """A number or a numeric string of at most 64 bits, else None."""
    if type(value) is int and abs(value) <= _INT64_MAX:
        return value
    if type(value) is str and _INTEGER.fullmatch(value):
        return int(value)
    return None

"""The resume token (contract section 2): the reference's cases T12, its golden vector, and what ours adds."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpf_streams.core import token
from tpf_streams.core.token import TOKEN_CHARS_MAX, TokenClaims, TokenSigner, check_token, hinted
from tpf_streams.errors import TerminalError, TokenError

SECRET = "secret-for-tests"
CLAIMS = TokenClaims("tenant-1", "interaction-1", "corr-1", "exec-1", "FraudCheck", 20000, 10000)
GOLDEN = (
    "eyJ0ZW5hbnRJZCI6InRlbmFudC0xIiwiaW50ZXJhY3Rpb25JZCI6ImludGVyYWN0aW9uLTEiLCJjb3JyZWxhdGlvbklkIjoiY29yci0xIiwi"
    "ZXhlY3V0aW9uSWQiOiJleGVjLTEiLCJzdGVwSWQiOiJGcmF1ZENoZWNrIiwiZGVhZGxpbmVFcG9jaE1zIjoyMDAwMCwiaXNzdWVkQXRFcG9j"
    "aE1zIjoxMDAwMH0.aF5T6KosirzroKDFYaS69C6hnXEl9z10Lsnq-Uu_E5M"
)
PAYLOAD, SIGNATURE = GOLDEN.split(".")
SIGNER = TokenSigner((SECRET,))
ROTATED = TokenSigner(("one", "two"))


def b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def signed(payload: bytes | str) -> str:
    """A token whose signature is genuine, whatever its payload is."""
    text = payload if isinstance(payload, str) else b64url(payload)
    return f"{text}.{b64url(hmac.digest(SECRET.encode(), text.encode(), hashlib.sha256))}"


def signed_claims(**changes: object) -> str:
    claims: dict[str, object] = json.loads(base64.urlsafe_b64decode(PAYLOAD + "=="))
    claims.update(changes)
    return signed(json.dumps({key: value for key, value in claims.items() if value is not ...}).encode())


def refusal(token: str, signer: TokenSigner = SIGNER) -> str:
    with pytest.raises(TokenError) as caught:
        signer.verify(token)
    assert caught.value.code == "resume_token_rejected"
    assert len(token) < 8 or token not in str(caught.value)
    return str(caught.value)


def test_golden_vector() -> None:
    assert SIGNER.sign(CLAIMS) == GOLDEN
    assert SIGNER.verify(GOLDEN) == CLAIMS


def test_a_signed_token_validates_against_its_interaction() -> None:
    claims = SIGNER.verify(SIGNER.sign(CLAIMS))
    check_token(
        claims,
        tenant_id="tenant-1",
        interaction_id="interaction-1",
        correlation_id="corr-1",
        execution_id="exec-1",
        step_id="FraudCheck",
    )


@pytest.mark.parametrize(
    ("field", "key"),
    [
        ("tenant_id", "tenantId"),
        ("interaction_id", "interactionId"),
        ("correlation_id", "correlationId"),
        ("execution_id", "executionId"),
        ("step_id", "stepId"),
    ],
)
def test_a_wrong_key_is_named(field: str, key: str) -> None:
    row = {
        "tenant_id": CLAIMS.tenant_id,
        "interaction_id": CLAIMS.interaction_id,
        "correlation_id": CLAIMS.correlation_id,
        "execution_id": CLAIMS.execution_id,
        "step_id": CLAIMS.step_id,
    }
    row[field] = "private-value"
    with pytest.raises(TokenError, match=f"^Await resume token {key} mismatch$"):
        check_token(CLAIMS, **row)


@pytest.mark.parametrize("at", [0, 10, len(PAYLOAD) - 1])
def test_a_tampered_payload(at: int) -> None:
    other = "A" if PAYLOAD[at] != "A" else "B"
    assert refusal(f"{PAYLOAD[:at]}{other}{PAYLOAD[at + 1 :]}.{SIGNATURE}") == "Invalid await resume token signature"


@pytest.mark.parametrize("at", [0, 20, 42])
def test_a_tampered_signature(at: int) -> None:
    other = "A" if SIGNATURE[at] != "A" else "E"
    assert refusal(f"{PAYLOAD}.{SIGNATURE[:at]}{other}{SIGNATURE[at + 1 :]}") == "Invalid await resume token signature"


@pytest.mark.parametrize("token", ["", " ", "\t\n", "\u3000"])
def test_blank(token: str) -> None:
    assert refusal(token) == "resumeToken must not be blank"


@pytest.mark.parametrize(
    "token",
    [
        "abcdef",
        ".",
        "aaa.bbb.ccc",
        f"{PAYLOAD}.",
        f".{SIGNATURE}",
        f"{PAYLOAD}.sign\u00e9",
        f"\u00fcber.{SIGNATURE}",
        "@@@@.####",
        f"{GOLDEN}=",
        f"{PAYLOAD}=.{SIGNATURE}",
        f"{GOLDEN}\n",
        f" {GOLDEN}",
        f"{GOLDEN}.",
        GOLDEN.replace("-", "+").replace("_", "/"),
        f"{PAYLOAD}.{SIGNATURE[:-1]}",
        f"{PAYLOAD}.{SIGNATURE}A",
        f"{PAYLOAD}.{SIGNATURE[:-1]}\udcff",
    ],
)
def test_malformed_parts(token: str) -> None:
    assert refusal(token) == "Malformed await resume token"


def test_a_second_spelling_of_the_same_signature_bits_is_refused() -> None:
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".index(SIGNATURE[-1])
    twin = SIGNATURE[:-1] + "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[last + 1]
    assert base64.urlsafe_b64decode(twin + "=") == base64.urlsafe_b64decode(SIGNATURE + "=")
    assert refusal(f"{PAYLOAD}.{twin}") == "Invalid await resume token signature"


@pytest.mark.parametrize("size", [TOKEN_CHARS_MAX + 1, 200_000])
def test_too_long(size: int) -> None:
    assert refusal("A" * (size - 44) + "." + "A" * 43) == "Await resume token is too long"


@pytest.mark.parametrize(
    "payload", [b"{", b"[]", b'"x"', b"null", b"\xff", b"{}x", b"[" * 2000, "A", "eyJ9", "e31", "eyJh"]
)
def test_a_signed_payload_that_is_no_object(payload: bytes | str) -> None:
    assert refusal(signed(payload)) == "Malformed await resume token payload"


@pytest.mark.parametrize("key", ["tenantId", "interactionId", "correlationId", "executionId", "stepId"])
@pytest.mark.parametrize(("value", "words"), [(..., "missing"), (None, "missing"), ("", "invalid"), ([], "invalid")])
def test_a_signed_payload_without_a_key(key: str, value: object, words: str) -> None:
    assert refusal(signed_claims(**{key: value})) == f"Await resume token {key} is {words}"


def test_numeric_claims_compare_as_text() -> None:
    assert SIGNER.verify(signed_claims(tenantId=7)).tenant_id == "7"


@pytest.mark.parametrize(("deadline", "millis"), [(5, 5), ("20001", 20001), ("-1", -1), (2**63 - 1, 2**63 - 1)])
def test_the_deadline_is_a_number_or_a_numeric_text(deadline: object, millis: int) -> None:
    assert SIGNER.verify(signed_claims(deadlineEpochMs=deadline)).deadline_epoch_ms == millis


@pytest.mark.parametrize("deadline", [True, 1.5, "x", "1e3", "", [], "\u0661", 2**63, 2**64, "9" * 5000, "9" * 19])
def test_an_invalid_deadline(deadline: object) -> None:
    token = signed_claims(deadlineEpochMs=deadline)
    expected = "Await resume token " + ("is too long" if len(token) > TOKEN_CHARS_MAX else "deadlineEpochMs is invalid")
    assert refusal(token) == expected
    assert refusal(signed_claims(deadlineEpochMs=None)) == "Await resume token deadlineEpochMs is missing"


def test_what_this_signer_gave_is_known_for_a_while(monkeypatch) -> None:
    """The short way of an answer that echoes its token: it saves the verification of nearly every completion."""
    monkeypatch.setattr(token, "TOKENS_KEPT", 2)
    signer = TokenSigner((SECRET,))
    assert signer.gave(GOLDEN, CLAIMS) is False
    assert signer.gave(signer.sign(CLAIMS), CLAIMS) is True
    assert signer.gave(GOLDEN, replace(CLAIMS, deadline_epoch_ms=20001)) is False
    assert signer.gave(signer.sign(CLAIMS) + "A", CLAIMS) is False
    assert TokenSigner(()).gave("", CLAIMS) is False
    for number in range(2):
        signer.sign(replace(CLAIMS, issued_at_epoch_ms=number))
    assert signer.gave(GOLDEN, CLAIMS) is False


@pytest.mark.parametrize("issued", [..., None, "x", 1.5])
def test_the_issue_time_is_never_checked(issued: object) -> None:
    assert SIGNER.verify(signed_claims(issuedAtEpochMs=issued)).issued_at_epoch_ms == 0


def test_the_verifier_knows_no_clock() -> None:
    assert SIGNER.verify(SIGNER.sign(replace(CLAIMS, deadline_epoch_ms=1))).deadline_epoch_ms == 1


def test_rotation_the_first_signs_and_all_verify() -> None:
    new = TokenSigner(("new", SECRET))
    assert new.verify(GOLDEN) == CLAIMS
    assert new.sign(CLAIMS) == TokenSigner(("new",)).sign(CLAIMS)
    assert new.verify(new.sign(CLAIMS)) == CLAIMS
    assert refusal(GOLDEN, TokenSigner(("new",))) == "Invalid await resume token signature"
    assert refusal(new.sign(CLAIMS)) == "Invalid await resume token signature"


def test_without_a_secret_nothing_is_signed_and_nothing_verifies() -> None:
    signer = TokenSigner(())
    with pytest.raises(TerminalError, match="resume-token-secret must be configured") as caught:
        signer.sign(CLAIMS)
    assert caught.value.code == "RESUME_TOKEN_SECRET_MISSING"
    assert refusal(GOLDEN, signer) == "Invalid await resume token signature"


@pytest.mark.parametrize("secrets", [("",), (" ",), (SECRET, "")])
def test_a_blank_secret_is_an_error_of_the_caller(secrets: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="blank"):
        TokenSigner(secrets)


def test_other_scripts_travel() -> None:
    claims = replace(CLAIMS, tenant_id="\u00fcber-\u4e2d\u6587", step_id='a"b\\c')
    assert TokenSigner(("gehe\u00efm",)).verify(TokenSigner(("gehe\u00efm",)).sign(claims)) == claims


def test_long_secrets_are_hashed_first_as_hmac_says() -> None:
    secret = "s" * 100
    text, _, signature = TokenSigner((secret,)).sign(CLAIMS).partition(".")
    assert signature == b64url(hmac.digest(secret.encode(), text.encode(), "sha256"))


ANY_CLAIMS = st.builds(
    TokenClaims,
    *[st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)] * 5,
    st.integers(-(2**62), 2**62),
    st.integers(-(2**62), 2**62),
)


@given(ANY_CLAIMS)
def test_a_token_says_what_was_signed(claims: TokenClaims) -> None:
    assert ROTATED.verify(ROTATED.sign(claims)) == claims


@given(ANY_CLAIMS, st.data())
def test_no_other_spelling_of_a_token_verifies(claims: TokenClaims, data: st.DataObject) -> None:
    token = ROTATED.sign(claims)
    at = data.draw(st.integers(0, len(token)))
    cut = data.draw(st.integers(at, min(len(token), at + 2)))
    other = token[:at] + data.draw(st.text(max_size=2)) + token[cut:]
    if other != token:
        with pytest.raises(TokenError):
            ROTATED.verify(other)


@given(st.text() | st.binary().map(lambda raw: raw.decode("latin-1")) | st.from_regex(r"[\w=.-]{0,50}\.[\w-]{43}"))
@settings(max_examples=300)
def test_any_text_is_refused_as_a_token(text: str) -> None:
    with pytest.raises(TokenError):
        ROTATED.verify(text)


@pytest.mark.parametrize(
    ("token", "found"),
    [
        (GOLDEN, "interaction-1"),
        (f"{PAYLOAD}.{'A' * 43}", "interaction-1"),
        (SIGNATURE, None),
        (signed(b"[]"), None),
        ("é" * 50, None),
        (7, None),
        (None, None),
    ],
)
def test_a_token_hints_at_its_interaction_before_it_is_checked(token, found):
    """T21: by its token alone a completion finds its row; whether the token is genuine is asked there."""
    assert hinted(token) == found

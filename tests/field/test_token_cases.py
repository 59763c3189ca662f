"""Field cases at the edge alone, before any row is looked up: O06, O09, O10 and O11 with tokens of our own ids."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tpf_streams.core.envelope import EnvelopeRefusedError, idempotency_key, parse_completion
from tpf_streams.core.identity import IdFactory, partition_of, route_of
from tpf_streams.core.token import TokenClaims, TokenSigner, check_token
from tpf_streams.errors import TokenError

DATA = Path(__file__).parent / "data"
STEP = "ProcessFraudCheckService"
SIGNER = TokenSigner(("a secret of the field cases",))
MAX = 256 * 1024
HOUR_MS = 3_600_000


def claims_of(interaction: str, tenant: str = "tenant-red") -> TokenClaims:
    """Claims for an interaction named as in the case files."""
    return TokenClaims(tenant, interaction, f"cor-{interaction[4:]}", "exec-1", STEP, 1_790_000_000_000, 1)


def fill(text: str) -> str:
    """Put genuine tokens and halves of tokens where the case files ask for them."""
    return re.sub(r"\$\{(\w+):([\w-]+)\}", lambda match: token_part(match[1], match[2]), text)


def token_part(kind: str, interaction: str) -> str:
    claims = claims_of(interaction)
    later = replace(claims, deadline_epoch_ms=claims.deadline_epoch_ms + HOUR_MS)
    token, later_token = SIGNER.sign(claims), SIGNER.sign(later)
    parts = {
        "TOKEN": token,
        "TOKEN_PAYLOAD": token.partition(".")[0],
        "TOKEN_SIGNATURE": token.partition(".")[2],
        "TOKEN_PAYLOAD_DEADLINE_PLUS_1H": later_token.partition(".")[0],
    }
    return parts[kind]


def admit(token: str | None, claims: TokenClaims) -> None:
    """What admission asks of a token that is required. Raises TokenError."""
    if token is None:
        raise TokenError("resumeToken must be supplied")
    check_token(
        SIGNER.verify(token),
        tenant_id=claims.tenant_id,
        interaction_id=claims.interaction_id,
        correlation_id=claims.correlation_id,
        execution_id=claims.execution_id,
        step_id=claims.step_id,
    )


O09 = [json.loads(line) for line in (DATA / "O09.tokens.jsonl").read_text("utf-8").splitlines()]


def o09_token(case: dict[str, Any]) -> object:
    value = case["resumeToken"]
    return fill(value) if isinstance(value, str) else value


def test_o09_has_fourteen_cases_and_one_genuine() -> None:
    assert len(O09) == 14
    assert [case["name"] for case in O09 if case["expect"] == "admitted"] == ["ok-shape"]


@pytest.mark.parametrize("case", O09, ids=[case["name"] for case in O09])
def test_o09_each_token_is_admitted_or_refused_as_a_token(case: dict[str, Any]) -> None:
    claims, token = claims_of("int-9"), o09_token(case)
    fields = {"tenantId": "tenant-red", "interactionId": "int-9", "correlationId": "cor-9", "responsePayload": {}}
    body = json.dumps({**fields, "resumeToken": token}).encode()
    envelope = parse_completion(body, max_bytes=MAX)
    if case["expect"] == "admitted":
        admit(envelope.resume_token, claims)
        return
    with pytest.raises(TokenError) as caught:
        admit(envelope.resume_token, claims)
    reason = str(caught.value)
    assert len(reason) < 80
    assert not isinstance(token, str) or not token.strip() or token not in reason


def test_o09_a_later_deadline_needs_a_new_signature() -> None:
    payload = token_part("TOKEN_PAYLOAD_DEADLINE_PLUS_1H", "int-9")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert claims["deadlineEpochMs"] == claims_of("int-9").deadline_epoch_ms + HOUR_MS


def test_o06_two_tenants_with_one_business_key_have_apart_ids_and_one_provider_key() -> None:
    """Section 0 wins over the case: ids carry their route, so one correlation id never exists under two tenants."""
    factory = IdFactory("field")
    units = []
    for tenant in ("tenant-red", "tenant-blue"):
        execution = factory.execution_id(tenant, "orders", "order-0042", 0)
        units.append(factory.unit(tenant, execution, STEP, 0, 0))
    red, blue = units
    assert red.correlation_id(None) != blue.correlation_id(None)
    assert red.interaction_id(None) != blue.interaction_id(None)
    for unit in units:
        route = route_of(unit.correlation_id(None))
        assert route is not None
        assert route == route_of(unit.interaction_id(None))
        assert 0 <= partition_of(route, 8) < 8
    keys = {idempotency_key(STEP, ("order",), {"order": "order-0042"}, None, unit.unit_id) for unit in units}
    assert keys == {f"{STEP}:order=order-0042"}


def test_o06_a_token_of_the_other_tenant_is_refused() -> None:
    with pytest.raises(TokenError, match="tenantId mismatch"):
        admit(SIGNER.sign(claims_of("int-6", "tenant-blue")), claims_of("int-6", "tenant-red"))


def outcome(data: bytes | None, *, strict: bool = False) -> str:
    """`taken`, or the reason for which the value is poison."""
    try:
        envelope = parse_completion(data, max_bytes=MAX, strict=strict)
    except EnvelopeRefusedError as error:
        return str(error.reason) if error.outcome == "invalid_envelope" else error.outcome
    assert envelope.interaction_id is not None
    admit(envelope.resume_token, claims_of(envelope.interaction_id))
    return "taken"


def test_o10_the_console_lines() -> None:
    expect = json.loads((DATA / "O10.expect.json").read_text("utf-8"))
    lines = fill((DATA / "O10.console.txt").read_text("utf-8")).splitlines()
    found = {number: outcome(line.encode()) for number, line in enumerate(lines, 1)}
    assert len(found) == expect["lines"]
    assert [number for number, word in found.items() if word == "taken"] == [1, 11, 12]
    assert sorted(found.keys() - {1, 11, 12}) == expect["refused_lines"]
    assert [found[number] for number in expect["refused_lines"]] == (
        ["not JSON"] * 2 + ["not an object"] * 4 + ["wrong shape"] * 3
    )


def test_o10_line_11_by_the_two_settings() -> None:
    line = fill((DATA / "O10.console.txt").read_text("utf-8")).splitlines()[10].encode()
    assert parse_completion(line, max_bytes=MAX).unknown_fields == ("futureField",)
    assert outcome(line, strict=True) == "unknown field"


def test_o11_the_records() -> None:
    lines = (DATA / "O11.records.jsonl").read_text("utf-8").splitlines()
    values = {record["n"]: record["value"] for record in map(json.loads, lines)}
    found = {n: outcome(None if value is None else fill(value).encode()) for n, value in values.items()}
    assert found == {
        1: "taken",
        2: "null value",
        3: "zero-length value",
        4: "zero-length value",
        5: "blank value",
        6: "null value",
        7: "taken",
    }


def test_o11_the_console_lines() -> None:
    lines = fill((DATA / "O11.console_value_only.txt").read_text("utf-8")).split("\n")[:5]
    assert [outcome(line.encode()) for line in lines] == [
        "taken",
        "zero-length value",
        "blank value",
        "taken",
        "zero-length value",
    ]

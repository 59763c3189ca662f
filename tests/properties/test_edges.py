"""Properties of the pure edges: whatever comes from outside, only declared errors come out; the budget is exact.

Those of ids, tokens and the fairness of the budget are in unit/core, beside the tests of their modules.
"""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tpf_streams.core.budget import AdmissionBudget
from tpf_streams.core.envelope import EnvelopeRefusedError, dispatch_envelope, idempotency_key, parse_completion
from tpf_streams.core.json_policy import JsonRefusedError, canonical, dumps, normalise, parse_json
from tpf_streams.core.token import TokenSigner
from tpf_streams.errors import PayloadError, TokenError

MAX = 1 << 20
TEXT = st.text(st.characters(codec="utf-8"))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)
NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
JSONISH = st.text(st.sampled_from('{}[]":,\\u0d8e1.-+tn a\n')).map(str.encode)
COMPACT = st.recursive(
    NUMBERS | TEXT.map(lambda text: dumps(text).decode()) | st.sampled_from(("null", "true", "NaN", "-0")),
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda parts: f"[{','.join(parts)}]")
        | st.lists(st.sampled_from(('"a":', '"b":')).flatmap(lambda key: inner.map(key.__add__)), max_size=3).map(
            lambda pairs: f"{{{','.join(pairs)}}}"
        )
    ),
    max_leaves=12,
).map(str.encode)
NAMES = ("tenantId", "interactionId", "correlationId", "resumeToken", "idempotencyKey", "actor", "responsePayload", "x")
SIGNER = TokenSigner(("one", "two"))


@given(PLAIN)
def test_what_we_write_we_read(value: Any) -> None:
    assert parse_json(dumps(value), MAX) == value
    assert parse_json(canonical(value), MAX) == value
    assert parse_json(json.dumps(value).encode(), MAX) == value
    assert normalise(value) == value


@given(PLAIN)
def test_equal_values_have_one_canonical_form(value: Any) -> None:
    assert canonical(json.loads(json.dumps(value, sort_keys=True))) == canonical(value)


@given(st.binary() | JSONISH)
@settings(max_examples=500)
def test_any_bytes_parse_or_are_refused(data: bytes) -> None:
    try:
        value = parse_json(data, 100)
    except JsonRefusedError:
        return
    assert parse_json(dumps(value), MAX) == value
    json.loads(data)


@given(COMPACT)
@settings(max_examples=500)
def test_compact_json_is_read_like_any_other(data: bytes) -> None:
    """Compact JSON has a quicker way, which a blank closes: repeated keys and numbers fare alike on both."""
    outcomes = []
    for written in (data, b" " + data):
        try:
            outcomes.append(repr(parse_json(written, MAX)))
        except JsonRefusedError as error:
            outcomes.append(error.reason)
    assert outcomes[0] == outcomes[1]


@given(NUMBERS)
def test_numbers_are_the_plain_form_of_what_was_written(text: str) -> None:
    try:
        value = parse_json(text.encode(), MAX)
    except JsonRefusedError:
        assert len(format(Decimal(text), "f").lstrip("-").replace(".", "")) >= 64 or Decimal(text) == 0
        return
    assert Decimal(value) == Decimal(text)
    assert "e" not in str(value).lower()
    if isinstance(value, str) and Decimal(text).as_tuple().exponent != 0:
        assert value == format(Decimal(text), "f")
    assert parse_json(dumps(value), MAX) == value


@given(st.floats() | st.decimals())
def test_python_numbers_normalise_exactly_or_are_refused(number: float | Decimal) -> None:
    try:
        text = normalise(number)
    except PayloadError:
        return
    assert Decimal(text) == (number if isinstance(number, Decimal) else Decimal(repr(number)))
    assert "e" not in text.lower()


@given(st.dictionaries(st.sampled_from(NAMES), PLAIN), st.booleans())
@settings(max_examples=300)
def test_any_object_is_an_envelope_or_is_refused(fields: dict[str, Any], strict: bool) -> None:
    try:
        found = parse_completion(json.dumps(fields).encode(), max_bytes=2000, strict=strict)
    except EnvelopeRefusedError:
        return
    assert found.tenant_id.strip() == found.tenant_id != ""
    assert found.interaction_id or found.correlation_id
    assert found.response_payload == fields["responsePayload"] is not None
    assert set(found.unknown_fields) == fields.keys() & {"x"}
    if found.resume_token is not None:
        with pytest.raises(TokenError):
            SIGNER.verify(found.resume_token)


@given(st.none() | st.binary() | JSONISH, st.booleans())
@settings(max_examples=300)
def test_any_bytes_are_an_envelope_or_are_refused(data: bytes | None, strict: bool) -> None:
    try:
        parse_completion(data, max_bytes=50, strict=strict)
    except EnvelopeRefusedError:
        return


@given(PLAIN, PLAIN)
def test_a_dispatch_is_sound_json(payload: Any, metadata: Any) -> None:
    data = dispatch_envelope(
        tenant_id="t",
        execution_id="e",
        interaction_id="i",
        correlation_id="c",
        step_id="s",
        deadline_epoch_ms=1,
        input_type="I",
        output_type="O",
        resume_token="r",
        request_payload=payload,
        transport_metadata={"m": metadata},
    )
    assert parse_json(data, 1 << 22)["requestPayload"] == payload


VALUES = st.none() | st.text(alphabet='ab:=\\<>nul"item0[]') | st.integers() | st.lists(st.text("ab:=\\"), max_size=2)


@given(
    st.tuples(VALUES, VALUES), st.tuples(VALUES, VALUES), st.none() | st.integers(0, 3), st.none() | st.integers(0, 3)
)
def test_different_values_give_different_keys(
    one: tuple[Any, Any], other: tuple[Any, Any], item: int | None, other_item: int | None
) -> None:
    def key(values: tuple[Any, Any], index: int | None) -> str:
        return idempotency_key("S", ("f", "g"), dict(zip("fg", values, strict=True)), index, "e")

    def shown(value: Any) -> tuple[bool, str]:
        """Values of one field have one type; across types only the text counts."""
        return value is None, value if isinstance(value, str) else canonical(value if abs_ok(value) else "").decode()

    def abs_ok(value: Any) -> bool:
        return not isinstance(value, int) or abs(value) < 2**63

    if not all(abs_ok(value) for value in (*one, *other)):
        return
    same = (*map(shown, one), item) == (*map(shown, other), other_item)
    assert (key(one, item) == key(other, other_item)) == same


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=6))
def test_a_decimal_has_one_key_however_it_is_written(number: Decimal) -> None:
    def key(text: str) -> str:
        return idempotency_key("S", ("f",), {"f": text}, None, "e", frozenset("f"))

    assert key(str(number)) == key(format(number, "f")) == key(format(number, "f") + "000") == key(format(number, "e"))
    assert Decimal(key(str(number)).removeprefix("S:f=")) == number


class BudgetMachine(RuleBasedStateMachine):
    """A budget against a model that is two counters: exact releases, never above capacity, fair rounds."""

    owners = st.sampled_from("abcdef")
    counts = st.integers(0, 7)

    def __init__(self) -> None:
        super().__init__()
        self.budget = AdmissionBudget(5)
        self.held: Counter[str] = Counter()
        self.wants: Counter[str] = Counter()

    @rule(owner=owners, count=counts)
    def request(self, owner: str, count: int) -> None:
        self.budget.request(owner, count)
        self.wants[owner] += count

    @rule(owner=owners, count=st.integers(0, 3))
    def adopt(self, owner: str, count: int) -> None:
        self.budget.adopt(owner, count)
        self.held[owner] += count

    @rule(hold=st.booleans())
    def gate(self, hold: bool) -> None:
        (self.budget.hold if hold else self.budget.resume)()

    @rule()
    def grant(self) -> None:
        before, granted = self.budget.held, self.budget.grant()
        total = sum(count for _, count in granted)
        free = 0 if self.budget.on_hold else max(0, self.budget.capacity - before)
        assert total == min(free, self.wants.total())
        assert len({owner for owner, _ in granted}) == len(granted)
        shares = dict(granted)
        for owner, count in granted:
            assert 0 < count <= self.wants[owner]
        for owner in self.wants:
            if shares.get(owner, 0) < self.wants[owner]:  # still waiting: it got as much as any other, less one
                assert shares.get(owner, 0) >= max(shares.values(), default=0) - 1
        self.held.update(shares)
        self.wants.subtract(shares)

    @rule(owner=owners, count=counts)
    def release(self, owner: str, count: int) -> None:
        if count <= self.held[owner]:
            self.budget.release(owner, count)
            self.held[owner] -= count
        else:
            with pytest.raises(AssertionError):
                self.budget.release(owner, count)

    @rule(owner=owners)
    def withdraw(self, owner: str) -> None:
        assert self.budget.withdraw(owner) == self.wants.pop(owner, 0)

    @precondition(lambda self: self.held or self.wants)
    @rule(owner=owners)
    def drop(self, owner: str) -> None:
        self.budget.drop(owner)
        del self.held[owner], self.wants[owner]

    @invariant()
    def agrees(self) -> None:
        assert self.budget.held == self.held.total()
        assert self.budget.waiting == self.wants.total()
        for owner in "abcdef":
            assert self.budget.held_by(owner) == self.held[owner]
            assert self.budget.wanted_by(owner) == self.wants[owner]
        assert self.budget.owners == len({owner for owner in "abcdef" if self.held[owner] or self.wants[owner]})


TestBudget = BudgetMachine.TestCase

"""Amounts are read as written or refused with a reason (contract 0.15)."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpf_streams.connectors.amount import AMOUNT_DIGITS_MAX, parse_amount
from tpf_streams.errors import PayloadError


@pytest.mark.parametrize("text", ["5047.29", "0.1", "0.10", "12", "100000000000000001.01", "0.01"])
def test_a_plain_amount_is_kept_as_written(text):
    assert parse_amount(text) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("007.50", "leading zeros"),
        ("", "empty"),
        ("+12.50", "sign"),
        ("-10.00", "sign"),
        ("5,047.29", "comma"),
        ("5.047,29", "comma"),
        ("1,2,3", "comma"),
        ("1.000", "two decimals"),
        ("12.345", "two decimals"),
        ("0.00", "zero"),
        ("000", "zero"),
        ("1e3", "plain digits"),
        ("0x10", "plain digits"),
        ("NaN", "plain digits"),
        ("Infinity", "plain digits"),
        ("١٢.50", "plain digits"),
        ("EUR 12.50", "plain digits"),
        ("12.50\n", "plain digits"),
        (" 12.50", "plain digits"),
        ("1_000.00", "plain digits"),
        (".5", "plain digits"),
        ("5.", "plain digits"),
        ("5.0.0", "plain digits"),
        ("−5.00", "plain digits"),
        ("9" * (AMOUNT_DIGITS_MAX + 1), "digits"),
    ],
)
def test_anything_else_is_refused_with_a_reason(text, reason):
    with pytest.raises(PayloadError, match=reason):
        parse_amount(text)


@given(st.integers(1, 10**AMOUNT_DIGITS_MAX - 1), st.integers(0, 2))
def test_every_amount_up_to_the_bound_is_exact(units, decimals):
    text = f"{Decimal(units).scaleb(-decimals):f}"
    assert Decimal(parse_amount(text)) == Decimal(units).scaleb(-decimals)


@given(st.text(alphabet="0123456789.,+-eE_ x١", max_size=12))
def test_what_is_accepted_is_a_positive_number_with_at_most_two_decimals(text):
    try:
        amount = Decimal(parse_amount(text))
    except PayloadError:
        return
    exponent = amount.as_tuple().exponent
    assert amount > 0
    assert isinstance(exponent, int)
    assert -2 <= exponent <= 0

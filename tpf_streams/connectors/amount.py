"""Amounts of money, read strictly and never changed."""

from __future__ import annotations

import re

from tpf_streams.errors import PayloadError

AMOUNT_DIGITS_MAX = 28
"""Digits on both sides of the point together. A `decimal` context keeps 28 by default: more would round in a step."""

_AMOUNT = re.compile(r"(?:0|[1-9][0-9]*)(?:\.[0-9]{1,2})?")
_LEADING_ZERO = re.compile(r"0[0-9]+(?:\.[0-9]{1,2})?")
_LONG_FRACTION = re.compile(r"[0-9]+\.[0-9]{3,}")


def parse_amount(text: str) -> str:
    """The amount exactly as written, or PayloadError with the reason.

    An amount is ASCII digits, at least one, then at most one `.` followed by one or two digits; greater than zero.
    Everything else is a bad value and nothing is rescaled (contract 0.15): no sign, exponent, blank, currency, digit of
    another script, zero, leading zero or third decimal. A third decimal is refused because `1.000` is a thousand to
    half the world; a leading zero because it would not come out as it was read.

    `5,047.29` is refused too. Field case O21 takes the comma for grouping; contract 0.15 knows only the plain form, and
    section 0 wins over a case. For the same reason `0.1` stays `0.1` where the case shows the equal `0.10`.
    """
    if _AMOUNT.fullmatch(text) is None:
        raise PayloadError(_fault(text))
    if len(text) > AMOUNT_DIGITS_MAX and len(text.replace(".", "")) > AMOUNT_DIGITS_MAX:
        raise PayloadError(f"the amount has more than {AMOUNT_DIGITS_MAX} digits")
    if not text.strip("0."):
        raise PayloadError("the amount is zero")
    return text


def _fault(text: str) -> str:
    if not text:
        return "the amount is empty"
    if text[0] in "+-":
        return "the amount has a sign"
    if "," in text:
        return "the amount has a comma; only digits with '.' before the decimals are read"
    if _LEADING_ZERO.fullmatch(text):
        return "the amount has leading zeros"
    if _LONG_FRACTION.fullmatch(text):
        return "the amount has more than two decimals"
    return "the amount is not plain digits with '.' before the decimals"

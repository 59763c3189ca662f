"""Pieces of JSON Schema for what an author writes as one word or text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

SCALAR: dict[str, Any] = {"type": ["string", "number", "boolean"]}
"""A load takes each scalar as its text: a topic may be called 7."""
TEXT: dict[str, Any] = {**SCALAR, "pattern": r"\S"}


def words_schema(choices: Iterable[str], *, exact: bool) -> dict[str, Any]:
    """The words as they are for an editor to offer, and every other way that a load reads as one of them."""
    words = [str(word) for word in choices]
    numbers = [int(word) for word in words if word.isdigit()]
    pattern = "|".join(re.escape(word) if exact else _any_case(word) for word in words)
    return {"anyOf": [{"enum": [*words, *numbers]}, {"type": "string", "pattern": rf"^\s*(?:{pattern})\s*$"}]}


def _any_case(word: str) -> str:
    """The patterns of JSON Schema have no flag for it."""
    return "".join(f"[{c.lower()}{c.upper()}]" if c.lower() != c.upper() else re.escape(c) for c in word)

"""Names that are made from other names."""

from __future__ import annotations

import re

_WORD_BREAK = re.compile(r"[\W_]+")
_CAMEL_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_LEADING = "Process "


def step_id(name: str) -> str:
    """The id of a step on the wire (end of contract section 0); empty for a name without a letter or digit."""
    words = [word for word in _WORD_BREAK.split(name.strip().removeprefix(_LEADING)) if word]
    return f"Process{''.join(word.lower().capitalize() for word in words)}Service" if words else ""


def kebab_case(name: str) -> str:
    """`Restaurant Approval` and `restaurantApproval` -> `restaurant-approval` (contract 0.22)."""
    words = _WORD_BREAK.split(_CAMEL_HUMP.sub(" ", name))
    return "-".join(word.lower() for word in words if word)


def snake_case(name: str) -> str:
    """`csvPaymentsInputFilePath` -> `csv_payments_input_file_path`."""
    return kebab_case(name).replace("-", "_")


def is_topic(name: str) -> bool:
    """Whether Kafka takes `name` as a topic."""
    return bool(_TOPIC.fullmatch(name)) and name not in (".", "..")

"""Reading a transport's own keys from a step; the DSL has checked them, a definition made in Python has not been."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpf_streams.core.step import AwaitDefinition
from tpf_streams.errors import TerminalError

CODE = "TRANSPORT_CONFIG"


def option(step: AwaitDefinition, key: str) -> str | None:
    """The trimmed text under `request.topic`, say: nested as in YAML, or under the dotted name. Blank is None.

    Raises TerminalError for a value that is no text.
    """
    found: Any = step.transport.options
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    if found is None:
        found = step.transport.options.get(key)
    if found is not None and not isinstance(found, str):
        raise TerminalError(f"{step.transport.type} await transport: {key} must be a text", CODE)
    return (found.strip() or None) if found else None


def required(step: AwaitDefinition, key: str) -> str:
    """The same, raising TerminalError where it is missing or blank (contract 1.4)."""
    value = option(step, key)
    if value is None:
        raise TerminalError(f"{step.transport.type} await transport requires {key}", CODE)
    return value


def text_map(step: AwaitDefinition, key: str) -> dict[str, str]:
    """A map of names to texts, such as `headers`. Raises TerminalError for anything else."""
    found = step.transport.options.get(key)
    if found is None:
        return {}
    if not isinstance(found, Mapping) or not all(isinstance(part, str) for pair in found.items() for part in pair):
        raise TerminalError(f"{step.transport.type} await transport: {key} must map names to texts", CODE)
    return dict(found)

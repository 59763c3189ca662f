"""Values that fit a JSON Schema of `dsl.payload_schema`: something to begin with, in commands that are shown."""

from __future__ import annotations

from typing import Any

from tpf_streams.core.step import Json
from tpf_streams.dsl.payload_schema import Schema

DEPTH_MAX = 8
"""A type may hold itself."""
_FORMATS = {
    "uuid": "00000000-0000-4000-8000-000000000001",
    "date-time": "2026-01-31T12:00:00Z",
    "date": "2026-01-31",
    "duration": "PT1H",
}
_PATTERNS = {"A-Za": "EUR", "T": "2026-01-31T12:00:00", "0-9": "12.50"}
"""Of a scalar without a format, by what its pattern speaks of; in this order."""


def sample_of(schema: Schema) -> Json:
    """What is required, and nothing else; of a union its first arm."""
    return _sample(schema, schema.get("$defs", {}), DEPTH_MAX)


def _sample(schema: Schema, inside: dict[str, Schema], depth: int) -> Any:
    if "$ref" in schema:
        schema = inside[schema["$ref"].rpartition("/")[2]]
    chosen = schema.get("oneOf") or schema.get("anyOf")
    if chosen:
        return _sample(chosen[0], inside, depth)
    match schema.get("type"):
        case "object" if depth:
            fields = schema.get("properties", {})
            return {name: _sample(fields[name], inside, depth - 1) for name in schema.get("required", ())}
        case "array":
            return [_sample(schema["items"], inside, depth - 1)] if depth else []
        case "boolean":
            return True
        case "integer" | "number":
            return 1
        case "string":
            return _text(schema)
    return {}


def _text(schema: Schema) -> str:
    if "contentEncoding" in schema:
        return ""
    if "format" in schema:
        return _FORMATS[schema["format"]]
    pattern = schema.get("pattern", "")
    return next((text for mark, text in _PATTERNS.items() if mark in pattern), "text")

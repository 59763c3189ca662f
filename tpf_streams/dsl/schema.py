"""The JSON Schema of pipeline.yaml, for editors: made from the tables of keys and settings that a load follows.

It never refuses what a load accepts. It cannot see everything that a load refuses: whether types fit from step to step,
what a name stands for, or how a value was spelt before YAML read it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

from tpf_streams.dsl.durations import DAYS_AND_TIME, WEEKS
from tpf_streams.dsl.keys import NAME, Key, Kind, Table, Variants
from tpf_streams.dsl.keys_root import ARM, ROOT
from tpf_streams.dsl.schema_settings import settings_definitions, settings_schema
from tpf_streams.dsl.schema_words import SCALAR, TEXT, words_schema
from tpf_streams.dsl.setting import Status

Schema: TypeAlias = dict[str, Any]

DRAFT = "http://json-schema.org/draft-07/schema#"
"""The newest one that every YAML language server knows."""

_FLAG: Schema = {"anyOf": [{"type": "boolean"}, {"type": "string", "pattern": r"^\s*(true|false)\s*$"}]}
_DURATION: Schema = {"type": "string", "pattern": rf"^\s*(?:{WEEKS}|(?=.*[1-9]){DAYS_AND_TIME})\s*$"}
_TEXTS: Schema = {"type": "array", "items": TEXT, "minItems": 1}
_NAME: Schema = {"type": ["string", "boolean"], "pattern": f"^{NAME}$"}
_FIELD: Schema = {
    "type": "array",
    "items": [_NAME, _NAME, {"const": "optional"}],
    "minItems": 2,
    "maxItems": 3,
}


SCHEMA_FILE = Path(__file__).with_name("pipeline.schema.json")
"""Lies in the package, for editors that want a file."""


def schema_text() -> str:
    return json.dumps(pipeline_schema(), indent=1, ensure_ascii=False) + "\n"


def pipeline_schema() -> Schema:
    """The whole of it, as a JSON object."""
    return {
        "$schema": DRAFT,
        "title": "pipeline.yaml of tpf-streams",
        **_table(ROOT),
        "allOf": [
            {"if": _is("version", "3"), "then": {"properties": {"unions": {"maxProperties": 0}}}},
            {"if": _is("version", "2"), "then": {"properties": {"types": {"additionalProperties": _WITHOUT_VARIANTS}}}},
        ],
        "definitions": settings_definitions(),
    }


_WITHOUT_VARIANTS: Schema = {"properties": {"variants": False}}


def _table(table: Table) -> Schema:
    accepted = {name: key for name, key in table.keys.items() if key.status is not Status.REFUSED}
    required = [name for name, key in accepted.items() if key.required]
    rules: list[Schema] = [
        {"anyOf": [{"required": [name]} for name in group if name in accepted]} for group in table.some_of
    ]
    rules += [{"not": {"required": list(pair)}} for group in table.one_of for pair in combinations(group, 2)]
    found: Schema = {
        "type": "object",
        "properties": {name: _key(key) for name, key in accepted.items()},
        "additionalProperties": _key(table.each) if table.each else False,
    }
    if required:
        found["required"] = required
    if rules:
        found["allOf"] = rules
    if table.names:
        found["propertyNames"] = {"pattern": f"^{table.names}$"}
    return found


def _variants(variants: Variants) -> Schema:
    """The key that chooses stands outside too, so that an editor can offer its values."""
    first = next(iter(variants.tables.values()))
    rules: list[Schema] = [
        {"if": _is(variants.by, name), "then": _table(table)} for name, table in variants.tables.items()
    ]
    if variants.otherwise is not None:
        absent = {"not": {"required": [variants.by]}}
        rules.append({"if": absent, "then": _table(variants.table(None))})
    found: Schema = {"type": "object", "properties": {variants.by: _key(first.keys[variants.by])}, "allOf": rules}
    if first.keys[variants.by].required:
        found["required"] = [variants.by]
    return found


def _is(name: str, value: str) -> Schema:
    return {"properties": {name: words_schema([value], exact=False)}, "required": [name]}


def _key(key: Key) -> Schema:
    return {"description": _description(key), **_value(key)}


def _description(key: Key) -> str:
    if key.status is Status.NOTED:
        return f"{key.help} {key.why[:1].upper()}{key.why[1:]}."
    if key.default is not None:
        return f"{key.help} Default: {key.default or 'nothing'}."
    return f"{key.help} Default: the setting {key.setting}." if key.setting else key.help


def _value(key: Key) -> Schema:
    if key.variants is not None:
        one = _variants(key.variants)
        return {"type": "array", "items": one, "minItems": 1} if key.kind is Kind.STEPS else one
    if key.table is not None:
        return _table(key.table)
    match key.kind:
        case Kind.CHOICE:
            return words_schema(key.choices, exact=key.exact)
        case Kind.INTEGER:
            return _integer(key)
        case Kind.ARM:
            return {"anyOf": [TEXT, _table(ARM)]}
        case Kind.SETTINGS:
            return settings_schema()
    return _PLAIN[key.kind]


_PLAIN: Mapping[Kind, Schema] = {
    Kind.TEXT: TEXT,
    Kind.RAW_TEXT: SCALAR,
    Kind.FLAG: _FLAG,
    Kind.DURATION: _DURATION,
    Kind.TEXTS: _TEXTS,
    Kind.FIELDS: {"type": "array", "items": _FIELD},
    Kind.ANY: {},
}


def _integer(key: Key) -> Schema:
    number = {"type": "integer", "minimum": key.minimum, "maximum": key.maximum}
    return {"anyOf": [number, {"type": "string", "pattern": r"^\s*[0-9]{1,19}\s*$"}]}

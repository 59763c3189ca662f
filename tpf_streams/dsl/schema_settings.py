"""The part of the JSON Schema that is about settings, which may be nested, dotted, or both."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from tpf_streams.dsl.schema_words import SCALAR, TEXT, words_schema
from tpf_streams.dsl.setting import Kind, Setting, Status
from tpf_streams.dsl.settings_table import FAMILIES, SETTINGS

Schema: TypeAlias = dict[str, Any]

_PLACEHOLDER: Schema = {"type": "string", "pattern": r"\$\{"}
"""`${VARIABLE}` may stand for any value."""
_TEXTS: Schema = {"anyOf": [TEXT, {"type": "array", "items": SCALAR}]}
_PREFIXES = tuple(
    dict.fromkeys(".".join(key.split(".")[:count]) + "." for key in SETTINGS for count in range(1, key.count(".") + 1))
)
"""Every beginning of a key that may be a mapping of its own: `a.` and `a.b.` of `a.b.c`."""


def settings_schema() -> Schema:
    """Names that are none of ours may be the application's own, which only a load can tell."""
    return {**_node(""), "additionalProperties": True}


def settings_definitions() -> Schema:
    """What `settings_schema` refers to."""
    nodes = {f"settings {prefix}*": _node(prefix) for prefix in _PREFIXES}
    return nodes | {f"setting {key}": _setting(setting) for key, setting in SETTINGS.items()}


def _node(prefix: str) -> Schema:
    """The mapping under `prefix`: each key goes on after it, to its end or to a mapping again."""
    properties = {key.removeprefix(prefix): _ref(f"setting {key}") for key in SETTINGS if key.startswith(prefix)}
    for longer in _PREFIXES:
        if longer.startswith(prefix) and longer != prefix:
            properties[longer.removeprefix(prefix).rstrip(".")] = _ref(f"settings {longer}*")
    return {
        "type": "object",
        "properties": properties,
        "patternProperties": dict.fromkeys(_families(prefix), True),
        "additionalProperties": False,
    }


def _families(prefix: str) -> list[str]:
    """What may go on after `prefix` into a family of keys, or anything where that is reached."""
    found: list[str] = []
    for family in FAMILIES:
        if family.status is Status.REFUSED:
            continue
        if prefix.startswith(family.prefix):
            found.append("")
        elif family.prefix.startswith(prefix):
            words = family.prefix.removeprefix(prefix).rstrip(".").split(".")
            found += [f"^{re.escape('.'.join(words[: count + 1]))}$" for count in range(len(words))]
            found.append(f"^{re.escape(family.prefix.removeprefix(prefix))}")
    return found


def _ref(name: str) -> Schema:
    return {"$ref": f"#/definitions/{name.replace('%', '%25').replace(' ', '%20').replace('*', '%2A')}"}


def _setting(setting: Setting) -> Schema:
    default = "" if setting.default is None else f" Default: {setting.default}."
    fate = "" if setting.status is Status.HONOURED else f" {setting.status.value.capitalize()}: {setting.why}."
    return {"description": f"{setting.help}{default}{fate}", **_value(setting)}


def _value(setting: Setting) -> Schema:
    if setting.status is Status.REFUSED:
        return {"not": {}}
    if setting.secret:
        return {}  # also a blank one: it is not there
    match setting.kind:
        case Kind.TEXT | Kind.TEXTS:
            return _TEXTS
        case Kind.CHOICE:
            given = words_schema(setting.choices, exact=False)
        case Kind.FLAG:
            given = {"anyOf": [{"type": "boolean"}, words_schema(("true", "false"), exact=False)]}
        case Kind.INTEGER | Kind.NUMBER:
            numbers = {"type": "number", "minimum": setting.minimum, "maximum": setting.maximum}
            given = {"anyOf": [numbers, {"type": "string", "pattern": r"^\s*-?[0-9.]+\s*$"}]}
        case _:
            given = {"type": "string", "pattern": r"^\s*P[0-9DTHMSW.]+\s*$"}
    return {"anyOf": [given, _PLACEHOLDER]}

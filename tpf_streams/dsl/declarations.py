"""The `types` and `unions` of a pipeline file (contract 12.2): version 2 keeps unions apart, version 3 has variants."""

from __future__ import annotations

import re

from tpf_streams.dsl.document import ListNode, MapNode, Node, TextNode
from tpf_streams.dsl.keys import NAME
from tpf_streams.dsl.keys_root import ARM
from tpf_streams.dsl.report import one_of, shown, suggestion
from tpf_streams.dsl.scalars import SCALARS
from tpf_streams.dsl.section import Section
from tpf_streams.dsl.shapes import FieldSpec, RecordType, UnionType
from tpf_streams.dsl.types import TypeRegistry

NESTED_MAX = 32
"""Types inside types. A payload may be nested 64 deep (contract 0.6), arms of unions included."""
FIELDS_MAX = 1_000
_NAME = re.compile(NAME)


def read_types(root: Section, version: int) -> TypeRegistry:
    """All declared types. Fields and arms that name an unknown type are reported, and left out."""
    bodies, apart = dict(_bodies(root, "types")), dict(_bodies(root, "unions"))
    inside = {name: body for name, body in bodies.items() if body.has("variants")}
    _check_layout(root, version, bodies, inside, apart)
    records = [name for name in bodies if name not in inside]
    declared = [*bodies, *apart]
    found_records = [RecordType(name, _fields(bodies[name], declared)) for name in records]
    arms = {name: _arms(body, records) for name, body in [*apart.items(), *inside.items()]}
    found_unions = [UnionType(name, arms_of) for name, arms_of in arms.items() if name not in records]
    for body in [*bodies.values(), *apart.values()]:
        body.finish()
    registry = TypeRegistry(found_records, found_unions, int64_as_text=version >= 3)
    _refuse_cycles(registry, bodies)
    return registry


def _check_layout(
    root: Section, version: int, bodies: dict[str, Section], inside: dict[str, Section], apart: dict[str, Section]
) -> None:
    if version == 3 and apart:
        root.problem("unions", "version 3 declares a union as variants of a type, under types")
    if version == 2:
        for body in inside.values():
            body.problem("variants", "version 2 declares unions under unions, apart from types")
    for name, body in apart.items():
        if name in bodies:
            body.problem("variants", f"{name} is a type already")


def _bodies(root: Section, name: str) -> list[tuple[str, Section]]:
    parent = root.section(name)
    found = list(parent.sections()) if parent else []
    for type_name, body in found:
        wrong = "is the name of a scalar" if type_name in SCALARS else ""
        if not _NAME.fullmatch(type_name):
            wrong = "a type name is a letter, then letters, digits and underscores"
        if wrong:
            body.report.problem(body.file, body.line, body.path, wrong)
    return found


def _fields(body: Section, declared: list[str]) -> tuple[FieldSpec, ...]:
    node = body.value("fields")
    if not isinstance(node, ListNode):
        if node is not None or not body.has("fields"):
            body.problem("fields", "must be a list of [name, type]" if node else "missing, and required")
        return ()
    if len(node.items) > FIELDS_MAX:
        body.problem("fields", f"{len(node.items)} fields; at most {FIELDS_MAX} are allowed")
        return ()
    found: dict[str, FieldSpec] = {}
    for item in node.items:
        spec = _field(body, item, declared)
        if spec is not None and spec.name in found:
            _at(body, item, f"field {spec.name} is declared twice")
        elif spec is not None:
            found[spec.name] = spec
    return tuple(found.values())


def _field(body: Section, item: Node, declared: list[str]) -> FieldSpec | None:
    written = item.items if isinstance(item, ListNode) else ()
    parts = [it.text for it in written if isinstance(it, TextNode) and not it.is_null]
    wrong = _wrong_field(parts if len(parts) == len(written) else [], declared)
    if wrong:
        _at(body, item, wrong)
        return None
    return FieldSpec(parts[0], parts[1], len(parts) == 3)


def _wrong_field(parts: list[str], declared: list[str]) -> str:
    if len(parts) not in (2, 3) or (len(parts) == 3 and parts[2] != "optional"):
        return "a field is [name, type], or [name, type, optional]"
    name, kind = parts[:2]
    if not _NAME.fullmatch(name):
        return f"{shown(name)}: a field name is a letter, then letters, digits and underscores"
    known = [*SCALARS, *declared]
    if kind not in known:
        return f"field {name}: unknown type {shown(kind)}: allowed are {one_of(known)}.{suggestion(kind, known)}"
    return ""


def _at(body: Section, item: Node, message: str) -> None:
    body.report.problem(body.file, item.line, body.key("fields"), message)


def _arms(body: Section, records: list[str]) -> dict[str, str]:
    variants = body.section("variants")
    arms: dict[str, str] = {}
    if variants is None:
        return arms
    for arm in variants.node.entries:
        kind = _arm(variants, arm)
        if kind is None:
            continue
        if kind not in records:
            variants.problem(
                arm, f"{shown(kind)} is no type with fields: {one_of(records)}.{suggestion(kind, records)}"
            )
        elif kind in arms.values():
            variants.problem(arm, f"{kind} is another arm already; each arm needs a type of its own")
        else:
            arms[arm] = kind
    if not variants.node.entries:
        body.problem("variants", "a union needs at least one arm")
    return arms


def _arm(variants: Section, arm: str) -> str | None:
    node = variants.value(arm)
    if not isinstance(node, MapNode):
        return variants.text(arm)
    inner = Section(variants.report, variants.file, node, ARM, variants.key(arm), variants.line_of(arm))
    kind = inner.text("type")
    inner.finish()
    return kind


def _refuse_cycles(types: TypeRegistry, bodies: dict[str, Section]) -> None:
    """A type that contains itself can have no finite value, since fields are required; one nested too deep has none
    that the JSON policy takes. Either loses its fields, or whatever follows types down would not come back."""
    depths: dict[str, int] = {}

    def depth(name: str, path: tuple[str, ...]) -> int:
        if name in path:
            return _refuse(name, f"{name} contains itself: {' -> '.join([*path[path.index(name) :], name])}")
        if len(path) >= NESTED_MAX:
            return _refuse(name, f"{path[0]} nests types more than {NESTED_MAX} deep")
        if name not in depths:
            fields = types.records[name].fields
            inner = [kind for field in fields if field.type in types for kind in types.concrete(field.type)]
            deepest = max((depth(kind, (*path, name)) for kind in dict.fromkeys(inner)), default=0)
            depths.setdefault(name, 1 + deepest)
            if depths[name] > NESTED_MAX:
                _refuse(name, f"{name} nests types more than {NESTED_MAX} deep")
        return depths[name]

    def _refuse(name: str, message: str) -> int:
        bodies[name].problem("fields", message)
        types.records[name] = RecordType(name, ())
        depths[name] = 0
        return 0

    for name in types.records:
        depth(name, ())

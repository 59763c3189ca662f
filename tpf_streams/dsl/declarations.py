"""The `types` and `unions` of a pipeline file (contract 12.2): version 2 keeps unions apart, version 3 has variants."""

from __future__ import annotations

import re

from tpf_streams.dsl.document import ListNode, Node, TextNode
from tpf_streams.dsl.report import one_of, shown, suggestion
from tpf_streams.dsl.scalars import SCALARS
from tpf_streams.dsl.section import Section
from tpf_streams.dsl.shapes import FieldSpec, RecordType, UnionType
from tpf_streams.dsl.types import TypeRegistry

VERSIONS = (2, 3)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


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
        if not _NAME.fullmatch(type_name) or type_name in SCALARS:
            body.report.problem(body.file, body.line, body.path, "a type name is a letter, then letters and digits")
    return found


def _fields(body: Section, declared: list[str]) -> tuple[FieldSpec, ...]:
    node = body.value("fields", required=True)
    if not isinstance(node, ListNode):
        if node is not None:
            body.problem("fields", "must be a list of [name, type]")
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
    parts = [it.text for it in item.items if isinstance(it, TextNode)] if isinstance(item, ListNode) else []
    wrong = _wrong_field(parts, declared)
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
    variants = body.section("variants", required=True)
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
    if not isinstance(variants.node.entries[arm].node, TextNode):
        inner = variants.section(arm)
        kind = inner.text("type", required=True) if inner else None
        if inner:
            inner.finish()
        return kind
    return variants.text(arm)


def _refuse_cycles(types: TypeRegistry, bodies: dict[str, Section]) -> None:
    """A type that contains itself can have no finite value, since fields are required."""
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            bodies[name].problem("fields", f"{name} contains itself: {' -> '.join([*path[path.index(name) :], name])}")
            done.update(path)
        if name in done:
            return
        for field in types.records[name].fields:
            for inner in types.concrete(field.type) if field.type in types else ():
                visit(inner, (*path, name))
        done.add(name)

    for name in types.records:
        visit(name, ())

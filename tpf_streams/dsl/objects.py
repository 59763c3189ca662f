"""Object ingest and publish: `sources`, `input`, `publish` and `output` of a pipeline file (contract 12.3, 0.16)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import TypeVar

from tpf_streams.core.step import OnRowError
from tpf_streams.dsl.keys_objects import IDENTITY_FIELDS, OnExisting, Quirks
from tpf_streams.dsl.report import one_of, shown, suggestion
from tpf_streams.dsl.section import Section
from tpf_streams.dsl.settings import Settings

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class ObjectSourceConfig:
    """A polled folder. `root` as written (it is the container of contract 0.23); `directory` where that is."""

    name: str
    root: str
    directory: Path
    prefix: str
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    poll_enabled: bool
    poll_interval_ms: int
    batch_size: int
    identity_fields: tuple[str, ...]
    encoding: str
    on_row_error: OnRowError
    provider: str = "filesystem"


@dataclass(frozen=True, slots=True)
class ObjectPublishConfig:
    """A folder for output objects. `key_template` holds `{groupKey}`, which is the input's name."""

    name: str
    root: str
    directory: Path
    key_template: str
    content_type: str
    on_existing: OnExisting
    quirks: Quirks
    provider: str = "filesystem"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What `input` or `output` says: the source or publish it names, and the type it carries.

    `section` is where the type is said; `type_name` and `class_path` may each be absent.
    """

    target: str
    root: Section
    section: Section
    type_name: str | None
    class_path: str | None


def read_endpoint(root: Section, name: str, target_key: str, carries: str, unsupported: str) -> Endpoint | None:
    """`input: {from, emits}` or `output: {to, consumes}`. `unsupported`: the checkpoint key that may stand there."""
    section = root.section(name)
    if section is None:
        return None
    target = section.text(target_key)
    if not section.has(target_key) and not section.has(unsupported):
        section.problem(target_key, "missing, and required")
    body = section.section(carries)
    type_name = class_path = None
    if body is not None:
        class_path, type_name = body.text("type"), body.text("typeName")
        body.finish()
    section.finish()
    return Endpoint(target, section, body or section, type_name, class_path) if target else None


def read_source(root: Section, used: Endpoint | None, settings: Settings, base: Path) -> ObjectSourceConfig | None:
    """The source that `input.from` names; every declared one is checked."""
    parent = root.section("sources")
    found = {name: _source(name, body, settings, base) for name, body in parent.sections()} if parent else {}
    return _chosen(parent, found, used, "from")


def read_publish(root: Section, used: Endpoint | None, settings: Settings, base: Path) -> ObjectPublishConfig | None:
    """The publish that `output.to` names; every declared one is checked. `publish.topic` is a setting, read before."""
    parent = root.section("publish")
    found = {name: _publish(name, body, settings, base) for name, body in parent.sections()} if parent else {}
    return _chosen(parent, found, used, "to")


def _chosen(parent: Section | None, found: dict[str, T], used: Endpoint | None, key: str) -> T | None:
    for name in found:
        if parent is not None and (used is None or used.target != name):
            parent.note(name, "accepted and unused: neither input nor output names it")
    if used is None:
        return None
    if used.target not in found:
        hint = suggestion(used.target, found)
        used.root.problem(key, f"{shown(used.target)} is not declared: allowed are {one_of(found)}.{hint}")
    return found.get(used.target)


def _source(name: str, body: Section, settings: Settings, base: Path) -> ObjectSourceConfig:
    _kind(body)
    root, directory = _root(body, base)
    prefix = _prefix(body)
    include, exclude = _filter(body)
    enabled, interval, batch = _poll(body)
    encoding, on_row_error = _reading(body, settings)
    fields = _identity(body)
    body.finish()
    return ObjectSourceConfig(
        name, root, directory, prefix, include, exclude, enabled, interval, batch, fields, encoding, on_row_error
    )


def _kind(body: Section) -> None:
    body.word("kind")
    body.word("provider")


def _root(body: Section, base: Path) -> tuple[str, Path]:
    location = body.section("location")
    root = location.text("root") if location else None
    if location:
        if root is not None and not root.isprintable():
            location.problem("root", f"{shown(root)}: a folder's name has no control characters")
        location.finish()
    return root or "", base / (root or "")


def _prefix(body: Section) -> str:
    location = body.section("location")
    prefix = location.raw_text("prefix") if location else ""
    if location and _leaves(prefix):
        location.problem("prefix", "must stay inside the root")
    return prefix


def _leaves(key: str) -> bool:
    return key.startswith("/") or ".." in PurePosixPath(key).parts or "\0" in key


def _filter(body: Section) -> tuple[tuple[str, ...], tuple[str, ...]]:
    section = body.inner("filter")
    include, exclude = section.texts("include"), section.texts("exclude")
    section.finish()
    return tuple(include or []), tuple(exclude or [])


def _poll(body: Section) -> tuple[bool, int, int]:
    section = body.inner("poll")
    if body.has("poll"):
        body.note("poll", "workers look at the source so often; a run lists it once, object by object")
    enabled, interval, batch = section.flag("enabled"), section.duration_ms("interval"), section.integer("batchSize")
    section.finish()
    return enabled is not False, interval or 0, batch or 0


def _identity(body: Section) -> tuple[str, ...]:
    """Content is part of a file's identity (contract 0.23), so `etag` may not be left out."""
    section = body.inner("identity")
    fields = section.texts("fields") or []
    unknown = [field for field in fields if field not in IDENTITY_FIELDS]
    if unknown:
        section.problem("fields", f"{shown(unknown[0])}: allowed are {one_of(IDENTITY_FIELDS)}")
    elif fields and not {"key", "etag"} <= set(fields):
        section.problem("fields", "key and etag must be among them: a file is its name and its content")
    section.finish()
    return tuple(fields)


def _reading(body: Section, settings: Settings) -> tuple[str, OnRowError]:
    payload = body.section("payload")
    encoding = None
    if payload:
        payload.word("mode")
        encoding = payload.text("encoding")
    if settings.above_pipeline("encoding") or encoding is None:
        encoding = settings.required_text("encoding")
    if not _is_encoding(encoding):
        (payload or body).problem("encoding", f"{shown(encoding)}: Python knows no such encoding of texts")
    if payload:
        payload.finish()
    own = body.choice("onRowError", OnRowError)
    return encoding, _effective(settings, "onRowError", own, OnRowError)


def _is_encoding(name: str) -> bool:
    """Python has others, between bytes and bytes; and a NUL in the name of one is a ValueError."""
    try:
        return bool("1".encode(name))
    except (LookupError, ValueError):
        return False


def _publish(name: str, body: Section, settings: Settings, base: Path) -> ObjectPublishConfig:
    _kind(body)
    root, directory = _root(body, base)
    naming, payload, grouping = body.inner("naming"), body.inner("payload"), body.inner("grouping")
    template, content_type = naming.text("keyTemplate"), payload.word("contentType")
    if template is not None:
        _check_template(naming, template)
    for section in (naming, payload, grouping):
        section.finish()
    on_existing = _effective(settings, "onExisting", body.choice("onExisting", OnExisting), OnExisting)
    quirks = _effective(settings, "quirks", body.choice("quirks", Quirks), Quirks)
    body.finish()
    return ObjectPublishConfig(name, root, directory, template or "", content_type or "", on_existing, quirks)


def _check_template(naming: Section, template: str) -> None:
    unknown = [found for found in _PLACEHOLDER.findall(template) if found != "groupKey"]
    if unknown:
        naming.problem("keyTemplate", f"{shown(unknown[0])} is no placeholder: {{groupKey}} is the only one")
    elif "{groupKey}" not in template or "{" in _PLACEHOLDER.sub("", template) or _leaves(template):
        naming.problem("keyTemplate", "must hold {groupKey} and stay inside the root")


def _effective(settings: Settings, key: str, own: E | None, kind: type[E]) -> E:
    """What counts: a setting from outside the file, else the key in place, else the setting (contract 0.22)."""
    if own is not None and not settings.above_pipeline(key):
        return own
    return kind(settings.required_text(key))

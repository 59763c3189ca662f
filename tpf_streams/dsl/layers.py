"""Where settings are written: files, the environment, the command line. Each place gives a layer of plain texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from tpf_streams.dsl.document import ListNode, MapNode, Node, TextNode, parse_yaml, read_text
from tpf_streams.dsl.report import Report
from tpf_streams.dsl.setting import Kind
from tpf_streams.dsl.settings_table import SETTINGS

ENVIRONMENT = "environment"
COMMAND_LINE = "command line"


class Rank(IntEnum):
    """Who wins (contract 0.22)."""

    DEFAULT = 0
    PIPELINE = 1
    FILE = 2
    ENVIRONMENT = 3
    COMMAND_LINE = 4


@dataclass(frozen=True, slots=True)
class Given:
    """One value as written. `label` is how its place calls it, where that is not the key."""

    key: str
    text: str = field(repr=False)  # it may be a secret
    rank: Rank
    file: str
    line: int
    label: str = ""

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}" if self.line else f"{self.file} {self.label or self.key}"

    def problem(self, report: Report, message: str) -> None:
        report.problem(self.file, self.line, self.label or self.key, message)


def from_overrides(overrides: Mapping[str, str]) -> list[Given]:
    return [Given(key, text, Rank.COMMAND_LINE, COMMAND_LINE, 0) for key, text in overrides.items()]


def from_environ(environ: Mapping[str, str], report: Report) -> list[Given]:
    """Variables that name a setting. An empty one counts as not set, as in every shell script."""
    given: list[Given] = []
    for setting in SETTINGS.values():
        named = [name for name in setting.env_names if environ.get(name)]
        given += [Given(setting.key, environ[name], Rank.ENVIRONMENT, ENVIRONMENT, 0, name) for name in named[:1]]
        if len({environ[name] for name in named}) > 1:
            report.problem(ENVIRONMENT, 0, named[1], f"differs from {named[0]}; set one of them")
    known = {name for setting in SETTINGS.values() for name in setting.env_names}
    for name in sorted(environ):
        if name.startswith(("PIPELINE_ORCHESTRATOR_", "PIPELINE_AWAIT_", "TPF_AWAIT_")) and name not in known:
            report.warnings.append(f"environment variable {name} looks like a setting and is none; it is not used")
    return given


def from_file(path: Path, report: Report) -> list[Given]:
    """A `.properties` file, or YAML with the same keys, nested or dotted. Raises DefinitionError: unreadable."""
    shown_as = str(path)
    text = read_text(path, shown_as)
    if path.suffix in (".yaml", ".yml"):
        return from_node(parse_yaml(text, shown_as, report), shown_as, Rank.FILE, report)
    return list(_properties(text, shown_as, report))


def from_node(node: MapNode, file: str, rank: Rank, report: Report, path: str = "") -> list[Given]:
    """Flatten nested keys with dots. A list becomes its items parted by commas."""
    given: list[Given] = []
    for name, entry in node.entries.items():
        key = f"{path}.{name}" if path else name
        if isinstance(entry.node, MapNode):
            given += from_node(entry.node, file, rank, report, key)
            continue
        text = _flat(entry.node, key)
        if text is None:
            report.problem(file, entry.line, key, f"{_wanted(key)} is wanted")
        else:
            given.append(Given(key, text, rank, file, entry.line))
    return given


def _flat(node: Node, key: str) -> str | None:
    if isinstance(node, TextNode):
        return "" if node.is_null else node.text
    if not isinstance(node, ListNode) or not _may_be_list(key):
        return None
    items = [item.text for item in node.items if isinstance(item, TextNode) and "," not in item.text]
    return ",".join(items) if len(items) == len(node.items) else None


def _may_be_list(key: str) -> bool:
    return key not in SETTINGS or SETTINGS[key].kind in (Kind.TEXT, Kind.TEXTS, Kind.SECRETS)


def _wanted(key: str) -> str:
    return "one value, or a list of texts without commas," if _may_be_list(key) else "one value"


_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_KEY = re.compile(r"(?:[^\\=:]|\\.)+", re.DOTALL)
"""Up to the first sign that is not escaped. With the blanks around it in the pattern, a line of blanks took minutes."""
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def _properties(text: str, file: str, report: Report) -> Iterator[Given]:
    for line, logical in _logical_lines(text):
        match = _KEY.match(logical)
        if match is None or match.end() == len(logical):
            report.problem(file, line, "file", "key=value is wanted, or a comment that begins with #")
            continue
        try:
            key, value = _unescaped(match[0].rstrip()), _unescaped(logical[match.end() + 1 :]).strip()
        except UnicodeDecodeError:
            report.problem(file, line, "file", "half of a surrogate pair, which no UTF-8 text can hold")
            continue
        yield Given(key, value, Rank.FILE, file, line)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that say something, with the number of their first part; a trailing backslash goes on below."""
    start, parts = 0, list[str]()
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not parts and (not line or line[0] in "#!"):
            continue
        start = start if parts else number
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2
        parts.append(line[:-1] if goes_on else line)
        if not goes_on:
            yield start, "".join(parts)
            parts = []
    if parts:
        yield start, "".join(parts)


def _unescaped(text: str) -> str:
    """Java writes a character beyond 16 bits as two escapes. Raises UnicodeDecodeError where there is only one."""

    def one(match: re.Match[str]) -> str:
        found = match[1]
        return chr(int(found[1:], 16)) if len(found) == 5 else _ESCAPED.get(found, found)

    return _ESCAPE.sub(one, text).encode("utf-16", "surrogatepass").decode("utf-16")


_PLACEHOLDER = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_.-]*)(?::([^}]*))?\}")


def expanded(given: Given, environ: Mapping[str, str]) -> str | None:
    """The text with `${VARIABLE}` and `${VARIABLE:default}` filled in from the environment; None: one is not set."""
    missing = False

    def one(match: re.Match[str]) -> str:
        nonlocal missing
        found = environ.get(match[1]) or match[2]
        missing = missing or found is None
        return found or ""

    text = _PLACEHOLDER.sub(one, given.text)
    return None if missing else text

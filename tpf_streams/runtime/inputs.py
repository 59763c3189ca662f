"""What a run is given to do: objects of a source, or JSON files whose every value is one execution."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tpf_streams.connectors.filesystem_publish import output_name
from tpf_streams.connectors.filesystem_source import FilesystemSource, ListingProblem, execution_key
from tpf_streams.core.json_policy import parse_json
from tpf_streams.core.step import Json, SourceObject
from tpf_streams.errors import DefinitionError, JsonPolicyError, Problem, TerminalError

log = logging.getLogger(__name__)

JSON_LINES = (".jsonl", ".ndjson")
_KEY = re.compile(r"file:(.+):(\d+):[0-9a-f]{64}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Submission:
    """One execution to ask for. `problem`: why it cannot become one, with file and line."""

    execution_key: str
    payload: Json
    source: SourceObject | None = None
    problem: str | None = None


def object_submissions(
    source: FilesystemSource,
    identity_fields: Sequence[str],
    input_fields: Sequence[str],
    output_key_template: str | None = None,
) -> Iterator[Submission]:
    """One for each listed object. One that cannot be read is submitted too: its execution fails with the reason. One
    whose output could have no name is none: all that it asks for would be paid for, and its file never written."""
    for found in source.listing():
        listed = found.source if isinstance(found, ListingProblem) else found
        if listed is None:
            yield Submission("", None, problem=f"{found.path}: {getattr(found, 'reason', 'cannot be listed')}")
        elif problem := _unnameable(output_key_template, listed.key):
            yield Submission("", None, listed, problem=f"{listed.path}: {problem}")
        else:
            yield Submission(execution_key(listed, identity_fields), object_payload(listed, input_fields), listed)


def _unnameable(template: str | None, key: str) -> str:
    """Why an output of this key can have no name; empty when it can."""
    try:
        if template is not None:
            output_name(template, key)
    except TerminalError as error:
        return str(error)
    return ""


def object_place(source: SourceObject) -> tuple[str, ...]:
    """What names an object whatever its content."""
    return source.source, source.provider, source.container, source.key


def object_payload(found: SourceObject, input_fields: Sequence[str]) -> dict[str, Json]:
    """The source's emitted type, filled by the names of its fields."""
    known = {
        "filepath": found.key,
        "csvFolderPath": found.container,
        "key": found.key,
        "container": found.container,
        "provider": found.provider,
        "etag": found.etag,
        "path": found.path,
    }
    return {name: known[name] for name in input_fields if name in known}


def check_input_fields(type_name: str, input_fields: Sequence[str], file: str) -> None:
    """Raises DefinitionError for a field of the emitted type that an object has no value for."""
    known = object_payload(SourceObject("", "", "", "", "", ""), input_fields)
    missing = [name for name in input_fields if name not in known]
    if missing:
        raise DefinitionError(
            [Problem(file, 0, f"types.{type_name}", f"an object has no {', '.join(missing)} to fill")]
        )


def json_submissions(paths: Sequence[str], max_bytes: int) -> Iterator[Submission]:
    """A `.json` file is one execution, each line of a `.jsonl` file is one; directories are listed for both.

    What cannot be read is told, and the others go on.
    """
    for given in map(Path, paths):
        try:
            files = _json_files(given)
        except OSError as error:
            yield _unreadable(given, error)
            continue
        for path in files:
            try:
                yield from _lines(path, max_bytes) if path.suffix in JSON_LINES else _whole(path, max_bytes)
            except OSError as error:
                yield _unreadable(path, error)


def _json_files(given: Path) -> list[Path]:
    if not given.is_dir():
        return [given]
    return sorted(found for found in given.iterdir() if found.suffix in (".json", *JSON_LINES))


def _whole(path: Path, max_bytes: int) -> Iterator[Submission]:
    with path.open("rb") as file:
        yield _value(path, file.read(max_bytes + 1), 0, max_bytes)


def _lines(path: Path, max_bytes: int) -> Iterator[Submission]:
    """Of a line that is too long no more than that is read into memory."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(max_bytes + 2):
            number += 1
            if line.strip():
                yield _value(path, line.strip(), number, max_bytes)
            while line and not line.endswith(b"\n"):
                line = file.readline(max_bytes)


def _unreadable(path: Path, error: OSError) -> Submission:
    return Submission("", None, problem=f"{path}: cannot be read: {error.strerror or error}")


def _value(path: Path, data: bytes, line: int, max_bytes: int) -> Submission:
    """The key holds name, line and content: the same line of the same file is the same execution."""
    digest = hashlib.sha256(data).hexdigest()
    key = f"file:{path.name}:{line}:{digest}"
    try:
        return Submission(key, parse_json(data.strip(), max_bytes))
    except JsonPolicyError as error:
        return Submission(key, None, problem=f"{path}:{line or 1}: {error}")


def input_place(key: str) -> str | None:
    """`orders.jsonl:7` of the key that `_value` made, or `order.json` of a whole file's; None for any other key."""
    found = _KEY.fullmatch(key)
    if found is None:
        return None
    name, line = found.groups()
    return name if line == "0" else f"{name}:{line}"

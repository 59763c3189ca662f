"""Object ingest: what is listed, under which identity, and what is told about the rest (contract 0.23, 12.3)."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from tpf_streams.connectors.filesystem_source import (
    FilesystemSource,
    ListingProblem,
    execution_key,
    matches,
)
from tpf_streams.core.step import SourceObject
from tpf_streams.errors import TerminalError


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def put(root: Path, *keys: str) -> None:
    for key in keys:
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content of {key}")


def source(tmp_path: Path, *inputs: str, **options: Any) -> FilesystemSource:
    return FilesystemSource("files", inputs or ["csv"], base_dir=str(tmp_path), **options)


def keys(listing: FilesystemSource) -> list[str]:
    return [item.key if isinstance(item, SourceObject) else f"! {item.reason}" for item in listing.listing()]


def test_the_identity_of_an_object(tmp_path):
    put(tmp_path / "csv", "payments.csv")
    (item,) = source(tmp_path, "./csv").listing()
    assert item == SourceObject(
        source="files",
        provider="file",
        container="./csv",
        key="payments.csv",
        etag=sha256("content of payments.csv"),
        path=os.path.join(tmp_path, "./csv", "payments.csv"),
    )
    assert execution_key(item) == f"object:files:file:./csv:payments.csv:{item.etag}"


def test_the_execution_key_is_unambiguous():
    item = SourceObject("my:files", "file", "C:\\in", "a:b.csv", "", "/x")
    assert execution_key(item) == "object:my\\:files:file:C\\:\\\\in:a\\:b.csv:_"
    assert execution_key(item, ["key"]) == "object:my\\:files:a\\:b.csv"
    with pytest.raises(TerminalError, match="'path'"):
        execution_key(item, ["key", "path"])


@pytest.mark.parametrize(
    ("key", "pattern", "is_match"),
    [
        ("a.csv", "*.csv", True),
        ("a.CSV", "*.csv", False),
        ("in/a.csv", "*.csv", False),
        ("in/a.csv", "in/*.csv", True),
        ("in/a.csv", "**/*.csv", True),
        ("a.csv", "**/*.csv", True),
        ("in/deep/a.csv", "in/**", True),
        ("in/deep/a.csv", "**/deep/*", True),
        ("a1.csv", "a[0-9].csv", True),
        ("ab.csv", "a?.csv", True),
        ("a.csv", "a?.csv", False),
    ],
)
def test_globs(key, pattern, is_match):
    assert matches(key, ["nothing", pattern]) is is_match


def test_filters_and_order(tmp_path):
    put(tmp_path / "csv", "b.csv", "a.csv", "a/z.csv", "a.txt", "old.csv", "c/d/e.csv")
    assert keys(source(tmp_path, include=["*.csv"], exclude=["old*"])) == ["a.csv", "b.csv"]
    assert keys(source(tmp_path, include=["**/*.csv"], exclude=["old*"])) == ["a.csv", "a/z.csv", "b.csv", "c/d/e.csv"]
    assert keys(source(tmp_path)) == ["a.csv", "a.txt", "a/z.csv", "b.csv", "c/d/e.csv", "old.csv"]
    assert keys(source(tmp_path, prefix="c/", include=["c/**"])) == ["c/d/e.csv"]
    assert [len(batch) for batch in source(tmp_path).batches(4)] == [4, 2]


def test_what_is_never_listed(tmp_path):
    put(tmp_path / "csv", ".hidden.csv", ".dir/a.csv", "b.csv.part", "c.csv.rejected.csv", "d.csv")
    (tmp_path / "csv" / "loop").symlink_to(tmp_path / "csv")
    assert keys(source(tmp_path)) == ["d.csv"]


def test_single_files_are_taken_as_they_are(tmp_path, monkeypatch):
    put(tmp_path / "csv", "a.csv", ".b.txt")
    items = list(source(tmp_path, "csv/.b.txt", "csv", "csv/a.csv", include=["*.csv"]).listing())
    assert [(item.container, item.key) for item in items if isinstance(item, SourceObject)] == [
        ("csv", ".b.txt"),
        ("csv", "a.csv"),
    ]
    monkeypatch.chdir(tmp_path / "csv")
    (item,) = FilesystemSource("files", ["a.csv"]).listing()
    assert isinstance(item, SourceObject)
    assert (item.container, item.key, item.path) == (".", "a.csv", "a.csv")


def test_a_link_is_followed_only_inside_its_directory(tmp_path):
    put(tmp_path / "csv", "..data/real.csv")
    put(tmp_path, "secret.csv")
    (tmp_path / "csv" / "inside.csv").symlink_to("..data/real.csv")
    (tmp_path / "csv" / "outside.csv").symlink_to(tmp_path / "secret.csv")
    assert keys(source(tmp_path)) == ["inside.csv", "! a symbolic link that leaves its directory"]


def test_an_unreadable_file_is_told_and_the_others_go_on(tmp_path, monkeypatch):
    put(tmp_path / "csv", "a.csv", "b.csv", "c.csv")
    open_file = os.open

    def guarded(path: Any, *args: Any, **kwargs: Any) -> int:
        if str(path).endswith("b.csv"):
            raise PermissionError(13, "Permission denied")
        return open_file(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", guarded)
    first, problem, last = source(tmp_path).listing()
    assert isinstance(first, SourceObject)
    assert isinstance(last, SourceObject)
    assert isinstance(problem, ListingProblem)
    assert problem.reason == "b.csv: Permission denied"
    assert problem.source is not None
    assert execution_key(problem.source) == "object:files:file:csv:b.csv:_"


def test_what_is_no_object_is_told_without_one(tmp_path):
    put(tmp_path / "csv", "a.csv")
    os.mkfifo(tmp_path / "csv" / "pipe.csv")
    (tmp_path / "csv" / "gone.csv").symlink_to("nowhere.csv")
    (tmp_path / "csv" / "loop.csv").symlink_to("loop.csv")
    with open(os.fsencode(tmp_path / "csv") + b"/x\xff.csv", "w"):
        pass
    problems = [item for item in source(tmp_path, "csv", "missing.csv").listing() if isinstance(item, ListingProblem)]
    assert [(problem.reason, problem.source is not None) for problem in problems] == [
        ("gone.csv: No such file or directory", False),
        ("loop.csv: Too many levels of symbolic links", True),
        ("pipe.csv: not a regular file", False),
        ("the file name is not UTF-8", False),
        ("missing.csv: No such file or directory", False),
    ]
    assert problems[3].path.endswith("x\\xff.csv")
    assert keys(source(tmp_path, "csv", prefix="not/there")) == ["! No such file or directory"]


def test_a_file_is_hashed_again_only_when_it_has_changed(tmp_path, monkeypatch):
    put(tmp_path / "csv", "a.csv")
    monkeypatch.setattr("tpf_streams.connectors.filesystem_source.SETTLED_NS", -1)
    files = source(tmp_path)
    before = list(files.listing())
    read = os.read
    reads = 0

    def counted(descriptor: int, count: int) -> bytes:
        nonlocal reads
        reads += 1
        return read(descriptor, count)

    monkeypatch.setattr(os, "read", counted)
    assert list(files.listing()) == before
    assert reads == 0
    (tmp_path / "csv" / "a.csv").write_text("other")
    (item,) = files.listing()
    assert isinstance(item, SourceObject)
    assert item.etag == sha256("other")


def test_a_young_file_is_hashed_anew_each_time(tmp_path):
    put(tmp_path / "csv", "a.csv")
    files = source(tmp_path)
    (before,) = files.listing()
    path = tmp_path / "csv" / "a.csv"
    status = path.stat()
    path.write_text("CONTENT of a.csv")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    (after,) = files.listing()
    assert isinstance(before, SourceObject)
    assert isinstance(after, SourceObject)
    assert before.etag != after.etag == sha256("CONTENT of a.csv")


def test_a_file_that_changes_while_it_is_read_is_left_for_later(tmp_path, monkeypatch):
    put(tmp_path / "csv", "a.csv")
    read = os.read

    def growing(descriptor: int, count: int) -> bytes:
        with open(tmp_path / "csv" / "a.csv", "a") as file:
            file.write("more")
        monkeypatch.setattr(os, "read", read)
        return read(descriptor, count)

    monkeypatch.setattr(os, "read", growing)
    assert keys(source(tmp_path)) == ["! a.csv: changes while it is being read"]
    assert keys(source(tmp_path)) == ["a.csv"]


@pytest.mark.parametrize("options", [{"prefix": "/etc"}, {"prefix": "a/../.."}, {"include": ["*.{csv,txt}"]}])
def test_settings_that_would_not_do_what_they_say_are_refused(tmp_path, options):
    with pytest.raises(TerminalError):
        source(tmp_path, **options)

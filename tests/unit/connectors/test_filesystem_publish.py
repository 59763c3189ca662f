"""Object publish: whole files, owned names, and the same result whoever repeats it (contract 0.16)."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tpf_streams.connectors.filesystem_publish import (
    NAME_BYTES_MAX,
    OnExisting,
    PublishedObject,
    output_name,
    publish_object,
    rejected_name,
)
from tpf_streams.errors import OutputExistsError, PublishError, TerminalError

ROOT = Path(__file__).parents[3]
ONE = "11111111-aaaa-8bbb-8ccc-000000000001"
TWO = "22222222-aaaa-8bbb-8ccc-000000000002"
NAME = "payments.csv.out"


def publish(
    out: Path,
    execution_id: str = ONE,
    incarnation: int = 1,
    name: str = NAME,
    on_existing: OnExisting = OnExisting.VERSION,
) -> PublishedObject:
    chunks = [f"of {execution_id}\n".encode(), b"second chunk\n"]
    return publish_object(out, name, execution_id, incarnation, chunks, on_existing)


def content(execution_id: str) -> str:
    return f"of {execution_id}\nsecond chunk\n"


def files(out: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in out.iterdir() if path.is_file()}


def test_a_published_object_is_whole_and_says_what_it_is(tmp_path):
    out = tmp_path / "not" / "there" / "yet"
    published = publish(out)
    assert files(out) == {NAME: content(ONE)}
    assert published == PublishedObject(
        str(out / NAME), NAME, len(content(ONE)), hashlib.sha256(content(ONE).encode()).hexdigest()
    )


def test_a_repeat_rewrites_the_same_file(tmp_path):
    first = publish(tmp_path, incarnation=1)
    assert publish(tmp_path, incarnation=1) == publish(tmp_path, incarnation=7) == first
    assert files(tmp_path) == {NAME: content(ONE)}


def test_a_zombie_writes_the_same_file_after_its_successor(tmp_path):
    successor = publish(tmp_path, incarnation=2)
    assert publish(tmp_path, incarnation=1) == successor
    assert files(tmp_path) == {NAME: content(ONE)}


def test_another_execution_gets_a_version(tmp_path):
    publish(tmp_path, ONE)
    assert publish(tmp_path, TWO).name == "payments.csv.22222222.out"
    assert publish(tmp_path, TWO, incarnation=2).name == "payments.csv.22222222.out"
    assert files(tmp_path) == {NAME: content(ONE), "payments.csv.22222222.out": content(TWO)}


def test_two_executions_with_one_short_id(tmp_path):
    twin = TWO[:-1] + "3"
    names = [publish(tmp_path, execution_id).name for execution_id in (ONE, TWO, twin, twin)]
    assert names == [NAME, "payments.csv.22222222.out", f"payments.csv.{twin}.out", f"payments.csv.{twin}.out"]


def test_another_execution_can_fail_instead(tmp_path):
    publish(tmp_path, ONE, on_existing=OnExisting.FAIL)
    assert publish(tmp_path, ONE, on_existing=OnExisting.FAIL).name == NAME
    with pytest.raises(OutputExistsError, match="belongs to another execution"):
        publish(tmp_path, TWO, on_existing=OnExisting.FAIL)
    assert files(tmp_path) == {NAME: content(ONE)}


@pytest.mark.parametrize("stranger", ["file", "directory", "dangling link"])
def test_a_strangers_file_is_kept(tmp_path, stranger):
    if stranger == "file":
        (tmp_path / NAME).write_text("mine")
    elif stranger == "directory":
        (tmp_path / NAME).mkdir()
    else:
        (tmp_path / NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputExistsError):
        publish(tmp_path, on_existing=OnExisting.FAIL)
    assert publish(tmp_path).name == "payments.csv.11111111.out"
    if stranger == "file":
        assert (tmp_path / NAME).read_text() == "mine"


def test_an_execution_keeps_its_version_when_a_better_name_becomes_free(tmp_path):
    (tmp_path / NAME).write_text("mine")
    first = publish(tmp_path)
    (tmp_path / NAME).unlink()
    assert publish(tmp_path, incarnation=2) == first
    assert files(tmp_path) == {"payments.csv.11111111.out": content(ONE)}


def test_files_outlive_their_markers(tmp_path):
    publish(tmp_path, ONE)
    (tmp_path / ".tpf-owners" / NAME).unlink()
    assert publish(tmp_path, TWO).name == "payments.csv.22222222.out"
    assert files(tmp_path)[NAME] == content(ONE)


def test_an_output_and_its_rejects_stand_side_by_side(tmp_path):
    publish(tmp_path, ONE)
    assert publish(tmp_path, ONE, name=rejected_name(NAME)).name == "payments.csv.out.rejected.csv"
    assert publish(tmp_path, TWO, name=rejected_name(NAME)).name == "payments.csv.out.22222222.rejected.csv"


def test_the_longest_name_has_room_for_a_version(tmp_path):
    name = rejected_name("x" * (NAME_BYTES_MAX - 4) + ".csv")
    short_twin, twin = ONE[:-1] + "4", ONE[:-1] + "5"
    (tmp_path / name).touch()
    publish(tmp_path, short_twin, name=name)
    assert twin in publish(tmp_path, twin, name=name).name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x",
        "/etc/x",
        "a/b",
        "a\\b",
        "a\0b",
        ".hidden",
        "x" * (NAME_BYTES_MAX + 1),
        "é" * 101,
        "\udcff",
    ],
)
def test_a_name_cannot_leave_the_directory(tmp_path, name):
    out = tmp_path / "out"
    with pytest.raises(TerminalError) as refusal:
        publish(out, name=name)
    assert refusal.value.code == "OUTPUT_NAME_INVALID"
    assert not out.exists()


@pytest.mark.parametrize("execution_id", ["", "../x", "a.b", "x" * 41])
def test_an_execution_id_cannot_leave_the_directory(tmp_path, execution_id):
    with pytest.raises(TerminalError):
        publish(tmp_path, execution_id)


@pytest.mark.parametrize(
    ("template", "key", "name"),
    [
        ("{groupKey}.out", "payments.csv", "payments.csv.out"),
        ("{groupKey}.out", "in/2024/payments.csv", "payments.csv.out"),
        ("out-{groupKey}", "a.csv", "out-a.csv"),
        ("fixed.csv", "a.csv", "fixed.csv"),
    ],
)
def test_the_name_of_an_output(template, key, name):
    assert output_name(template, key) == name


@pytest.mark.parametrize(
    ("template", "key"), [("{groupKey}/x", "a"), ("{group}.out", "a"), ("{groupKey}", ""), ("{groupKey}", ".a")]
)
def test_a_template_that_gives_no_name_is_refused(template, key):
    with pytest.raises(TerminalError):
        output_name(template, key)


def test_stale_parts_of_the_same_execution_are_removed(tmp_path):
    stale = [tmp_path / f".{ONE}.1.abcd1234.part", tmp_path / f".{ONE}.2.part.part"]
    kept = [tmp_path / f".{ONE}.4.abcd1234.part", tmp_path / f".{TWO}.1.abcd1234.part", tmp_path / f"{ONE}.1.x.part"]
    for path in stale + kept:
        path.write_text("half")
    publish(tmp_path, ONE, incarnation=3)
    assert [path.exists() for path in stale] == [False, False]
    assert [path.exists() for path in kept] == [True, True, True]


def test_a_write_that_hung_while_its_execution_was_redriven_replaces_nothing(tmp_path):
    """The file that it would put over the new one may be shorter: a partial one of a stream that had failed."""

    def hung() -> Iterator[bytes]:
        yield b"the beginning of"
        publish_object(tmp_path, NAME, ONE, 1, [b"the whole"], attempt=1)
        yield b" it\n"

    with pytest.raises(PublishError):
        publish_object(tmp_path, NAME, ONE, 1, hung())
    assert files(tmp_path) == {NAME: "the whole"}


def test_a_failing_source_of_chunks_leaves_nothing(tmp_path):
    def chunks() -> Iterator[bytes]:
        yield b"half"
        raise OSError("the store is gone")

    with pytest.raises(OSError, match="the store is gone"):
        publish_object(tmp_path, NAME, ONE, 1, chunks())
    assert files(tmp_path) == {}
    publish(tmp_path)
    assert files(tmp_path) == {NAME: content(ONE)}


@pytest.mark.parametrize("call", ["write", "fsync", "replace", "link", "open"])
def test_what_the_system_refuses_is_a_publish_error_and_can_be_tried_again(tmp_path, monkeypatch, call):
    publish(tmp_path, TWO)

    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        with pytest.raises(PublishError, match="No space left on device"):
            publish(tmp_path)
    assert [name for name in files(tmp_path) if not name.startswith(".")] == [NAME]
    assert publish(tmp_path).name == "payments.csv.11111111.out"
    assert set(files(tmp_path)) == {NAME, "payments.csv.11111111.out"}


def test_a_short_write_is_gone_on_with(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    publish(tmp_path)
    assert files(tmp_path) == {NAME: content(ONE)}


def test_a_directory_that_cannot_be_is_a_publish_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(PublishError, match=r"file.*(exists|Not a directory)"):
        publish(tmp_path / "file" / "out")


def test_of_many_executions_at_once_each_gets_a_name_of_its_own(tmp_path):
    ids = [f"{number:08d}-aaaa-8bbb-8ccc-000000000000" for number in range(24)]
    with ThreadPoolExecutor(12) as pool:
        published = list(pool.map(lambda execution_id: publish(tmp_path, execution_id), [*ids, *ids]))
    assert len({one.name for one in published}) == len(ids)
    assert {name: text.split()[1] for name, text in files(tmp_path).items()} == dict(
        zip((one.name for one in published), [*ids, *ids], strict=True)
    )


def test_of_two_that_claim_a_name_at_once_one_gets_it(tmp_path, monkeypatch):
    link = os.link

    def overtaken(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        assert publish(tmp_path, TWO).name == NAME
        link(source, target)

    monkeypatch.setattr(os, "link", overtaken)
    assert publish(tmp_path, ONE).name == "payments.csv.11111111.out"
    assert files(tmp_path) == {NAME: content(TWO), "payments.csv.11111111.out": content(ONE)}


def test_one_execution_published_twice_at_once_is_one_file(tmp_path):
    def chunks() -> Iterator[bytes]:
        yield f"of {ONE}\n".encode()
        assert publish(tmp_path) == PublishedObject(
            str(tmp_path / NAME), NAME, len(content(ONE)), hashlib.sha256(content(ONE).encode()).hexdigest()
        )
        yield b"second chunk\n"

    publish_object(tmp_path, NAME, ONE, 1, chunks())
    assert files(tmp_path) == {NAME: content(ONE)}


def test_a_zombie_that_lost_its_part_is_told(tmp_path):
    def chunks() -> Iterator[bytes]:
        yield b"half"
        publish(tmp_path, incarnation=2)

    with pytest.raises(PublishError, match="No such file"):
        publish_object(tmp_path, NAME, ONE, 1, chunks())
    assert files(tmp_path) == {NAME: content(ONE)}


KILLED = textwrap.dedent(
    """
    import os, sys
    from tpf_streams.connectors.filesystem_publish import publish_object

    out, execution_id, call, times = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    genuine = getattr(os, call)

    def dying(*args, **kwargs):
        global times
        times -= 1
        if times < 0:
            os._exit(9)  # as by SIGKILL: nothing is cleaned up
        return genuine(*args, **kwargs)

    setattr(os, call, dying)
    publish_object(out, "payments.csv.out", execution_id, 1, [f"of {execution_id}\\n".encode(), b"second chunk\\n"])
    """
)
CALLS = {"mkdir": 2, "open": 6, "write": 3, "fsync": 6, "link": 1, "unlink": 1, "replace": 1}


@pytest.mark.parametrize(
    ("call", "times"), [(call, times) for call, count in CALLS.items() for times in range(count + 1)]
)
def test_killed_between_any_two_steps_a_repeat_ends_well(tmp_path, call, times):
    out = tmp_path / "out"
    command = [sys.executable, "-c", KILLED, str(out), ONE, call, str(times)]
    killed = subprocess.run(command, cwd=ROOT, check=False).returncode
    assert killed == (9 if times < CALLS[call] else 0)  # CALLS names every step there is
    left = files(out) if out.exists() else {}
    assert left.pop(NAME, content(ONE)) == content(ONE)
    assert all(name.endswith(".part") for name in left)
    assert publish(out, incarnation=2).name == NAME
    assert files(out) == {NAME: content(ONE)}
    assert publish(out, TWO).name == "payments.csv.22222222.out"

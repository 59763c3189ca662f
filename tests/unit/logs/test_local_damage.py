"""A local log that cannot be read says so, and guesses nothing."""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from tests.unit.logs.test_local_durability import child, lines_until, reopen
from tpf_streams.errors import LogCorruptError, LogError
from tpf_streams.logs.local import LocalLog, keys
from tpf_streams.ports import Record, Turn
from tpf_streams.stores.rocksdb import RocksDbStateStore


def killed(path: Path, turns: int = 50) -> None:
    """A directory whose turns are in the write-ahead log alone: its process was killed."""
    process: subprocess.Popen[str] = child(path, "turns")
    lines_until(process, turns)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def journal_file(path: Path) -> Path:
    return max((path / "db").glob("*.log"), key=lambda file: file.stat().st_size)


def flip(file: Path, where: Callable[[int], int]) -> None:
    content = bytearray(file.read_bytes())
    content[where(len(content))] ^= 0xFF
    file.write_bytes(content)


async def test_an_incomplete_last_write_is_what_a_crash_leaves(tmp_path: Path):
    killed(tmp_path)
    file = journal_file(tmp_path)
    file.write_bytes(file.read_bytes()[:-40])
    log = reopen(tmp_path)
    held = int((await log.open_task(0)).store.get(b"turn") or b"-1")
    assert held >= 48
    assert len(list(log.read("outputs"))) == 3 * (held + 1)
    await log.close()


@pytest.mark.parametrize("where", [lambda size: size // 2, lambda size: size // 3, lambda size: size - 60])
def test_damage_before_the_end_is_not_skipped(tmp_path: Path, where: Callable[[int], int]):
    killed(tmp_path)
    flip(journal_file(tmp_path), where)
    with pytest.raises(LogCorruptError, match=str(tmp_path)):
        reopen(tmp_path)
    with pytest.raises(LogCorruptError):
        reopen(tmp_path)


def test_a_missing_journal_file_is_noticed(tmp_path: Path):
    killed(tmp_path)
    journal_file(tmp_path).unlink()
    with pytest.raises(LogCorruptError):
        reopen(tmp_path)


async def filled(path: Path) -> None:
    log = reopen(path)
    task = await log.open_task(0)
    for n in range(40):
        noise = random.Random(n).randbytes(2_000)  # which no compression makes small
        await task.commit(Turn([Record("outputs", None, noise)], {b"k%02d" % n: noise}))
    await log.close()


async def test_a_damaged_block_ends_no_read_early(tmp_path: Path):
    await filled(tmp_path)
    for table in (tmp_path / "db").glob("*.sst"):
        flip(table, lambda size: size // 4)  # among the records, which come first
        flip(table, lambda size: 3 * size // 4)  # among the rows
    log = reopen(tmp_path)
    for read in (log.store(0).scan(b"", b"\xff"), log.read("outputs")):
        with pytest.raises(LogCorruptError):
            list(read)
    await log.close()


async def test_a_missing_table_is_noticed(tmp_path: Path):
    await filled(tmp_path)
    for table in (tmp_path / "db").glob("*.sst"):
        table.unlink()
    with pytest.raises(LogCorruptError):
        reopen(tmp_path)


async def test_a_lost_current_file_costs_nothing_else(tmp_path: Path):
    """RocksDB began anew in the directory, and its second opening deleted every table."""
    await filled(tmp_path)
    current = tmp_path / "db" / "CURRENT"
    content = current.read_bytes()
    current.unlink()
    for _ in range(2):
        with pytest.raises(LogCorruptError, match="CURRENT"):
            reopen(tmp_path)
    current.write_bytes(content)
    log = reopen(tmp_path)
    assert len(list(log.read("outputs"))) == 40
    await log.close()


async def test_an_emptied_database_is_no_clean_start(tmp_path: Path):
    await filled(tmp_path)
    for file in (tmp_path / "db").iterdir():
        file.unlink()
    with pytest.raises(LogCorruptError, match="is empty, and it was not"):
        reopen(tmp_path)


async def test_an_older_copy_of_the_database_is_noticed(tmp_path: Path):
    await filled(tmp_path)
    marker = tmp_path / "journal.json"
    known = orjson.loads(marker.read_bytes())
    marker.write_bytes(orjson.dumps({**known, "sequence": known["sequence"] + 1}))
    with pytest.raises(LogCorruptError, match="older"):
        reopen(tmp_path)
    marker.write_bytes(orjson.dumps({**known, "epoch": "another"}))
    with pytest.raises(LogCorruptError):
        reopen(tmp_path)
    marker.write_bytes(b"{}")
    with pytest.raises(LogCorruptError, match="marker"):
        reopen(tmp_path)
    marker.write_bytes(orjson.dumps(known))
    await reopen(tmp_path).close()


async def test_other_settings_than_it_was_made_with_are_refused(tmp_path: Path):
    await filled(tmp_path)

    def open_with(**settings: object) -> LocalLog:
        return LocalLog.open(tmp_path, RocksDbStateStore, **{"partitions": 2, **settings})  # type: ignore[arg-type]

    with pytest.raises(LogError, match="made with 2 partitions, not 3"):
        open_with(partitions=3)
    with pytest.raises(LogError, match="belongs to application 'app', not 'other'"):
        open_with(application_id="other")
    with pytest.raises(LogError, match="'outputs' was made with 1 partition"):
        open_with(topics={"outputs": 4})
    await open_with().close()


async def test_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(keys, "FORMAT", keys.FORMAT + 1)
    await filled(tmp_path)
    monkeypatch.undo()
    with pytest.raises(LogError, match="journal format 2; this version reads 1"):
        reopen(tmp_path)


@pytest.mark.parametrize("data", [b"", b"\x01short", b"\x02" + bytes(22)])
async def test_a_record_that_is_none_is_told_with_its_place(tmp_path: Path, data: bytes):
    await filled(tmp_path)
    store = RocksDbStateStore(tmp_path / "db")
    (topic,) = [keys.TOPIC.unpack(value)[0] for key, value in store.scan(b"T", b"U") if key == b"Toutputs"]
    store.write({keys.RECORDS + keys.TOPIC.pack(topic, 0) + keys.U64.pack(7): data})
    store.close()
    log = reopen(tmp_path)
    with pytest.raises(LogCorruptError, match="outputs/0 offset 7"):
        list(log.read("outputs"))
    await log.close()

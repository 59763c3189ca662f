"""What a local log keeps when the process or the machine dies."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.conftest import EVENTS, SMALL_MEMORY_BYTES, event
from tests.unit.logs.lossy import Disk
from tpf_streams.errors import LogError, LogOwnedError, TaskLostError
from tpf_streams.logs.local import LocalLog, LogFailedError
from tpf_streams.ports import Record, TopicPartition, Turn
from tpf_streams.stores.rocksdb import RocksDbStateStore

INPUT = TopicPartition(EVENTS, 0)
OUT = Record("outputs", None, b"out")
CHILD = Path(__file__).with_name("local_child.py")


def child(path: Path, mode: str, sync: str = "commit") -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", str(CHILD), str(path), mode, sync]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3])


def lines_until(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(count)]


def reopen(path: Path) -> LocalLog:
    return LocalLog.open(path, RocksDbStateStore, partitions=2, memory_bytes=SMALL_MEMORY_BYTES)


@pytest.mark.parametrize("sync", ["commit", "interval"])
@pytest.mark.parametrize("turns", [1, 7, 60])
async def test_sigkill_loses_no_acknowledged_turn_and_leaves_no_half_one(tmp_path: Path, turns: int, sync: str):
    process = child(tmp_path, "turns", sync)
    try:
        told = lines_until(process, turns)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert process.stdout is not None
    told += [line.strip() for line in process.stdout if line.endswith("\n")]
    process.stdout.close()
    acknowledged = int(told[-1])
    log = reopen(tmp_path)
    task = await log.open_task(0)
    held = int(task.store.get(b"turn") or b"-1")
    assert held in (acknowledged, acknowledged + 1)
    assert [record.value for record in log.read("outputs")] == [b"%d" % n for n in range(held + 1) for _ in range(3)]
    assert len(list(task.store.scan(b"row", b"rox"))) == 2 * (held + 1)
    assert [record.value for record in await task.poll(2)] == [b"event %d" % (held + 1)]
    await log.close()


async def test_a_directory_has_one_owner_until_it_dies(tmp_path: Path):
    process = child(tmp_path, "hold")
    try:
        assert lines_until(process, 1) == ["open"]
        with pytest.raises(LogOwnedError, match=f"{tmp_path} is in use by process {process.pid}"):
            reopen(tmp_path)
    finally:
        process.kill()
        process.communicate()
    await reopen(tmp_path).close()


async def test_a_directory_has_one_owner_inside_a_process_too(tmp_path: Path):
    log = reopen(tmp_path)
    with pytest.raises(LogOwnedError):
        reopen(tmp_path)
    await log.close()
    await reopen(tmp_path).close()


def test_a_full_disk_refuses_the_turn_and_everything_after_it(tmp_path: Path):
    """The child's files may not grow beyond a limit; what it acknowledged before is all there is."""
    process = child(tmp_path, "full")
    out, _ = process.communicate(timeout=60)
    *told, failed, after, opening = out.split("\n")[:-1]
    assert process.returncode == 0
    assert failed.startswith("LogFailedError: a write to the journal failed")
    assert "File too large" in failed
    assert after.startswith("TaskLostError")
    assert opening.startswith("LogFailedError: the journal takes no more writes")
    log = reopen(tmp_path)
    assert [record.value for record in log.read("outputs")] == [line.encode() for line in told]
    assert len(told) > 3
    asyncio.run(log.close())


async def on(disk: Disk, path: Path) -> LocalLog:
    return LocalLog.open(path, disk.open, partitions=2)


def crash(log: LocalLog) -> None:
    """The process is gone; only the disk is left. The lock goes with the process."""
    log._directory.release()


async def test_a_turn_is_synced_when_its_commit_returns(tmp_path: Path):
    disk = Disk()
    log = await on(disk, tmp_path)
    await log.append([event(b"a")])
    task = await log.open_task(0)
    await task.poll(1)
    await task.commit(Turn([OUT], {b"k": b"v"}, {INPUT: 1}))
    crash(log)
    log = await on(disk, tmp_path)
    task = await log.open_task(0)
    assert (task.store.get(b"k"), len(list(log.read("outputs"))), await task.poll(1)) == (b"v", 1, [])
    assert task.incarnation == 2


async def test_turns_of_several_tasks_share_a_sync(tmp_path: Path):
    disk = Disk()
    log = await on(disk, tmp_path)
    tasks = [await log.open_task(0), await log.open_task(1)]
    before = disk.syncs
    await asyncio.gather(*(task.commit(Turn([OUT])) for task in tasks for _ in range(1)))
    await asyncio.gather(*(log.append([OUT]) for _ in range(20)))
    assert disk.syncs - before <= 4
    assert [record.offset for record in log.read("outputs")] == list(range(22))


async def test_nothing_is_seen_before_it_is_durable(tmp_path: Path):
    disk = Disk()
    log = await on(disk, tmp_path)
    task = await log.open_task(0)
    committing = asyncio.ensure_future(task.commit(Turn([event(b"a")])))
    await asyncio.sleep(0)
    assert (list(log.read(EVENTS)), disk.unsynced != []) == ([], True)
    await committing
    assert len(list(log.read(EVENTS))) == 1


async def test_what_a_reader_forwarded_is_lost_with_its_position_or_kept_with_it(tmp_path: Path):
    disk = Disk()
    log = await on(disk, tmp_path)
    await log.append([Record("answers", None, b"a")])

    async def forward() -> int:
        reader = await log.open_reader("router", ["answers"])
        found = await reader.poll(10)
        await reader.commit([event(b"forwarded") for _ in found])
        return len(found)

    assert await forward() == 1
    assert len(list(log.read(EVENTS))) == 1
    crash(log)
    log = await on(disk, tmp_path)
    assert list(log.read(EVENTS)) == []
    assert await forward() == 1, "lost together, so it is read again"
    await (await log.open_task(1)).commit(Turn([OUT]))
    crash(log)
    log = await on(disk, tmp_path)
    assert len(list(log.read(EVENTS))) == 1
    assert await forward() == 0


async def test_interval_syncs_in_the_background_and_at_close(tmp_path: Path):
    disk = Disk()
    log = LocalLog.open(tmp_path, disk.open, partitions=2, sync="interval", sync_interval_ms=5)
    task = await log.open_task(0)
    await task.commit(Turn([OUT]))
    assert disk.unsynced != []
    for _ in range(500):
        await asyncio.sleep(0.005)
        if not disk.unsynced:
            break
    assert not disk.unsynced
    await task.commit(Turn([OUT]))
    await log.close()
    assert not disk.unsynced


async def test_a_failed_sync_acknowledges_nothing_and_refuses_the_rest(tmp_path: Path):
    disk = Disk()
    log = await on(disk, tmp_path)
    tasks = [await log.open_task(0), await log.open_task(1)]
    disk.fail_sync = LogError("the disk is on fire")
    told = await asyncio.gather(*(task.commit(Turn([OUT])) for task in tasks), return_exceptions=True)
    assert [type(one) for one in told] == [LogFailedError, LogFailedError]
    assert list(log.read("outputs")) == []
    disk.fail_sync = None
    for refused in (log.append([OUT]), log.open_task(0)):
        with pytest.raises(LogFailedError, match="on fire"):
            await refused
    await log.close()


async def test_a_failed_background_sync_refuses_the_rest(tmp_path: Path):
    disk = Disk()
    log = LocalLog.open(tmp_path, disk.open, partitions=2, sync="interval", sync_interval_ms=1)
    task = await log.open_task(0)
    disk.fail_sync = LogError("the disk is on fire")
    await task.commit(Turn([OUT]))
    for _ in range(500):
        await asyncio.sleep(0.005)
        if log.journal.failed:
            break
    with pytest.raises(LogFailedError):
        await task.commit(Turn([OUT]))
    await log.close()


async def test_a_cancelled_commit_holds_and_closes_the_task(tmp_path: Path):
    disk = Disk()
    log = await on(disk, tmp_path)
    task = await log.open_task(0)
    committing = asyncio.ensure_future(task.commit(Turn([OUT], {b"k": b"v"})))
    await asyncio.sleep(0)
    committing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await committing
    with pytest.raises(TaskLostError):
        await task.commit(Turn())
    await log.append([OUT])
    assert [record.offset for record in log.read("outputs")] == [0, 1]
    await log.close()
    log = await on(disk, tmp_path)
    assert (await log.open_task(0)).store.get(b"k") == b"v"
    await log.close()

"""Local copies of the rows: brought up, thrown away, or trusted, and always equal to what the changelog says."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.contract.reading import values
from tests.integration.clients import (
    abort_values,
    commit_values,
    eventually,
    fresh,
    read_to_end,
    settled,
    transactional,
)
from tests.integration.logs import changelog_of, create_topic, event, opened
from tpf_streams.errors import TaskLostError
from tpf_streams.logs.kafka import KafkaLog
from tpf_streams.logs.kafka.membership import Membership
from tpf_streams.logs.kafka.restore import Restorer
from tpf_streams.ports import ReadableStore, StateStore, TaskLog, Turn

pytestmark = pytest.mark.broker

Rows = dict[bytes, bytes | None]


class Watched:
    """Which partitions were read from the changelog, and from where: a copy that is trusted is not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begins: list[int] = []
        restore = Restorer.restore

        async def told(restorer: Restorer, partition: int, store: Any, epoch: str, end: int) -> int:
            self.begins.append(store.next_offset)
            return await restore(restorer, partition, store, epoch, end)

        monkeypatch.setattr(Restorer, "restore", told)


@pytest.fixture
def restores(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return Watched(monkeypatch).begins


def rows_of(store: ReadableStore) -> Rows:
    return dict(store.scan(b"", b"\xff"))


async def turns(task: TaskLog, count: int) -> Rows:
    """Turns that put, replace and delete; -> what must be there."""
    for n in range(count):
        await task.commit(Turn(rows={b"00last": b"%d" % n, b"00%04d" % n: b"v", b"00%04d" % (n - 2): None}))
    return rows_of(task.store)


async def restored(bootstrap: str, application: str, path: Path) -> Rows:
    """What a worker with an empty directory finds."""
    async with opened(bootstrap, application, path) as log:
        return rows_of((await log.open_task(0)).store)


# --- the whole changelog ----------------------------------------------------------------------------------------------


async def test_a_deleted_directory_is_restored_as_it_was(bootstrap_servers, tmp_path):
    application = fresh("app")
    async with opened(bootstrap_servers, application, tmp_path) as log:
        rows = await turns(await log.open_task(0), 20)
        await log.append([event(application, b"next")])
    assert len(rows) == 3
    shutil.rmtree(tmp_path)
    async with opened(bootstrap_servers, application, tmp_path) as log:
        task = await log.open_task(0)
        assert rows_of(task.store) == rows
        assert await values(task, 1) == [b"next"]
        await turns(task, 1)


async def test_a_changelog_with_holes_is_read_to_its_end(bootstrap_servers, tmp_path):
    """Compaction leaves offsets without records, also at the end of what is left of old segments."""
    application = fresh("app")
    await create_topic(
        bootstrap_servers,
        changelog_of(application).topic,
        cleanup_policy="compact",
        max_message_bytes=4_194_304,
        segment_bytes=1_048_576,
        min_cleanable_dirty_ratio="0.01",
    )
    value, rows = b"v" * 100_000, {}
    async with opened(bootstrap_servers, application, tmp_path) as log:
        task = await log.open_task(0)
        for n in range(60):
            rows = {b"00a": b"%d" % n + value, b"00b": b"%d" % n}
            await task.commit(Turn(rows=rows))
    at = changelog_of(application)
    await settled(bootstrap_servers, at)

    async def compacted() -> bool:
        return len(await read_to_end(bootstrap_servers, at)) < 60

    await eventually(compacted)
    assert await restored(bootstrap_servers, application, tmp_path / "other") == rows


async def test_strangers_to_the_log_leave_the_rows_alone(bootstrap_servers, tmp_path):
    """Records of no kind we know, and aborted ones."""
    application = fresh("app")
    at = changelog_of(application)
    async with opened(bootstrap_servers, application, tmp_path) as log:
        rows = await turns(await log.open_task(0), 3)
    async with transactional(bootstrap_servers, fresh("stranger")) as producer:
        await commit_values(producer, at, b"?what is this")
        await abort_values(producer, at, b"r00last", b"r00aborted")
    assert await restored(bootstrap_servers, application, tmp_path / "other") == rows


# --- the copy that is there -------------------------------------------------------------------------------------------


async def test_a_whole_copy_is_not_read_again(bootstrap_servers, tmp_path, restores):
    application = fresh("app")
    async with opened(bootstrap_servers, application, tmp_path) as log:
        rows = await turns(await log.open_task(0), 3)
        assert restores == [0]
        for _ in range(3):
            assert rows_of((await log.open_task(0)).store) == rows
        rows = await turns(await log.open_task(0), 2)
        assert rows_of((await log.open_task(0)).store) == rows
    async with opened(bootstrap_servers, application, tmp_path) as log:
        assert rows_of((await log.open_task(0)).store) == rows
    assert restores == [0], "six openings, and nothing was behind"


async def test_a_copy_behind_a_foreign_opening_is_brought_up(bootstrap_servers, tmp_path, restores):
    """With and without turns of the other worker, in mid-turn and directly behind an opening."""
    application = fresh("app")
    for others in (0, 1, 3):
        async with opened(bootstrap_servers, application, tmp_path / "mine") as log:
            mine = await turns(await log.open_task(0), 1)
        async with opened(bootstrap_servers, application, tmp_path / "other") as log:
            task = await log.open_task(0)
            assert rows_of(task.store) == mine
            rows = await turns(task, others)
        begun = len(restores)
        async with opened(bootstrap_servers, application, tmp_path / "mine") as log:
            assert rows_of((await log.open_task(0)).store) == rows
        assert len(restores) == begun + 1


@pytest.mark.parametrize("commits", [1, 2])
async def test_a_copy_behind_a_turn_of_unknown_outcome_is_brought_up(
    bootstrap_servers, tmp_path, restores, monkeypatch, commits
):
    application = fresh("app")
    async with opened(bootstrap_servers, application, tmp_path) as log:
        for n in range(commits):
            task = await log.open_task(0)
            await task.commit(Turn(rows={b"00n": b"%d" % n}))
            with monkeypatch.context() as broken:
                broken.setattr(task, "_apply", _raise)
                with pytest.raises(ConnectionResetError):
                    await task.commit(Turn(rows={b"00unknown": b"%d" % n}))
            await task.close()
        task = await log.open_task(0)
        assert rows_of(task.store) == {b"00n": b"%d" % (commits - 1), b"00unknown": b"%d" % (commits - 1)}
    assert len(restores) == commits + 1


async def _raise(*_: object) -> None:
    raise ConnectionResetError


async def test_a_copy_behind_an_aborted_turn_is_whole(bootstrap_servers, tmp_path, monkeypatch):
    application = fresh("app")
    async with opened(bootstrap_servers, application, tmp_path) as log:
        rows = await turns(await log.open_task(0), 2)
    async with transactional(bootstrap_servers, f"{application}-0") as producer:
        await abort_values(producer, changelog_of(application), b"r00aborted")
        await producer.begin_transaction()
        batch = producer.create_batch()
        batch.append(key=b"r00open", value=b"v", timestamp=None)
        await (await producer.send_batch(batch, changelog_of(application).topic, partition=0))
    async with opened(bootstrap_servers, application, tmp_path) as log:
        task = await log.open_task(0)
        assert rows_of(task.store) == rows
        rows = await turns(task, 1)
        assert rows_of((await log.open_task(0)).store) == rows


async def ghost(log: KafkaLog, **mark: Any) -> None:
    """A row in the local copy that the changelog never had, and another mark."""
    store = log._stores.open(0)
    values: dict[str, Any] = {"epoch": store.epoch, "next_offset": store.next_offset, "now_ms": store.written_ms} | mark
    store.apply([(b"r00ghost", b"boo", ())], **values)


@pytest.mark.parametrize(
    "mark",
    [{"epoch": "ab" * 16}, {"next_offset": 1_000_000}, {"now_ms": 1}],
    ids=["another log's", "outside the range", "too old"],
)
async def test_a_copy_that_cannot_be_brought_up_is_thrown_away(bootstrap_servers, tmp_path, mark):
    application = fresh("app")
    async with opened(bootstrap_servers, application, tmp_path) as log:
        rows = await turns(await log.open_task(0), 3)
        await ghost(log, **mark)
    async with opened(bootstrap_servers, application, tmp_path) as log:
        assert rows_of((await log.open_task(0)).store) == rows
    async with opened(bootstrap_servers, application, tmp_path) as log:
        await log.open_task(0)
        await ghost(log)
    async with opened(bootstrap_servers, application, tmp_path) as log:
        kept = rows_of((await log.open_task(0)).store)
        assert kept == {**rows, b"00ghost": b"boo"}, "or this test could not tell"


async def test_how_old_a_copy_may_be_follows_the_topic(bootstrap_servers, tmp_path, restores):
    application = fresh("app")
    await create_topic(
        bootstrap_servers,
        changelog_of(application).topic,
        cleanup_policy="compact",
        max_message_bytes=4_194_304,
        delete_retention_ms=100,
    )
    async with opened(bootstrap_servers, application, tmp_path) as log:
        rows = await turns(await log.open_task(0), 1)
        await asyncio.sleep(0.1)  # the age is by the clock of the machine
        assert rows_of((await log.open_task(0)).store) == rows
    assert restores == [0, 0]


async def test_a_copy_left_half_way_stays_as_old_as_it_was(bootstrap_servers, tmp_path, monkeypatch):
    """Left half-way for hours again and again it would look young for ever, and what was deleted meanwhile, with the
    broker's memory of the deletion, would rise again."""
    application = fresh("app")
    async with opened(bootstrap_servers, application, tmp_path / "one") as log:
        await turns(await log.open_task(0), 30)
    monkeypatch.setattr("tpf_streams.logs.kafka.restore.RECORDS_MAX", 5)
    async with opened(bootstrap_servers, application, tmp_path / "two") as log:
        now_ms = iter(range(1_000, 10_000, 100))
        monkeypatch.setattr(log._restorer, "_now_ms", lambda: next(now_ms))
        store = log._stores.open(0)
        ages: list[int] = []
        apply = store.apply

        def noted(*arguments: Any) -> None:
            apply(*arguments)
            ages.append(store.written_ms)

        monkeypatch.setattr(store, "apply", noted)
        await log.open_task(0)
    assert len(ages) > 5
    assert set(ages[:-1]) == {1_000}
    assert ages[-1] > 1_000


async def test_another_partitions_long_restore_does_not_hold_up_an_opening(bootstrap_servers, tmp_path):
    """A marker is waited for with a deadline, in which the restore of a neighbour must not count."""
    application = fresh("app")
    async with opened(bootstrap_servers, application, tmp_path, partitions=2) as log:
        await log.open_task(0)
        async with log._restorer._alone:
            begin, end = await asyncio.wait_for(log._restorer.range(0), 10)
            await asyncio.wait_for(log._until_stable(0, 0), 10)
            await asyncio.wait_for(log.open_task(0), 20)  # whole as it is
    assert (begin, end) == (0, 4)


async def test_an_opening_that_is_cancelled_leaves_its_database_to_the_next(bootstrap_servers, tmp_path, monkeypatch):
    """It goes on in its thread, and the next one would find the database in use by its own process, which is fatal."""
    application = fresh("app")
    async with opened(bootstrap_servers, application, tmp_path) as log:
        rows = await turns(await log.open_task(0), 1)
    async with opened(bootstrap_servers, application, tmp_path) as log:
        first, second = threading.Event(), threading.Event()
        open_store = log._stores._open_store

        def slow(path: Path) -> StateStore:
            if first.is_set():
                second.set()
            first.set()
            second.wait(0.5)  # long enough for the next opening, where nothing holds it back
            return open_store(path)

        monkeypatch.setattr(log._stores, "_open_store", slow)
        opening = asyncio.ensure_future(log.open_task(0))
        await asyncio.to_thread(first.wait)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        assert rows_of((await log.open_task(0)).store) == rows


async def test_an_opening_under_way_does_not_outlive_its_log(bootstrap_servers, tmp_path, monkeypatch):
    """Its thread would open the database for nobody, in a directory that another worker may have by then."""
    async with opened(bootstrap_servers, fresh("app"), tmp_path) as log:
        stores = log._stores
    with pytest.raises(TaskLostError, match="was given up"):
        stores.open(0)
    with pytest.raises(TaskLostError, match="was given up"):
        stores.anew(0)


# --- the inputs -------------------------------------------------------------------------------------------------------


# --- a copy of a partition that has gone ------------------------------------------------------------------------------


async def test_a_copy_is_given_back_when_its_partition_has_gone_but_not_under_an_opening(
    bootstrap_servers, tmp_path, monkeypatch
):
    """A slow opening goes on for a while when its partition is revoked: its restore would meet a closed database."""
    application, begun, go_on = fresh("app"), asyncio.Event(), asyncio.Event()
    restore = Restorer.restore

    async def slow(*given: Any) -> int:
        begun.set()
        await go_on.wait()
        return await restore(*given)

    async with opened(bootstrap_servers, application, tmp_path / "a") as log:
        rows = await turns(await log.open_task(0), 5)
    monkeypatch.setattr(Restorer, "restore", slow)
    async with opened(bootstrap_servers, application, tmp_path / "b") as log:
        opening = asyncio.ensure_future(log.open_task(0))
        await asyncio.wait_for(begun.wait(), 20)
        with monkeypatch.context() as revoked:
            revoked.setattr(Membership, "assigned_now", set())
            log._give_back()
            go_on.set()
            task = await opening
            log._give_back()
            assert rows_of(task.store) == rows
            await task.close()
            assert log._stores.get(0) is not None
            log._give_back()
            assert log._stores.get(0) is None
        assert rows_of((await log.open_task(0)).store) == rows


# --- what is elsewhere ------------------------------------------------------------------------------------------------


async def test_following_goes_on_behind_whatever_one_lot_of_rows_raises(bootstrap_servers, tmp_path):
    """Its loop ended there and nobody was told: what is elsewhere stayed as it was."""
    application = fresh("app")
    told: list[Mapping[bytes, bytes | None]] = []

    def moved(rows: Mapping[bytes, bytes | None]) -> None:
        told.append(rows)
        if len(told) == 1:
            raise ValueError("a row of a newer version")

    async with opened(bootstrap_servers, application, tmp_path / "a") as log:
        rows = await turns(await log.open_task(0), 3)
    async with opened(bootstrap_servers, application, tmp_path / "b") as log:
        await asyncio.wait_for(log.follow(lambda _: True, moved), 30)
        assert (rows_of(log.store(0)), len(told) > 0) == (rows, True)

"""A worker's look at its source: everything once, whoever looks, and a change only when its time has come."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tpf_streams.connectors.hashed_file import HashedFile
from tpf_streams.dsl.load import LoadedPipeline, load_pipeline
from tpf_streams.engine.clock import SystemClock
from tpf_streams.errors import LogError
from tpf_streams.runtime.application import Application
from tpf_streams.runtime.build import build, listing
from tpf_streams.runtime.inputs import Submission
from tpf_streams.runtime.open_log import open_memory_log
from tpf_streams.runtime.source_watch import SourceWatch
from tpf_streams.runtime.views import LogViews

CSV_PAYMENTS = Path(__file__).parents[3] / "topologies/csv_payments"
PAYMENT = "ID,Recipient,Amount,Currency\n{},Ann,1.00,EUR\n"
SECRET = {"pipeline.orchestrator.resume-token-secret": "a-secret-for-tests-only", "topology.partitions": "1"}


class Place:
    """One worker on one memory log, whose source is a folder of the test's."""

    def __init__(self, folder: Path, pool: ThreadPoolExecutor) -> None:
        shutil.copy(CSV_PAYMENTS / "pipeline.yaml", folder)
        self.folder = folder / "csv"
        self.folder.mkdir()
        self.loaded: LoadedPipeline = load_pipeline(folder / "pipeline.yaml", settings_overrides=SECRET, environ={})
        self.log = open_memory_log(self.loaded)
        self.application: Application = build(self.loaded, self.log, SystemClock())
        self.views = LogViews(self.log, self.loaded.definition)
        self.pool = pool
        self.watch = self.new_watch()

    def new_watch(self) -> SourceWatch:
        assert self.loaded.source is not None
        found = listing(self.loaded, self.loaded.source, (), "pipeline.yaml")
        return SourceWatch(self.application, self.views, self.loaded.source, found, self.pool)

    def write(self, name: str, payment: str = "1") -> Path:
        path = self.folder / name
        path.write_text(PAYMENT.format(payment))
        os.utime(path, (1_000_000, 1_000_000 + len(payment)))
        return path

    async def turns(self) -> None:
        for _ in range(20):
            await self.application.worker.advance(0)
            await asyncio.sleep(0.01)

    def submitted(self) -> int:
        return sum(1 for _ in self.log.read("csv-payments-events"))

    def sources(self) -> list[str]:
        return sorted((row.source or {})["key"] for row in self.views.executions())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ThreadPoolExecutor(2) as pool:
        yield Place(tmp_path, pool)


async def test_each_object_is_submitted_once(place):
    for number in range(3):
        place.write(f"{number}.csv", str(number))
    place.write("notes.txt")
    await place.watch.poll()
    await place.watch.poll()
    assert place.submitted() == 3
    place.write("3.csv", "3")
    await place.watch.poll()
    assert place.submitted() == 4
    await place.application.worker.open()
    await place.turns()
    assert place.sources() == ["0.csv", "1.csv", "2.csv", "3.csv"]
    await place.application.worker.close()


async def test_two_workers_ask_for_one_execution(place):
    place.write("a.csv")
    await place.watch.poll()
    await place.new_watch().poll()
    assert place.submitted() == 2
    await place.application.worker.open()
    await place.turns()
    assert place.sources() == ["a.csv"]
    await place.new_watch().poll()
    assert place.submitted() == 2, "an execution that this worker has is not asked for again"
    await place.application.worker.close()


async def test_a_file_that_has_not_changed_is_not_read_again(place, monkeypatch):
    place.write("a.csv")
    monkeypatch.setattr("tpf_streams.connectors.filesystem_source.SETTLED_NS", -1)
    hashed: list[str] = []
    finish = HashedFile.finish

    def noted(file: HashedFile) -> str:
        hashed.append(file.name)
        return finish(file)

    monkeypatch.setattr(HashedFile, "finish", noted)
    for _ in range(3):
        await place.watch.poll()
    assert hashed == ["a.csv"]


async def test_changed_content_waits_for_the_execution_under_way(place, caplog):
    await place.application.worker.open()
    place.write("a.csv", "1")
    await place.watch.poll()
    await place.turns()
    place.write("a.csv", "22")
    with caplog.at_level(logging.WARNING):
        await place.watch.poll()
        await place.watch.poll()
    assert place.submitted() == 1
    assert [record.getMessage()[:14] for record in caplog.records] == ["SOURCE_CHANGED"], "told once"
    [execution] = place.views.executions()
    wish = asyncio.ensure_future(place.application.cancel_execution(execution.execution_id, "enough"))
    await place.turns()
    assert await wish == "cancelled"
    await place.watch.poll()
    await place.turns()
    assert place.sources() == ["a.csv", "a.csv"]
    await place.application.worker.close()


async def test_another_workers_execution_is_another_workers_business(place):
    place.write("a.csv", "1")
    await place.watch.poll()
    place.write("a.csv", "22")
    await place.watch.poll()
    assert place.submitted() == 1


async def test_a_restart_knows_what_is_under_way(place):
    await place.application.worker.open()
    place.write("a.csv", "1")
    await place.watch.poll()
    await place.turns()
    place.write("a.csv", "22")
    again, stop = place.new_watch(), asyncio.Event()
    running = asyncio.ensure_future(again.run(stop))
    await asyncio.sleep(0.2)
    stop.set()
    await running
    assert place.submitted() == 1
    await place.application.worker.close()


async def test_a_missing_folder_is_told_once_and_looked_for_again(place, caplog):
    place.folder.rmdir()
    with caplog.at_level(logging.WARNING):
        await place.watch.poll()
        await place.watch.poll()
    assert len(caplog.records) == 1
    place.folder.mkdir()
    place.write("a.csv")
    await place.watch.poll()
    assert place.submitted() == 1


async def test_a_submission_that_fails_is_tried_again(place, monkeypatch):
    place.write("a.csv")
    append = place.log.append

    async def refuse(records: object) -> None:
        raise LogError("no")

    monkeypatch.setattr(place.log, "append", refuse)
    await place.watch.poll()
    monkeypatch.setattr(place.log, "append", append)
    await place.watch.poll()
    assert place.submitted() == 1


async def test_a_look_that_raises_ends_nothing(place):
    looks: list[int] = []

    def broken() -> Iterator[Submission]:
        looks.append(1)
        raise OSError("the disk is gone")

    assert place.loaded.source is not None
    watch = SourceWatch(place.application, place.views, place.loaded.source, broken, place.pool)
    watch._interval_s = 0.01
    stop = asyncio.Event()
    running = asyncio.ensure_future(watch.run(stop))
    while len(looks) < 3:
        await asyncio.sleep(0.01)
    stop.set()
    await running

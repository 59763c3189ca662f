"""Retention on Kafka: an ended execution's rows are deleted in the changelog too, and what is left of it is its
tombstone, over a lost local copy; then that goes, too (contract 0.18). Days pass by a clock by hand."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest

from tests.field.pipelines import INBOX
from tests.integration.applications import records_of
from tests.integration.clients import eventually, fresh
from tpf_streams.core.execution import ExecutionRecord
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.dsl.load import load_pipeline
from tpf_streams.logs.kafka.changelog import ROW
from tpf_streams.runtime.application import Application
from tpf_streams.runtime.build import build
from tpf_streams.runtime.kafka import open_kafka_log
from tpf_streams.runtime.views import LogViews
from tpf_streams.testing import ManualClock

pytestmark = pytest.mark.broker

DAY_MS = 86_400_000
ORDER = {"orderId": "o-1"}
KEPT_FOR_GOOD = b"nlm"
"""Kinds of rows that are the partition's own: its time, its count of events, its markers."""


class Days:
    """One application on Kafka whose clock stands still between calls."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.folder, self.bootstrap, self.clock = folder, bootstrap, ManualClock()
        self.name = fresh("retention")
        file = folder / "pipeline.yaml"
        file.write_text(INBOX)
        settings = {
            "kafka.bootstrap.servers": bootstrap,
            "pipeline.application-id": self.name,
            "topology.partitions": "1",
            "pipeline.orchestrator.execution-ttl-days": "7",
            "ingest.identity-ttl": "P30D",
        }
        self.loaded = load_pipeline(file, settings_overrides=settings, functions={"Finish": finish})

    @asynccontextmanager
    async def life(self) -> AsyncIterator[tuple[Application, LogViews]]:
        log = await open_kafka_log(self.loaded, self.folder / "data")
        application, stop = build(self.loaded, log, self.clock), asyncio.Event()
        try:
            await application.open()
            running = asyncio.ensure_future(application.run(stop))
            try:
                yield application, LogViews(log, self.loaded.definition)
            finally:
                stop.set()
                await running
        finally:
            await log.close()

    async def until(self, reached: Callable[[], object]) -> None:
        async def looked() -> bool:
            return bool(reached())

        await eventually(looked)

    async def ended(self, application: Application, views: LogViews) -> str:
        """An order is submitted, decided and done."""
        execution_id = await application.submit(ORDER, key="order-1")
        await self.until(lambda: list(views.pending(1)))
        (row,) = views.pending(1)
        assert await application.complete(answer(row)) == "admitted"
        await self.until(lambda: status(views, row.execution_id) == "SUCCEEDED")
        assert await application.complete(answer(row)) == "duplicate"
        return execution_id

    async def kinds(self) -> tuple[bytes, bytes]:
        """Kinds of the rows that the changelog has, and of those it deletes."""
        rows: dict[bytes, bytes | None] = {}
        for record in await records_of(self.bootstrap, f"{self.name}-changelog"):
            if record.key.startswith(ROW):
                rows[record.key[len(ROW) :]] = record.value
        of = {True: set[bytes](), False: set[bytes]()}
        for key, value in rows.items():
            if key[2:3] not in KEPT_FOR_GOOD:
                of[value is not None].add(key[2:3])
        return b"".join(sorted(of[True])), b"".join(sorted(of[False]))


def finish(decision: dict[str, str]) -> dict[str, str]:
    return {"status": decision["status"]}


def answer(row: InteractionRecord) -> bytes:
    return orjson.dumps(
        {"tenantId": row.tenant_id, "interactionId": row.interaction_id, "responsePayload": {"status": "APPROVED"}}
    )


def status(views: LogViews, execution_id: str) -> str | None:
    found: ExecutionRecord | None = views.execution(execution_id)
    return None if found is None else found.status.value


async def test_deletions_and_tombstones_are_in_the_changelog(tmp_path, bootstrap_servers):
    days = Days(tmp_path, bootstrap_servers)
    async with days.life() as (application, views):
        execution_id = await days.ended(application, views)
        left, _ = await days.kinds()
        assert set(b"eio") <= set(left), "the execution, its interaction, its output"
        days.clock.advance(6 * DAY_MS)
        await asyncio.sleep(2.5)
        assert status(views, execution_id) == "SUCCEEDED", "kept for its time"
        days.clock.advance(2 * DAY_MS)
        await days.until(lambda: views.execution(execution_id) is None)
        assert views.tombstone(execution_id) is not None
    left, deleted = await days.kinds()
    assert (left, set(b"eio") <= set(deleted)) == (b"gx", True), "nothing but the tombstone and when it ends"

    shutil.rmtree(tmp_path / "data")
    async with days.life() as (application, views):
        assert views.execution(execution_id) is None, "no row rises again from a copy made anew"
        assert views.tombstone(execution_id) is not None
        second = application.execution_id("order-1", life=1)
        await application.submit(ORDER, key="order-1")
        await days.until(lambda: status(views, second) == "WAITING_EXTERNAL")
        assert second != execution_id
        await application.cancel_execution(second, "enough")
        for _ in range(40):
            if views.tombstone(execution_id) is None and views.tombstone(second) is None:
                break
            days.clock.advance(5 * DAY_MS)
            await asyncio.sleep(1.1)  # an idle task looks once a second
    assert (await days.kinds())[0] == b""

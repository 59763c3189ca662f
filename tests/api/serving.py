"""The real application of a pipeline on a log of this process, asked over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp.test_utils import TestClient, TestServer

from tests.orders import ADA
from tpf_streams.api import Api
from tpf_streams.api.server import application
from tpf_streams.dsl.load import LoadedPipeline, load_pipeline
from tpf_streams.engine.clock import SystemClock
from tpf_streams.runtime.application import Application
from tpf_streams.runtime.build import build, metrics_of
from tpf_streams.runtime.open_log import ViewableLog, open_local_log, open_memory_log
from tpf_streams.runtime.operator import Operator, running
from tpf_streams.runtime.pending_feed import PendingFeed
from tpf_streams.runtime.tally import Tally

ROOT = Path(__file__).parents[2]
APPROVAL = ROOT / "topologies/restaurant_approval/pipeline.yaml"
SECRET = {"pipeline.orchestrator.resume-token-secret": "a-secret-for-tests-only"}
TENANT = {"x-tenant-id": "default"}
ORDER = ADA
DECIDED_AT = "2026-01-01T10:00:00Z"


@dataclass(frozen=True)
class Served:
    """`client`: to be asked as any server is."""

    client: TestClient[Any, Any]
    api: Api
    loaded: LoadedPipeline
    log: ViewableLog
    application: Application
    tally: Tally

    async def get(self, path: str, status: int = 200, headers: Mapping[str, str] = TENANT, **query: Any) -> Any:
        async with self.client.get(path, headers=headers, params=query) as found:
            assert found.status == status, await found.text()
            return await found.json(content_type=None)

    async def post(self, path: str, body: Any = None, status: int = 200, **headers: str) -> Any:
        named = {**TENANT, **{name.replace("_", "-"): text for name, text in headers.items()}}
        async with self.client.post(path, json=body, headers=named) as found:
            assert found.status == status, await found.text()
            return await found.json(content_type=None)

    async def submitted(self, key: str, **order: str) -> str:
        """An execution that waits, by its key; -> its id."""
        found = await self.post("/pipeline/run-async", {**ORDER, **order}, 202, Idempotency_Key=key)
        return str(found["executionId"])

    async def waiting(self, key: str = "o-1", **order: str) -> dict[str, Any]:
        """The interaction of a new execution, once it waits."""
        execution_id = await self.submitted(key, **order)
        async with asyncio.timeout(10):
            while True:
                for it in await self.get("/pipeline/interactions/pending", limit=500):
                    if it["executionId"] == execution_id:
                        return dict(it)
                await asyncio.sleep(0.01)

    async def complete(self, interaction: Mapping[str, Any], payload: Any, status: int = 200, **more: Any) -> Any:
        body = {"interactionId": interaction["interactionId"], "responsePayload": payload, **more}
        return await self.post("/pipeline/interactions/complete", body, status)

    async def ended(self, execution_id: str) -> dict[str, Any]:
        async with asyncio.timeout(10):
            while True:
                found = await self.get(f"/pipeline/executions/{execution_id}")
                if found["status"] in ("SUCCEEDED", "FAILED"):
                    return dict(found)
                await asyncio.sleep(0.01)


def accepted(interaction: Mapping[str, Any], **fields: str) -> dict[str, Any]:
    return {"accepted": {"orderId": interaction["requestPayload"]["orderId"], "decidedAt": DECIDED_AT, **fields}}


def declined(interaction: Mapping[str, Any], reason: str = "closed") -> dict[str, Any]:
    order = interaction["requestPayload"]["orderId"]
    return {"declined": {"orderId": order, "decidedAt": DECIDED_AT, "declineReason": reason}}


def loaded_with(pipeline: Path = APPROVAL, **settings: str) -> LoadedPipeline:
    """Settings by their names with `__` for a dot and `_` for a dash."""
    named = {name.replace("__", ".").replace("_", "-"): text for name, text in settings.items()}
    return load_pipeline(pipeline, settings_overrides={**SECRET, **named}, environ={})


@asynccontextmanager
async def serving(loaded: LoadedPipeline, data_dir: Path | None = None) -> AsyncIterator[Served]:
    """On the local log of `data_dir`, or in memory."""
    log: ViewableLog = open_memory_log(loaded) if data_dir is None else open_local_log(loaded, data_dir)
    tally, feed, metrics = Tally(), PendingFeed(), metrics_of(loaded)
    assert metrics is not None
    work = build(loaded, log, SystemClock(), tally=tally, metrics=metrics, watchers=(feed,))
    operator = Operator(loaded.definition, log, work)
    api = Api(
        operator,
        loaded,
        feed,
        ready=lambda: work.worker.ready,
        partitions=lambda: list(work.worker.tasks),
        metrics=metrics.registry,
    )
    try:
        async with running(work), TestClient(TestServer(application(api))) as client:
            yield Served(client, api, loaded, log, work, tally)
            feed.close()
    finally:
        await log.close()

"""Workers of restaurant approval on Kafka as other processes, each behind its own HTTP server."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from aiohttp import ClientSession, ClientTimeout
from aiokafka import TopicPartition

from tests.e2e.program import APPROVAL, environment, start
from tests.integration.clients import fresh, poll_to, reader
from tests.orders import ADA
from tpf_streams.api.hops import HOP_HEADER
from tpf_streams.core.identity import IdFactory, partition_of, route_of
from tpf_streams.engine.owners import Owners, owners_topic
from tpf_streams.logs.kafka.reader import input_record

PENDING = "/pipeline/interactions/pending"
TENANT = {"x-tenant-id": "default"}
ORDER = ADA
READY_S = 60.0
PATIENCE_S = 60.0
PAUSE_S = 0.05


class HttpWorker:
    """`tpf-streams run --http 0 --log kafka` under way."""

    def __init__(self, application_id: str, bootstrap: str, folder: Path, *inputs: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._console = folder / "console.log"
        settings = {
            "kafka.bootstrap.servers": bootstrap,
            "pipeline.application-id": application_id,
            "kafka.session-timeout": "PT6S",
        }
        words: list[str | Path] = ["run", APPROVAL, "--log", "kafka", "--http", "0", "--data-dir", folder / "data"]
        words += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        words += [word for path in inputs for word in ("--input", path)]
        with self._console.open("w") as console:
            self.process: subprocess.Popen[str] = start(*words, env=environment(), err=console)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    @property
    def url(self) -> str:
        end = time.monotonic() + READY_S
        while (found := re.search(r"HTTP: (http://\S+),", self.console())) is None:
            assert time.monotonic() < end and self.process.poll() is None, self.console()
            time.sleep(PAUSE_S)
        return found[1]

    def console(self) -> str:
        return self._console.read_text(errors="replace")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """SIGTERM, waited for on a thread of the caller's."""
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=30)


class Answer:
    def __init__(self, status: int, body: Any, headers: Mapping[str, str]) -> None:
        self.status, self.body, self.headers = status, body, headers


class Fleet:
    """What is asked of several workers, and what each of them may answer."""

    def __init__(self, bootstrap: str, folder: Path, session: ClientSession) -> None:
        self.application_id = fresh("approvals")
        self.workers: list[HttpWorker] = []
        self.bootstrap = bootstrap
        self._folder = folder
        self._session = session
        self._ids = IdFactory(self.application_id)
        self._incarnations: dict[int, int] = {}

    def add(self, *inputs: Path) -> HttpWorker:
        found = HttpWorker(self.application_id, self.bootstrap, self._folder / f"worker-{len(self.workers)}", *inputs)
        self.workers.append(found)
        return found

    async def ask(self, worker: HttpWorker, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Whatever comes: an answer of the API, or a 503 that says when to ask again. Never another 5xx."""
        named = {**TENANT, **{name.replace("_", "-"): text for name, text in headers.items()}}
        async with self._session.request(method, worker.url + path, json=body, headers=named) as found:
            text = await found.text()
            if found.status >= 500:
                assert (found.status, found.headers.get("Retry-After")) == (503, "1"), text
            return Answer(found.status, json.loads(text), dict(found.headers))

    async def until(self, worker: HttpWorker, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """As a client that does what Retry-After says, only sooner."""
        async with asyncio.timeout(PATIENCE_S):
            while (found := await self.ask(worker, method, path, body, **headers)).status == 503:
                await asyncio.sleep(PAUSE_S)
            return found

    async def shares(self, count: int) -> None:
        """Until so many workers have partitions, and each lists those of all."""
        async with asyncio.timeout(READY_S):
            while True:
                ready = [await self.ask(worker, "GET", "/ready") for worker in self.alive]
                parts = [it.body["partitions"] for it in ready if it.status == 200]
                if sum(map(len, parts)) == 8 and len([part for part in parts if part]) == count:
                    break
                await asyncio.sleep(PAUSE_S)
        for worker in self.alive:
            assert (await self.until(worker, "GET", PENDING + "?limit=1")).status == 200

    @property
    def alive(self) -> list[HttpWorker]:
        return [worker for worker in self.workers if worker.process.poll() is None]

    async def partitions_of(self, worker: HttpWorker) -> list[int]:
        return list((await self.until(worker, "GET", "/ready")).body["partitions"])

    async def hop(self, worker: HttpWorker, partition: int) -> dict[str, str]:
        """The header by which another worker asks for one partition alone."""
        if partition not in self._incarnations:
            owners = Owners(8)
            async with reader(self.bootstrap) as consumer:
                at = TopicPartition(owners_topic(self.application_id), partition)
                end = (await consumer.end_offsets([at]))[at]
                consumer.assign([at])
                consumer.seek(at, 0)
                owners.told([input_record(record) for record in await poll_to(consumer, at, end)])
            owner = owners.of(partition)
            assert owner is not None
            self._incarnations[partition] = owner.incarnation
        return {HOP_HEADER.replace("-", "_"): f"{partition}@{self._incarnations[partition]}"}

    def keys_of(self, partitions: list[int]) -> Iterator[str]:
        """Idempotency keys whose executions are of these partitions."""
        for number in range(1_000_000):
            key = f"order-{number}"
            route = route_of(self._ids.execution_id("default", "restaurant-approval", key, 0)) or 0
            if partition_of(route, 8) in partitions:
                yield key

    async def begun(self, worker: HttpWorker, key: str, **order: str) -> str:
        found = await self.until(worker, "POST", "/pipeline/run-async", {**ORDER, **order}, Idempotency_Key=key)
        assert found.status == 202, found.body
        return str(found.body["executionId"])

    async def pending(self, worker: HttpWorker, count: int) -> list[dict[str, Any]]:
        """The first page, once it has so many."""
        async with asyncio.timeout(PATIENCE_S):
            while len(found := (await self.until(worker, "GET", PENDING + "?limit=500")).body) < count:
                await asyncio.sleep(PAUSE_S)
            return list(found)

    async def complete(self, worker: HttpWorker, interaction: Mapping[str, Any], decision: Any) -> Answer:
        body = {"interactionId": interaction["interactionId"], "responsePayload": decision}
        return await self.ask(worker, "POST", "/pipeline/interactions/complete", body)

    async def ended(self, worker: HttpWorker, execution_id: str) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = (await self.until(worker, "GET", f"/pipeline/executions/{execution_id}")).body
                if found["status"] in ("SUCCEEDED", "FAILED"):
                    return dict(found)
                await asyncio.sleep(PAUSE_S)


def accepted(interaction: Mapping[str, Any]) -> dict[str, Any]:
    order = interaction["requestPayload"]["orderId"]
    return {"accepted": {"orderId": order, "decidedAt": "2026-01-01T10:00:00Z"}}


def declined(interaction: Mapping[str, Any]) -> dict[str, Any]:
    order = interaction["requestPayload"]["orderId"]
    return {"declined": {"orderId": order, "decidedAt": "2026-01-01T10:00:00Z", "declineReason": "closed"}}


@asynccontextmanager
async def fleet(bootstrap: str, folder: Path) -> AsyncIterator[Fleet]:
    async with ClientSession(timeout=ClientTimeout(total=30)) as session:
        found = Fleet(bootstrap, folder, session)
        try:
            yield found
        finally:
            for worker in found.workers:
                worker.__exit__()

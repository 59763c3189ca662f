"""What a run serves beside its work: metrics on a port of their own, and the HTTP API."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack

from tpf_streams.api import Api, ApiPortError, ApiServer
from tpf_streams.api.limits import ApiLimits
from tpf_streams.api.peers import Peers
from tpf_streams.cli.console import Exit, fail, say
from tpf_streams.dsl.load import LoadedPipeline
from tpf_streams.engine.owners import Owners
from tpf_streams.logs.kafka import KafkaLog
from tpf_streams.observability.exposition import MetricsPortError, MetricsServer
from tpf_streams.observability.metrics import Metrics
from tpf_streams.runtime.advertised import url_of
from tpf_streams.runtime.application import Application
from tpf_streams.runtime.build import metrics_of
from tpf_streams.runtime.open_log import ViewableLog
from tpf_streams.runtime.operator import Operator
from tpf_streams.runtime.pending_feed import PendingFeed

LOOPBACK = "127.0.0.1"
Address = tuple[str, int]
"""Host and port; port 0 is any free one."""


def address_of(text: str) -> Address:
    """Of `[HOST:]PORT`; an IPv6 host stands in brackets."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65_535):
        fail(f"--http {text}: a port is wanted, from 0 to 65535, or HOST:PORT", Exit.USAGE)
    return host.strip("[]") or LOOPBACK, int(port)


async def peers_of(log: ViewableLog, loaded: LoadedPipeline, worker_id: str) -> Peers | None:
    """The other workers; None on a log that has none. Raises LogError."""
    if not isinstance(log, KafkaLog):
        return None
    owners = Owners(log.partitions)
    await log.follow_owners(owners.told)
    return Peers(owners, worker_id, ApiLimits.of(loaded.settings).answer_s)


def served_metrics(
    at: Address | None, http: Address | None, loaded: LoadedPipeline, stack: AsyncExitStack
) -> Metrics | None:
    """Nobody counts for a scrape that cannot come."""
    if at is None:
        return None if http is None else metrics_of(loaded)
    metrics = metrics_of(loaded)
    if metrics is None:
        fail("--metrics-port: pipeline.telemetry.enabled or pipeline.telemetry.metrics.enabled is false", Exit.USAGE)
    try:
        server = MetricsServer(metrics.registry, *at)
    except MetricsPortError as error:
        fail(f"--metrics-port: {error}", Exit.USAGE)
    stack.push_async_callback(asyncio.to_thread, server.close)
    say(f"metrics: {server.url}")
    return metrics


class ServedApi:
    """The HTTP API of a run. It listens before the engine is open, so that a port in use ends the run at once; until
    `run` is called nothing is ready."""

    def __init__(
        self,
        loaded: LoadedPipeline,
        operator: Operator,
        application: Application,
        feed: PendingFeed,
        metrics: Metrics | None,
        peers: Peers | None,
    ) -> None:
        self._opened = False
        self._application = application
        worker = application.worker
        api = Api(
            operator,
            loaded,
            feed,
            ready=lambda: self._opened and worker.ready,
            partitions=lambda: list(worker.tasks),
            metrics=None if metrics is None else metrics.registry,
            peers=peers,
        )
        self._guarded = api.access.guarded
        self._server = ApiServer(api)

    async def open(self, at: Address, stack: AsyncExitStack) -> None:
        try:
            await self._server.open(*at)
        except ApiPortError as error:
            fail(f"--http: {error}", Exit.USAGE)
        stack.push_async_callback(self._server.close)
        if not (at[0] == "localhost" or at[0].startswith("127.") or at[0] == "::1" or self._guarded):
            say(f"warning: --http {at[0]}: whoever reaches it may decide in another's place; see http.bearer-tokens")
        say(f"HTTP: {self._server.url}, described at {self._server.url}/openapi.json; inbox: {self._server.url}/inbox")

    @property
    def url(self) -> str:
        """How other workers reach it."""
        return url_of(*self._server.at, socket.gethostname())

    async def run(self, stop: asyncio.Event) -> None:
        """Companion of the run: the engine is open; when it is to stop, requests stop first."""
        self._opened = True
        await stop.wait()
        await self._server.close()

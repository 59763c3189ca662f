"""`faust … worker` as another process, and a provider and a reader of topics beside it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, cast

from aiokafka import AIOKafkaConsumer

from tests.e2e.program import ROOT, SECRET, wait_until
from tpf_streams.engine.clock import SystemClock
from tpf_streams.logs.kafka import KafkaClient, KafkaSettings
from tpf_streams.ports import Log
from tpf_streams.testing.provider import Answer, SimulatedProvider, echo

READY_S = 60.0
STOP_S = 10.0


def fresh_id(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}"


@dataclass
class Payments:
    """A copy of csv-payments with names of its own, since the topics of the original are fixed."""

    folder: Path
    name: str = field(default_factory=lambda: fresh_id("csv"))

    def __post_init__(self) -> None:
        package = self.folder / "topologies/csv_payments"
        shutil.copytree(ROOT / "topologies/csv_payments", package, ignore=shutil.ignore_patterns("__pycache__", "data"))
        shutil.copy(ROOT / "topologies/__init__.py", package.parent)
        for file in ("pipeline.yaml", "worker.py"):
            text = (package / file).read_text().replace("csv-payments.payment", self.name)
            text = text.replace('App("csv-payments"', f'App("{self.name}"').replace(
                "csv-payments-orch", f"{self.name}-orch"
            )
            (package / file).write_text(text.replace("interval: PT10S", "interval: PT1S"))
        self.inputs, self.outputs = package / "csv", package / "out"
        self.inputs.mkdir()

    @property
    def topics(self) -> tuple[str, str]:
        return f"{self.name}.requests", f"{self.name}.results"


class FaustWorker:
    """A worker under way. Its output goes to a file, so that no full pipe stops it."""

    def __init__(
        self, app: str, broker: str, folder: Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.port = found.getsockname()[1]
        folder.mkdir(parents=True, exist_ok=True)
        self._console = folder / "console.log"
        words = ["-A", app, "--datadir", str(folder / "data"), "worker", "-l", "info", "-p", str(self.port)]
        with self._console.open("ab") as console:
            self.process = subprocess.Popen(
                self.command(words),
                cwd=cwd,
                env=worker_environment(broker, env),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
            )

    def command(self, words: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "faust", *words]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def console(self) -> str:
        return self._console.read_text(errors="replace")

    def until_ready(self) -> None:
        self.until(lambda: "[^Worker]: Ready" in self.console(), READY_S)

    def until_engine_ready(self) -> None:
        """Faust's own group may last longer: it waits a minute for a member that was killed."""
        self.until(lambda: "The engine is ready" in self.console(), READY_S)

    def until(self, reached: Any, timeout: float = 40) -> None:
        def looked() -> bool:
            assert self.process.poll() is None, self.console()[-6000:]
            return bool(reached())

        try:
            wait_until(looked, timeout, 0.1)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.console()[-6000:]}") from None

    def get(self, path: str, timeout: float = 40, data: bytes | None = None) -> Any:
        return json.loads(self.text(path, timeout, data))

    def text(self, path: str, timeout: float = 40, data: bytes | None = None) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", data, timeout) as answer:
            return cast("bytes", answer.read()).decode()

    def stop(self) -> float:
        """SIGTERM; -> how long it took to end. Not longer than a stop may take."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(STOP_S) == 0, self.console()[-6000:]
        return time.monotonic() - began


def worker_environment(broker: str, env: Mapping[str, str] | None = None) -> dict[str, str]:
    own = {"BROKER_URL": f"kafka://{broker}", "PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET": SECRET}
    return {**os.environ, **own, **(env or {})}


@contextmanager
def provider(broker: str, topics: tuple[str, str], builder: Answer = echo, **options: Any) -> Iterator[None]:
    """Answers requests by way of the topics alone, which must be there."""
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    async def work() -> None:
        client = await KafkaClient.open(KafkaSettings(broker, fresh_id("provider")))
        try:
            log = cast(Log, client)  # of a log, a provider needs no more than a client has
            await SimulatedProvider(log, *topics, clock=SystemClock(), builder=builder, **options).run(stop)
        finally:
            await client.close()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(work())

    thread = threading.Thread(target=run, name="provider")
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


async def committed(broker: str, topic: str, count: int, timeout: float = 40) -> list[dict[str, Any]]:
    """The committed values of a topic: those of `count` records, and what may have come too many."""
    found: list[dict[str, Any]] = []
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=broker, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        end = time.monotonic() + timeout
        while len(found) < count:
            assert time.monotonic() < end, f"{len(found)} of {count} came"
            found += await _more(consumer, 200)
        return found + await _more(consumer, 1_000)
    finally:
        await consumer.stop()


async def _more(consumer: Any, timeout_ms: int) -> list[dict[str, Any]]:
    batches = await consumer.getmany(timeout_ms=timeout_ms)
    return [json.loads(record.value) for records in batches.values() for record in records]

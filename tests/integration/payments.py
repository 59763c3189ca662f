"""csv_payments on a broker: a copy of the pipeline with topics of its own, and what lies in them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import orjson
from aiokafka import TopicPartition

from tests.e2e.program import PIPELINE, started, wait_until
from tests.integration.clients import fresh, poll_to, reader


class Payments:
    """One application on fresh topics of a broker that others use, too."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.name = fresh("payments")
        self.requests, self.responses = f"{self.name}.requests", f"{self.name}.results"
        self.outputs = f"{self.name}-outputs"
        self.pipeline = folder / "pipeline.yaml"
        self.pipeline.write_text(PIPELINE.read_text().replace("csv-payments.payment", self.name))
        self.settings = {"kafka.bootstrap.servers": bootstrap, "pipeline.application-id": self.name}

    @property
    def set_words(self) -> list[str]:
        return [word for key, value in self.settings.items() for word in ("--set", f"{key}={value}")]

    def run_words(self, *inputs: Path, out: Path, data: Path) -> list[str | Path]:
        """The command line of a run."""
        words: list[str | Path] = ["run", self.pipeline, "--log", "kafka", *self.set_words, "--json"]
        words += ["--output-dir", out, "--data-dir", data]
        return [*words, *(word for path in inputs for word in ("--input", path))]

    def output_values(self) -> list[dict[str, Any]]:
        """What is committed on the output topic."""
        return [orjson.loads(value) for value in asyncio.run(self._values(self.outputs))]

    async def _values(self, topic: str) -> list[bytes]:
        async with reader(self.bootstrap) as consumer:
            parts = [TopicPartition(topic, number) for number in range(8)]
            ends = await consumer.end_offsets(parts)
            consumer.assign(parts)
            for at in parts:
                consumer.seek(at, 0)
            return [record.value for at in parts for record in await poll_to(consumer, at, ends[at])]

    @contextmanager
    def provider(self, *words: str, log: Path) -> Iterator[Popen[str]]:
        """The provider as a process that has its place in the group. `log`: where its stderr goes."""
        with log.open("w") as err, started("provider", self.pipeline, *self.set_words, *words, err=err) as process:
            wait_until(lambda: "answering" in log.read_text() or process.poll() is not None)
            yield process

"""Pipelines on a broker that others use, too: copies with topics of their own, and what lies in them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import orjson
from aiokafka import ConsumerRecord, TopicPartition

from tests.e2e.program import PIPELINE, started, wait_until
from tests.field.pipelines import DECISION, RESPONSES
from tests.integration.clients import fresh, poll_to, reader


async def records_of(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[ConsumerRecord]:
    """Everything in a topic, partition by partition."""
    async with reader(bootstrap, isolation) as consumer:
        await consumer._client.force_metadata_update()
        parts = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        ends = await consumer.end_offsets(parts)
        found: list[ConsumerRecord] = []
        for at in parts:
            consumer.assign([at])
            consumer.seek(at, 0)
            found += await poll_to(consumer, at, ends[at])
        return found


class Application:
    """One application on fresh topics. `topics`: what the topics of its text begin with."""

    def __init__(self, folder: Path, bootstrap: str, name: str, text: str, topics: str, **settings: str) -> None:
        self.bootstrap = bootstrap
        self.name = fresh(name)
        self.requests, self.responses = f"{self.name}.requests", f"{self.name}.results"
        self.outputs, self.dead_letters = f"{self.name}-outputs", f"{self.name}-dead-letters"
        self.events = f"{self.name}-events"
        self.pipeline = folder / "pipeline.yaml"
        self.pipeline.write_text(text.replace(f"{topics}.", f"{self.name}."))
        self.settings = {"kafka.bootstrap.servers": bootstrap, "pipeline.application-id": self.name, **settings}

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
        return [orjson.loads(record.value) for record in asyncio.run(self._records(self.outputs))]

    def request_values(self, isolation: str = "read_committed") -> list[dict[str, Any]]:
        """The requests; with "read_uncommitted" those of transactions that failed, too."""
        return [orjson.loads(record.value) for record in asyncio.run(self._records(self.requests, isolation))]

    def reasons(self) -> dict[tuple[str, int, int], str]:
        """Why records are dead letters, by topic, partition and offset of where they were read."""
        found = {}
        for record in asyncio.run(self._records(self.dead_letters)):
            headers = {name: value.decode() for name, value in record.headers}
            place = headers["tpf-source-topic"], int(headers["tpf-source-partition"]), int(headers["tpf-source-offset"])
            found[place] = headers["tpf-reason"]
        return found

    async def _records(self, topic: str, isolation: str = "read_committed") -> list[ConsumerRecord]:
        return await records_of(self.bootstrap, topic, isolation)

    @contextmanager
    def provider(self, *words: str, log: Path, env: Mapping[str, str] | None = None) -> Iterator[Popen[str]]:
        """The provider as a process that has its place in the group. `log`: where its stderr goes."""
        call: list[str | Path] = ["provider", self.pipeline, *self.set_words, *words]
        with log.open("w") as err, started(*call, env=env, err=err) as process:
            wait_until(lambda: "answering" in log.read_text() or process.poll() is not None)
            yield process


class Payments(Application):
    """csv_payments."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        super().__init__(folder, bootstrap, "payments", PIPELINE.read_text(), "csv-payments.payment")


class Decisions(Application):
    """The field cases' pipeline of one decision. Topics of one partition: offsets say which record was which."""

    def __init__(self, folder: Path, bootstrap: str, text: str = DECISION) -> None:
        text = text.replace(
            "input: Decision, output: Outcome", "service: steps:finish, input: Decision, output: Outcome"
        )
        text = text.replace(RESPONSES, "field.results").replace("PT1M", "PT10M")
        settings = {"pipeline.orchestrator.default-tenant": "tenant-red", "topology.topic-partitions": "1"}
        super().__init__(folder, bootstrap, "decisions", text, "field", **settings)
        (folder / "steps.py").write_text("def finish(decision: dict):\n    return {'status': decision['status']}\n")

    def orders(self, *names: str) -> Path:
        """An input with an execution for each name."""
        file = self.pipeline.with_name("orders.jsonl")
        file.write_text("".join(f'{{"orderId": "{name}"}}\n' for name in names))
        return file

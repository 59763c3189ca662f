"""A person with a terminal: what waits in a pipeline is answered by Kafka's own console tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.e2e.program import started, wait_until
from tests.field.sequences import Names
from tests.integration.applications import Decisions
from tests.integration.kafka_broker import CONSOLE_CONSUMER, CONSOLE_PRODUCER, CONSUMER_GROUPS, console_tool
from tpf_streams.runtime.control import ask

TOOL_S = 60


class Console:
    """A pipeline without a provider, and a person with a terminal."""

    def __init__(self, application: Decisions, folder: Path) -> None:
        self.application = application
        self.names = Names()
        self._out, self._data = folder / "out", folder / "data"

    @contextmanager
    def waiting(self, *names: str) -> Iterator[Popen[str]]:
        """The pipeline, with an interaction for each name that waits; its requests are read from their topic."""
        with self.running(self.application.orders(*names), count=len(names)) as process:
            yield process

    @contextmanager
    def running(self, *inputs: Path, count: int) -> Iterator[Popen[str]]:
        """The same of other inputs, which make `count` interactions."""
        with started(*self.application.run_words(*inputs, out=self._out, data=self._data)) as process:
            wait_until(lambda: process.poll() is not None or self._waiting() == count, timeout=60, pause=0.3)
            assert process.poll() is None, process.communicate()
            for line in self.read(self.application.requests, count):
                request = json.loads(line)
                self.names.requests[request["requestPayload"]["orderId"]] = request
            yield process

    def _waiting(self) -> int:
        found = ask(self._data / "0", "pending", {})
        return 0 if found is None else int(found["count"])

    def status(self) -> dict[str, int]:
        return dict((ask(self._data / "0", "status", {}) or {})["counts"])

    def read(self, topic: str, count: int) -> list[str]:
        words = ["--topic", topic, "--from-beginning", "--max-messages", str(count), "--timeout-ms", "30000"]
        words += ["--isolation-level", "read_committed"]
        with console_tool(self.application.bootstrap, CONSOLE_CONSUMER, *words) as process:
            output, _ = process.communicate(timeout=TOOL_S)
        return output.splitlines()

    def type(self, topic: str, text: str, *properties: str) -> None:
        """What a person types, with its line breaks."""
        words = ["--topic", topic, *(word for each in properties for word in ("--reader-property", each))]
        with console_tool(self.application.bootstrap, CONSOLE_PRODUCER, *words) as process:
            process.communicate(text, timeout=TOOL_S)
            assert process.returncode == 0

    def outcomes(self) -> dict[str, str]:
        """The output of each execution, by the name of its order."""
        names = {request["executionId"]: name for name, request in self.names.requests.items()}
        return {names[it["executionId"]]: it["payload"]["status"] for it in self.application.output_values()}

    def position(self) -> int | None:
        """How far the router's group is in the response topic."""
        return asyncio.run(self._position())

    def forget_position(self) -> None:
        """As a broker does with a group that was away for long; a member that died is one until its session ends."""
        words = ["--delete", "--group", self._group]

        def forgotten() -> bool:
            with console_tool(self.application.bootstrap, CONSUMER_GROUPS, *words) as process:
                output, _ = process.communicate(timeout=TOOL_S)
            return "was successful" in output

        wait_until(forgotten, timeout=30, pause=0.5)

    @property
    def _group(self) -> str:
        return f"{self.application.name}-router"

    async def _position(self) -> int | None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.application.bootstrap,
            group_id=self._group,
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            found: int | None = await consumer.committed(TopicPartition(self.application.responses, 0))
            return found
        finally:
            await consumer.stop()


def completion(request: Mapping[str, Any], status: str) -> str:
    """As README says it: who it is for, its token, the answer."""
    fields = {name: request[name] for name in ("tenantId", "correlationId", "resumeToken")}
    return json.dumps({**fields, "responsePayload": {"status": status}})

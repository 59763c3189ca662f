"""csv-payments on Kafka: a Faust worker and a provider as processes of their own, one file of payments."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.benchmarks.kafka.processes import CpuWatch
from tests.benchmarks.payments import ROOT, write_payments
from tests.benchmarks.report import latency_summary
from tests.e2e.faust_worker import FaustWorker, Payments
from tests.e2e.fleet import APP, provider_process
from tpf_streams.engine.wire import EVENT_HEADER, SOURCE_HEADER

RUN_S = 600.0
POLL_S = 0.1


class NotedWorker(FaustWorker):
    """A worker that writes down when its commits returned."""

    def __init__(self, broker: str, payments: Payments, folder: Path) -> None:
        self.notes = folder / "notes.json"
        super().__init__(APP, broker, folder, payments.folder, {"PYTHONPATH": str(ROOT)})

    def command(self, words: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "tests.benchmarks.kafka.noted_worker", str(self.notes), *words]


async def run(
    broker: str,
    broker_pid: int | None,
    rows: int,
    folder: Path,
    files: int = 1,
    settings: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """One run; its figures. From the commit of the first requests to that of the published file. `settings`: of the
    pipeline, beside its own.

    Raises AssertionError for a run that did not do its work.
    """
    payments = _application(folder, settings or {})
    await _answers_topic(broker, payments)
    with NotedWorker(broker, payments, folder / "worker") as worker:
        worker.until_ready()
        with provider_process(payments, broker, "--reject", "0.08") as provider:
            watch = CpuWatch(worker=worker.process.pid, provider=provider.pid, broker=broker_pid)
            _hand_in(payments, rows, files)
            async with asyncio.timeout(RUN_S):
                while len(_outputs(payments)) < files:
                    assert worker.process.poll() is None, worker.console()[-4000:]
                    await asyncio.sleep(POLL_S)
            cpu_s = watch.read()
        worker.stop()
    assert sum(len(output.read_text().splitlines()) - 1 for output in _outputs(payments)) == rows
    notes = orjson.loads(worker.notes.read_bytes())
    return {
        "items": rows,
        "seconds": notes[-1][4] - next(began_s for _, _, records, began_s, _ in notes if records),
        "turns": len(notes),
        "cpu_s": cpu_s["worker"],
        "cpu_us": {name: seconds / rows * 1e6 for name, seconds in cpu_s.items()},
        "latency_ms": latency_summary(await _waits_s(broker, payments, notes, rows)),
        "peak_bytes": 0,
    }


def _hand_in(payments: Payments, rows: int, files: int) -> None:
    """All at once, each file as a whole."""
    share = rows // files
    found = [write_payments(payments.inputs / f".{it}.part", share, it * share + 1) for it in range(files)]
    for number, path in enumerate(found):
        path.rename(payments.inputs / f"payments-{number}.csv")


def _outputs(payments: Payments) -> list[Path]:
    return list(payments.outputs.glob("*.out"))


def _application(folder: Path, settings: Mapping[str, str]) -> Payments:
    """Arrival is read and not appended, so that a record of the answers bears the moment of its sending."""
    payments = Payments(folder / "project")
    pipeline = payments.inputs.parent / "pipeline.yaml"
    lines = "".join(f"  {key}: {value}\n" for key, value in {"await.arrival-time": "read", **settings}.items())
    pipeline.write_text(pipeline.read_text().replace("settings:\n", f"settings:\n{lines}", 1))
    return payments


async def _answers_topic(broker: str, payments: Payments) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker)
    await admin.start()
    try:
        config = {"message.timestamp.type": "CreateTime"}
        await admin.create_topics([NewTopic(payments.topics[1], 8, 1, topic_configs=config)])
    finally:
        await admin.close()


async def _waits_s(broker: str, payments: Payments, notes: Sequence[Sequence[float]], rows: int) -> list[float]:
    """From the send of each answer to the return of the commit that settled it. Raises AssertionError if one is
    missing: a figure that leaves answers out is no figure."""
    settled = _settled(notes)
    async with AsyncExitStack() as stack:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=broker, isolation_level="read_committed", enable_auto_commit=False,
            auto_offset_reset="none",
        )  # fmt: skip
        await consumer.start()
        stack.push_async_callback(consumer.stop)
        sent_s = {
            f"{record.topic}/{record.partition}/{record.offset}": record.timestamp / 1000
            for record in await _all(consumer, payments.topics[1])
        }
        waits_s = []
        for record in await _all(consumer, f"{payments.name}-events"):
            headers = dict(record.headers)
            if headers.get(EVENT_HEADER) == b"completion":
                ends = settled[record.partition]
                end_s = next(at_s for position, at_s in ends if position > record.offset)
                waits_s.append(end_s - sent_s[headers[SOURCE_HEADER].decode()])
    assert len(waits_s) == rows, f"{len(waits_s)} answers of {rows}"
    return waits_s


def _settled(notes: Sequence[Sequence[float]]) -> Mapping[int, list[tuple[float, float]]]:
    found: dict[int, list[tuple[float, float]]] = {}
    for partition, position, _, _, at_s in notes:
        found.setdefault(int(partition), []).append((position, at_s))
    return found


async def _all(consumer: AIOKafkaConsumer, topic: str) -> list[ConsumerRecord]:
    parts = [TopicPartition(topic, number) for number in await _numbers(consumer, topic)]
    begins, ends = await consumer.beginning_offsets(parts), await consumer.end_offsets(parts)
    consumer.assign(parts)
    for part in parts:
        consumer.seek(part, begins[part])
    found: list[ConsumerRecord] = []
    for part in parts:
        while await consumer.position(part) < ends[part]:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                found += records
    return found


async def _numbers(consumer: AIOKafkaConsumer, topic: str) -> list[int]:
    await consumer._client._wait_on_metadata(topic)
    return sorted(consumer.partitions_for_topic(topic))


def raw(broker: str, items: int) -> dict[str, Any]:
    """The raw loop in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.kafka.raw", broker, "--items", str(items)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=True)
    found: dict[str, Any] = orjson.loads(done.stdout)
    return found

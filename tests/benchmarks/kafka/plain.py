"""The await in Faust's own agents, in the same closed loop: a window of items, answered here, until all came back."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import ConsumerRecord

from tests.benchmarks.kafka.processes import CpuWatch
from tests.benchmarks.payments import ROOT, WINDOW
from tests.benchmarks.report import latency_summary
from tests.e2e.faust_worker import FaustWorker, fresh_id

RUN_S = 300.0


async def run(broker: str, items: int, folder: Path) -> dict[str, Any]:
    name = fresh_id("plain")
    topology = folder / "project" / "plain_faust_await.py"
    topology.parent.mkdir(parents=True)
    topology.write_text((ROOT / "topologies/plain_faust_await.py").read_text().replace("plain-faust-await", name))
    with FaustWorker("plain_faust_await", broker, folder / "worker", topology.parent) as worker:
        worker.until_ready()
        consumer = AIOKafkaConsumer(
            f"{name}.requests", f"{name}.outputs", bootstrap_servers=broker, auto_offset_reset="earliest"
        )
        producer = AIOKafkaProducer(bootstrap_servers=broker, linger_ms=0)
        await consumer.start()
        await producer.start()
        try:
            async with asyncio.timeout(RUN_S):
                return await _loop(name, producer, consumer, items, worker.process.pid)
        finally:
            await producer.stop()
            await consumer.stop()
            worker.stop()


async def _loop(
    name: str, producer: AIOKafkaProducer, consumer: AIOKafkaConsumer, items: int, worker_pid: int
) -> dict[str, Any]:
    payload = {"recipient": "A Person", "amount": "123.45", "currency": "EUR"}
    sent_s: dict[bytes, float] = {}
    waits_s: list[float] = []
    asked = 0
    watch, began_s = CpuWatch(worker=worker_pid), time.time()
    while len(waits_s) < items:
        while asked < min(items, len(waits_s) + WINDOW):
            key = str(asked)
            await _send(producer, f"{name}.items", key.encode(), {"id": key, "payload": payload})
            asked += 1
        for records in (await consumer.getmany(timeout_ms=200)).values():
            for record in records:
                await _take(name, producer, record, sent_s, waits_s)
    seconds, cpu_s = time.time() - began_s, watch.read()["worker"]
    figures = {"items": items, "seconds": seconds, "cpu_s": cpu_s, "peak_bytes": 0}
    return {**figures, "latency_ms": latency_summary(waits_s)}


async def _take(
    name: str, producer: AIOKafkaProducer, record: ConsumerRecord, sent_s: dict[bytes, float], waits_s: list[float]
) -> None:
    if record.topic.endswith(".requests"):
        sent_s[record.key] = time.time()
        await _send(producer, f"{name}.answers", record.key, {"id": record.key.decode(), "approved": True})
    else:
        waits_s.append(time.time() - sent_s[record.key])


async def _send(producer: AIOKafkaProducer, topic: str, key: bytes, value: object) -> None:
    await producer.send(topic, key=key, value=orjson.dumps(value))

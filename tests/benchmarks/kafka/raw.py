"""The raw loop: what aiokafka and RocksDB can do with the topology of an await, exactly once, and no logic.

A window of requests on one partition. A turn is one transaction of row changes (the input position among them),
requests and outputs, and behind it one write of the store; another process answers. No ids, checks, retries or
recovery: an upper bound for one task. Latency: from the send of an answer to the return of the commit that settles it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import uvloop
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.benchmarks.measure import Stopwatch, peak_bytes
from tests.benchmarks.payments import WINDOW
from tests.benchmarks.report import latency_summary
from tests.integration.clients import fresh, new_partition
from tpf_streams.stores.rocksdb import RocksDbStateStore

BATCH_MAX = 1_000
BATCH_BYTES = 1 << 20
FETCH_WAIT_MS = 20
FILLING = "x" * 420
"""Makes requests, rows and outputs about as long as ours."""
PAIRS = Iterable[tuple[bytes, bytes]]


@dataclass(slots=True)
class Course:
    """How far the loop is."""

    items: int
    dispatched: int = 0
    completed: int = 0
    position: int = 0
    turns: int = 0
    waits_s: list[float] = field(default_factory=list)

    @property
    def room(self) -> int:
        return min(self.items, self.completed + WINDOW) - self.dispatched


class RawLoop:
    """One run over one partition of each topic."""

    def __init__(
        self,
        producer: AIOKafkaProducer,
        consumer: AIOKafkaConsumer,
        store: RocksDbStateStore,
        topics: Topics,
        items: int,
    ) -> None:
        self.course = Course(items)
        self._producer, self._consumer, self._store, self._topics = producer, consumer, store, topics

    async def run(self) -> None:
        while self.course.completed < self.course.items:
            await self._turn()

    async def _turn(self) -> None:
        course = self.course
        rows: dict[bytes, bytes] = {}
        outputs, sent_s = await self._answers(rows)
        requests = list(self._requests(rows))
        if not rows:
            return
        rows[b"position"] = b"%d" % course.position
        await self._producer.begin_transaction()
        topics = self._topics
        under_way: list[asyncio.Future[object]] = []
        for topic, pairs in ((topics.changelog, rows.items()), (topics.requests, requests), (topics.outputs, outputs)):
            under_way += await send(self._producer, topic, pairs)
        await asyncio.gather(*under_way)
        await self._producer.commit_transaction()
        now_s = time.time()
        course.waits_s += [now_s - moment for moment in sent_s]
        self._store.write(rows)
        course.turns += 1

    async def _answers(self, rows: dict[bytes, bytes]) -> tuple[list[tuple[bytes, bytes]], list[float]]:
        course, at = self.course, TopicPartition(self._topics.answers, 0)
        if not course.dispatched:
            return [], []
        wait_ms = 1 if course.room else 500
        records = (await self._consumer.getmany(at, timeout_ms=wait_ms, max_records=BATCH_MAX)).get(at, [])
        found = self._store.get_many([record.key for record in records])
        outputs, sent_s = [], []
        for record, stored in zip(records, found, strict=True):
            answer, row = orjson.loads(record.value), orjson.loads(stored or b"{}")
            if row["status"] != "WAITING":
                continue
            row["status"], row["answer"] = "COMPLETED", answer["payload"]
            rows[record.key] = orjson.dumps(row)
            outputs.append((record.key, orjson.dumps({"request": row["request"], "answer": row["answer"]})))
            sent_s.append(answer["sent"])
        course.completed += len(outputs)
        if records:
            course.position = records[-1].offset + 1
        return outputs, sent_s

    def _requests(self, rows: dict[bytes, bytes]) -> Iterator[tuple[bytes, bytes]]:
        course = self.course
        for number in range(course.dispatched, course.dispatched + course.room):
            key = b"%036d" % number
            request = {"csvId": str(number), "recipient": "A Person", "amount": "123.45", "currency": "EUR"}
            rows[key] = orjson.dumps({"status": "WAITING", "request": request, "filling": FILLING})
            yield key, orjson.dumps({"id": key.decode(), "payload": request, "filling": FILLING})
        course.dispatched += course.room


@dataclass(frozen=True, slots=True)
class Topics:
    """Names, each of one partition."""

    requests: str
    answers: str
    outputs: str
    changelog: str

    @classmethod
    async def new(cls, bootstrap: str) -> Topics:
        return cls(*[(await new_partition(bootstrap)).topic for _ in range(4)])


async def send(producer: AIOKafkaProducer, topic: str, pairs: PAIRS) -> list[asyncio.Future[object]]:
    futures, batch, count = [], producer.create_batch(), 0
    for key, value in pairs:
        while batch.append(key=key, value=value, timestamp=None) is None:
            futures.append(await producer.send_batch(batch, topic, partition=0))
            batch, count = producer.create_batch(), 0
        count += 1
    if count:
        futures.append(await producer.send_batch(batch, topic, partition=0))
    return futures


async def reading(bootstrap: str, topic: str) -> AIOKafkaConsumer:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", enable_auto_commit=False,
        auto_offset_reset="none", fetch_max_wait_ms=FETCH_WAIT_MS,
    )  # fmt: skip
    await consumer.start()
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek(TopicPartition(topic, 0), 0)
    return consumer


async def answer(bootstrap: str, requests: str, answers: str) -> None:
    """The other process: every request gets an answer at once."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=0, max_batch_size=BATCH_BYTES)
    await producer.start()
    consumer = await reading(bootstrap, requests)
    print("ready", flush=True)
    while True:
        for records in (await consumer.getmany(timeout_ms=500, max_records=BATCH_MAX)).values():
            await asyncio.gather(*await send(producer, answers, map(_answer, records)))


def _answer(record: object) -> tuple[bytes, bytes]:
    key, value = record.key, record.value  # type: ignore[attr-defined]  # aiokafka is untyped
    payload = {"approved": {"reference": "101", "fee": "1.01", "record": orjson.loads(value)["payload"]}}
    return key, orjson.dumps({"id": key.decode(), "payload": payload, "filling": FILLING, "sent": time.time()})


async def run(bootstrap: str, items: int) -> dict[str, object]:
    topics = await Topics.new(bootstrap)
    other = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.benchmarks.kafka.raw", bootstrap, "--answer", topics.requests, topics.answers,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert other.stdout is not None
    await other.stdout.readline()
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=fresh("raw"), linger_ms=0, max_batch_size=BATCH_BYTES
    )
    await producer.start()
    consumer = await reading(bootstrap, topics.answers)
    watch = Stopwatch()
    try:
        with tempfile.TemporaryDirectory() as name:
            store = RocksDbStateStore(Path(name) / "db")
            loop = RawLoop(producer, consumer, store, topics, items)
            watch.start()
            await loop.run()
            watch.stop()
            store.close()
    finally:
        other.terminate()
        await other.wait()
        await consumer.stop()
        await producer.stop()
    figures = {"items": items, "seconds": watch.seconds, "cpu_s": watch.cpu_s, "peak_bytes": peak_bytes()}
    return {**figures, "turns": loop.course.turns, "latency_ms": latency_summary(loop.course.waits_s)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument("--answer", nargs=2, metavar=("REQUESTS", "ANSWERS"), help="be the other process")
    given = parser.parse_args()
    if given.answer:
        uvloop.run(answer(given.bootstrap, *given.answer))
    else:
        print(json.dumps(uvloop.run(run(given.bootstrap, given.items))))


if __name__ == "__main__":
    main()

"""The other topologies with a worker: one written in Python alone, and the await in Faust's own agents."""

from __future__ import annotations

import json
import shutil

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from tests.e2e.faust_worker import FaustWorker, committed, fresh_id, provider
from tests.e2e.program import ROOT

pytestmark = pytest.mark.broker


def copied(folder, path, name, new, app="app.py"):
    """The topologies folder with one of them under a name of its own, since its topics are fixed."""
    target = folder / "topologies" / path
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "topologies/__init__.py", folder / "topologies")
    if (ROOT / "topologies" / path).is_dir():
        shutil.copytree(ROOT / "topologies" / path, target, ignore=shutil.ignore_patterns("__pycache__"))
        target = target / app
    else:
        shutil.copy(ROOT / "topologies" / path, target)
    target.write_text(target.read_text().replace(f'"{name}', f'"{new}'))
    return folder


async def test_a_pipeline_in_python_alone(tmp_path, bootstrap_servers):
    name = fresh_id("quote")
    project = copied(tmp_path / "project", "shipping_quote", "shipping-quote", name)

    def carrier(request, options):
        parcel = request["requestPayload"]["parcel_id"]
        if parcel == "far":
            return {"refusal": {"parcel_id": parcel, "reason": "too far"}}
        return {"quote": {"parcel_id": parcel, "price": "9.50", "days": 2}}

    with FaustWorker("topologies.shipping_quote", bootstrap_servers, tmp_path / "worker", project) as worker:
        worker.until_ready()
        for parcel, grams in (("near", 900), ("far", 900), ("empty", 0)):
            body = json.dumps({"parcel_id": parcel, "grams": grams, "country": "FR"}).encode()
            assert worker.get("/parcels/", data=body)["executionId"]
        with provider(bootstrap_servers, (f"{name}.requests", f"{name}.quotes"), carrier):
            outputs = await committed(bootstrap_servers, f"{name}-outputs", 2)
        assert sorted((it["payload"]["parcel_id"], it["payload"]["booked"]) for it in outputs) == [
            ("far", False),
            ("near", True),
        ]
        worker.until(lambda: "RUNNING" not in str(worker.get("/parcels/")))
        assert sorted(status for _, status, _ in worker.get("/parcels/")) == ["FAILED", "SUCCEEDED", "SUCCEEDED"]
        worker.stop()


async def test_the_await_in_fausts_own_agents(tmp_path, bootstrap_servers):
    name, count = fresh_id("plain"), 50
    project = copied(tmp_path / "project", "plain_faust_await.py", "plain-faust-await", name)
    with FaustWorker("topologies.plain_faust_await", bootstrap_servers, tmp_path / "worker", project) as worker:
        worker.until_ready()
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers)
        consumer = AIOKafkaConsumer(
            f"{name}.requests", bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest"
        )
        await producer.start()
        await consumer.start()
        for number in range(count):
            item = {"id": str(number), "payload": {"n": number}}
            await producer.send(f"{name}.items", json.dumps(item).encode(), key=str(number).encode())
        for _ in range(count):
            request = await consumer.getone()
            answer = json.dumps({"id": json.loads(request.value)["id"], "approved": True}).encode()
            for _ in range(2):
                await producer.send(f"{name}.answers", answer, key=request.key)
        await producer.stop()
        await consumer.stop()
        outputs = await committed(bootstrap_servers, f"{name}.outputs", count)
        assert sorted(output["n"] for output in outputs) == list(range(count)), "a repeat finds nothing to go on with"
        worker.stop()

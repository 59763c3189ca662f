"""What a user puts beside the engine: it works as in any Faust app, and nothing of it disturbs the engine."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time

import pytest
from aiokafka import AIOKafkaProducer

from tests.e2e.faust_worker import FaustWorker, committed, fresh_id, provider, worker_environment
from tests.e2e.program import ROOT
from tests.topology.scrapes import Scrape, told

pytestmark = pytest.mark.broker
SLEEP_S = 20


@pytest.fixture
def name():
    return fresh_id("probe")


@pytest.fixture
def running(name, bootstrap_servers, tmp_path):
    with FaustWorker("tests.e2e.probe", bootstrap_servers, tmp_path / "worker", env={"PROBE_ID": name}) as worker:
        worker.until_ready()
        yield worker


def answering(name, broker):
    return provider(broker, (f"{name}.requests", f"{name}.answers"))


def assert_undisturbed(worker: FaustWorker) -> None:
    console = worker.console()
    assert not [word for word in ("opened anew", "was revoked", "was lost", "Traceback") if word in console]
    assert console.count("Joined group") == console.count("(generation 1)"), "nobody had to join again"


async def test_steps_views_timers_and_the_monitor(running, name, bootstrap_servers):
    assert running.get("/look/")["ready"]
    ids = running.get("/items/5/")["ids"]
    assert running.get("/items/5/")["ids"] == ids, "the same keys are the same executions"
    running.until(lambda: running.get("/look/")["interactions"] == ["DISPATCHED"] * 5)
    with answering(name, bootstrap_servers):
        running.until(lambda: len(running.get("/look/")["seen"]) == 5)
    running.until(lambda: running.get("/look/")["counts"].get("tpf.await.completion.admitted.total") == 5)
    page = running.get("/look/")
    assert page["executions"] == dict.fromkeys(ids, "SUCCEEDED")
    assert page["units"] == page["interactions"] == ["COMPLETED"] * 5
    assert page["threads"]["async step"] == "MainThread"
    assert page["threads"]["sync step"].startswith("tpf-step")
    assert page["ticks"] > 0
    assert running.stop() < 10


async def test_metrics_while_a_page_waits_and_the_engine_works(running, name, bootstrap_servers):
    """A scrape is answered at once, and in the end it is what the monitor counted."""
    running.get("/items/200/")
    page = threading.Thread(target=running.get, args=(f"/wait/{SLEEP_S}/",))
    page.start()
    scrapes: list[tuple[float, Scrape]] = []
    with answering(name, bootstrap_servers):
        while not scrapes or scrapes[-1][1].total("completion.admitted.total") < 200:
            began = time.monotonic()
            scrapes.append((began, Scrape(running.text("/metrics"))))
            assert time.monotonic() - began < 2
            time.sleep(0.2)
    assert time.monotonic() - scrapes[0][0] < SLEEP_S, "the page sleeps still"
    admitted = [found.total("completion.admitted.total") for _, found in scrapes]
    assert admitted == sorted(admitted)
    page.join()
    running.until(lambda: running.get("/look/")["counts"].get("tpf.await.execution.terminal.total") == 200)
    running.until(lambda: "tpf_store_bytes 0.0" not in running.text("/metrics"))
    found = Scrape(running.text("/metrics"))
    counts = running.get("/look/")["counts"]
    assert found.facts() == told({fact: count for fact, count in counts.items() if fact.startswith("tpf.")})
    assert found.value("tpf_tasks_open") == found.value("tpf_tasks_assigned") == 8
    assert found.value("tpf_store_bytes") > 0


@pytest.mark.parametrize("how", ["block", "wait"])
async def test_a_page_that_sleeps_does_not_disturb_the_engine(running, name, bootstrap_servers, how):
    running.get("/items/20/")
    running.until(lambda: running.get("/look/")["interactions"] == ["DISPATCHED"] * 20)
    began = time.monotonic()
    page = threading.Thread(target=running.get, args=(f"/{how}/{SLEEP_S}/",))
    page.start()
    time.sleep(1)
    with answering(name, bootstrap_servers):
        assert len(await committed(bootstrap_servers, f"{name}-outputs", 20, timeout=SLEEP_S - 5)) == 20
    assert time.monotonic() - began < SLEEP_S, "the outputs came while the page slept"
    page.join()
    assert_undisturbed(running)


async def test_an_agent_that_blocks_does_not_disturb_the_engine(running, name, bootstrap_servers):
    running.get("/items/20/")
    running.until(lambda: running.get("/look/")["interactions"] == ["DISPATCHED"] * 20)
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers)
    await producer.start()
    began = time.monotonic()
    await producer.send_and_wait(f"{name}-outputs", json.dumps({"sleep": SLEEP_S}).encode())
    await producer.stop()
    time.sleep(2)
    with answering(name, bootstrap_servers):
        assert len(await committed(bootstrap_servers, f"{name}-outputs", 21, timeout=SLEEP_S - 5)) == 21
    assert time.monotonic() - began < SLEEP_S
    running.until(lambda: len(running.get("/look/")["seen"]) == 21)
    assert_undisturbed(running)


async def test_an_agent_does_not_see_what_was_aborted(running, name, bootstrap_servers):
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id=name)
    await producer.start()
    for commits, text in ((False, "aborted"), (True, "committed")):
        await producer.begin_transaction()
        for partition in range(8):
            value = json.dumps({"text": text, "partition": partition}).encode()
            await producer.send_and_wait(f"{name}-outputs", value, partition=partition)
        await (producer.commit_transaction() if commits else producer.abort_transaction())
    await producer.stop()
    running.until(lambda: len(running.get("/look/")["seen"]) >= 8)
    assert [output["text"] for output in running.get("/look/")["seen"]] == ["committed"] * 8


def test_a_command_of_the_app(name, bootstrap_servers):
    words = [sys.executable, "-m", "faust", "-A", "tests.e2e.probe", "hello"]
    env = worker_environment(bootstrap_servers, {"PROBE_ID": name})
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert f"hello from {name}" in done.stdout, done.stderr


def test_a_worker_that_cannot_reach_its_broker_says_so(name, tmp_path):
    with FaustWorker("tests.e2e.probe", "127.0.0.1:1", tmp_path, env={"PROBE_ID": name}) as worker:
        assert worker.process.wait(60) != 0
        assert "no Kafka at 127.0.0.1:1" in worker.console()

"""`faust -A topologies.csv_payments worker` on Apache Kafka: files in, files and records out, by one worker or two."""

from __future__ import annotations

import shutil
import time
from collections import Counter

import pytest

from tests.e2e.faust_worker import FaustWorker, Payments, committed, provider
from tests.e2e.program import ROWS_1K, ROWS_12, assert_same_payments, rows_of
from topologies.csv_payments.provider import answer

pytestmark = pytest.mark.broker
APP = "topologies.csv_payments"


@pytest.fixture
def payments(tmp_path):
    return Payments(tmp_path / "project")


def worker(payments: Payments, broker: str, number: int = 0) -> FaustWorker:
    return FaustWorker(APP, broker, payments.folder.parent / f"worker-{number}", payments.folder)


async def test_a_thousand_payments_from_file_to_topic_and_file(payments, bootstrap_servers):
    shutil.copy(ROWS_1K, payments.inputs)
    output = payments.outputs / f"{ROWS_1K.name}.out"
    with worker(payments, bootstrap_servers) as running:
        running.until_ready()
        console = running.console()
        assert console.index("The engine is ready: 8 partitions here") < console.index("[^Worker]: Ready")
        with provider(bootstrap_servers, payments.topics, answer, reject=0.08, duplicates=0.02):
            running.until(output.exists)
            running.until(lambda: sum(running.get("/payments/")["outcomes"].values()) == 1_000)
            page = running.get("/payments/")
        assert page["outcomes"] == {"approved": 907, "unapproved": 93}
        assert [status for _, status in page["executions"]] == ["SUCCEEDED"]
        assert running.stop() < 10
    records = await committed(bootstrap_servers, f"{payments.name}-outputs", 1_000)
    assert Counter(record["arm"] for record in records) == {"approved": 907, "unapproved": 93}
    assert len({record["itemIndex"] for record in records}) == len(records) == 1_000
    assert_same_payments(ROWS_1K, output)
    assert Counter(row["Message"][:4] for row in rows_of(output)) == {"Mock": 1_000}


async def test_two_workers_and_one_file_make_one_execution(payments, bootstrap_servers):
    with worker(payments, bootstrap_servers) as one, worker(payments, bootstrap_servers, 1) as other:
        one.until_ready()
        other.until_ready()
        with provider(bootstrap_servers, payments.topics, answer):
            shutil.copy(ROWS_12, payments.inputs)
            records = await committed(bootstrap_servers, f"{payments.name}-outputs", 12)
            one.until(
                lambda: len(one.get("/payments/")["executions"]) + len(other.get("/payments/")["executions"]) == 1
            )
        assert len(records) == 12
        assert len({record["executionId"] for record in records}) == 1
        one.stop()
        other.stop()


async def test_a_worker_goes_on_where_another_was_killed(payments, bootstrap_servers):
    """Nothing of its local copy is left either: the rows come from the changelog, and only then the worker is ready."""
    shutil.copy(ROWS_12, payments.inputs)
    with worker(payments, bootstrap_servers) as killed:
        killed.until_ready()
        killed.until(lambda: killed.get("/payments/")["waiting"] == 12)
        killed.process.kill()
    began = time.monotonic()
    with worker(payments, bootstrap_servers, 1) as successor:
        successor.until_engine_ready()
        page = successor.get("/payments/")
        assert (page["waiting"], len(page["executions"])) == (12, 1), f"ready after {time.monotonic() - began:.0f} s"
        with provider(bootstrap_servers, payments.topics, answer):
            records = await committed(bootstrap_servers, f"{payments.name}-outputs", 12)
        assert len(records) == 12

"""Field cases O02, O12 and O15 with whole workers on Apache Kafka, which die of SIGKILL."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest

from tests.e2e.faust_worker import FaustWorker, Payments, committed
from tests.e2e.fleet import Fleet, provider_process
from tests.e2e.program import ROWS_12, assert_same_payments
from tests.field.pipelines import DATA
from tests.integration.logs import described

pytestmark = pytest.mark.broker

COUNTS_PAGE = """

@app.page("/counts/")
async def show_counts(view: View, request: Request) -> Response:
    return view.json(dict(app.monitor.metric_counts))
"""


@pytest.fixture
def payments(tmp_path):
    found = Payments(tmp_path / "project")
    worker = found.inputs.parent / "worker.py"
    worker.write_text(worker.read_text() + COUNTS_PAGE)
    return found


@pytest.fixture
def fleet(payments, bootstrap_servers):
    found = Fleet(payments, bootstrap_servers)
    yield found
    found.close()


def counted(worker: FaustWorker, what: str) -> int:
    return int(worker.get("/counts/").get(f"tpf.await.completion.{what}.total", 0))


def kill(fleet: Fleet, owner: FaustWorker) -> None:
    owner.process.kill()
    owner.process.wait()
    fleet.workers = {place: worker for place, worker in fleet.workers.items() if worker is not owner}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("key", ["none", "constant", "correlation"])
async def test_o12_answers_reach_their_execution_through_any_worker(fleet, key, bootstrap_servers, monkeypatch):
    """Right: two workers, topics of four partitions, the owner killed while answers are open: 40 rows, each once, and
    no answer is taken for unknown, whatever it is keyed by."""
    monkeypatch.setenv("TPF_TOPOLOGY_TOPIC_PARTITIONS", "4")
    source, outputs = DATA / "O12.payments.csv", f"{fleet.payments.name}-outputs"
    pair = [fleet.add(), fleet.add()]
    for worker in pair:
        worker.until_ready()
    topics = await described(bootstrap_servers, fleet.payments.topics)
    assert [topics[name].partitions for name in fleet.payments.topics] == [4, 4]
    with provider_process(fleet.payments, bootstrap_servers, "--key", key, "--permits-per-second", "4"):
        shutil.copy(source, fleet.payments.inputs)
        fleet.until(lambda: fleet.waiting() > 0, 40)
        early = await committed(bootstrap_servers, outputs, 5)
        (owner,) = (worker for worker in pair if worker.get("/payments/")["waiting"])
        fleet.until(lambda: counted(owner, "admitted") > 0, 20)
        assert [counted(worker, "dropped") for worker in pair] == [0, 0]
        kill(fleet, owner)
        assert len(early) < 40
        records = await committed(bootstrap_servers, outputs, 40)
        output = fleet.payments.outputs / f"{source.name}.out"
        fleet.until(output.exists, 40)
    assert Counter(it["payload"]["csvId"] for it in records) == Counter(str(number) for number in range(1, 41))
    assert_same_payments(source, output)
    (left,) = fleet.workers.values()
    fleet.until(lambda: counted(left, "admitted") > 0, 20)
    assert (fleet.waiting(), counted(left, "dropped")) == (0, 0)


@pytest.mark.timeout(180)
async def test_o02_fausts_offset_reset_is_not_that_of_answers(fleet, bootstrap_servers, monkeypatch):
    """Right: 12 of 12. The setting is for the app's own agents; answers given while no worker runs are read all the
    same."""
    monkeypatch.setenv("CONSUMER_AUTO_OFFSET_RESET", "latest")
    shutil.copy(ROWS_12, fleet.payments.inputs)
    worker = fleet.add()
    worker.until_engine_ready()
    worker.until(lambda: worker.get("/payments/")["waiting"] == 12)
    kill(fleet, worker)
    with provider_process(fleet.payments, bootstrap_servers):
        assert len(await committed(bootstrap_servers, fleet.payments.topics[1], 12)) == 12
    fleet.add().until_engine_ready()
    records = await committed(bootstrap_servers, f"{fleet.payments.name}-outputs", 12)
    assert Counter(it["type"] for it in records) == {"PaymentOutput": 12}

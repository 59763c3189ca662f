"""A worker ends within seconds of being told to, in the middle of its commits too, whatever the broker does."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest

from tests.e2e.faust_worker import FaustWorker
from tests.e2e.faust_worker import Payments as FaustPayments
from tests.e2e.fleet import APP, provider_process, write_files
from tests.e2e.program import ROWS_10K, environment, finish, result_of, started, wait_until
from tests.integration.applications import Payments
from tests.integration.clients import fresh
from tests.integration.logs import opened
from tpf_streams.errors import TaskLostError
from tpf_streams.logs.kafka import KafkaClient
from tpf_streams.logs.kafka.task import TaskProducer
from tpf_streams.ports import Turn

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]

END_S = 10.0
TURN = Turn([], {b"00row": b"value"})
TROUBLES = pytest.mark.parametrize("trouble", ["pause", "kill"])


@TROUBLES
def test_a_run_whose_broker_is_gone_ends_in_the_middle_of_its_commits(own_broker, tmp_path, trouble):
    """It took 66 s: the commits were waited for, and then one client after another (seen)."""
    payments = Payments(tmp_path, own_broker.bootstrap_servers)
    # A client that is left leaves its connections, and where warnings are errors uvloop's close never ends then.
    env = environment(PYTHONWARNINGS=None)
    words = payments.run_words(ROWS_10K, out=tmp_path / "out", data=tmp_path / "data")
    words += ["--simulate-provider", "reject=0.08"]
    with (
        (tmp_path / "run.log").open("w") as err,
        started(*words, env=env, err=err) as run,
    ):
        wait_until(payments.output_values, timeout=60, pause=0.2)
        getattr(own_broker, trouble)()
        run.send_signal(signal.SIGTERM)
        began_s = time.monotonic()
        found = finish(run, 90)
        assert time.monotonic() - began_s < END_S
    assert (found.returncode, result_of(found)["executions"]) == (143, {"RUNNING": 1})


@TROUBLES
def test_a_faust_worker_whose_broker_is_gone_ends_in_the_middle_of_its_commits(own_broker, tmp_path, trouble):
    broker, payments = own_broker.bootstrap_servers, FaustPayments(tmp_path)
    write_files(payments.inputs, 4, 5_000)
    with (
        FaustWorker(APP, broker, tmp_path / "worker", payments.folder) as worker,
        provider_process(payments, broker),
    ):
        worker.until_ready()
        worker.until(lambda: worker.get("/payments/")["waiting"])
        getattr(own_broker, trouble)()
        assert worker.stop() < END_S
    assert "settles what is under way" not in worker.console(), "the engine was left behind"


async def test_a_commit_that_nothing_will_answer_is_given_up_by_who_waits_for_it(own_broker, tmp_path):
    async with opened(own_broker.bootstrap_servers, fresh("app"), tmp_path) as log:
        task = await log.open_task(0)
        own_broker.pause()
        commit = asyncio.ensure_future(task.commit(TURN))
        task.hasten()
        with pytest.raises(TaskLostError, match="outcome of a commit is unknown"):
            await asyncio.wait_for(commit, END_S)
        own_broker.resume()


async def test_a_commit_that_lasts_is_not_given_up_while_the_cluster_answers(bootstrap_servers, tmp_path, monkeypatch):
    asked, released = asyncio.Semaphore(0), asyncio.Event()
    answers, transaction = KafkaClient.answers, TaskProducer.transaction

    async def counted(self, within_s):
        found = await answers(self, within_s)
        asked.release()
        return found

    async def slow(self, *given, **more):
        await released.wait()
        return await transaction(self, *given, **more)

    async with opened(bootstrap_servers, fresh("app"), tmp_path) as log:
        task = await log.open_task(0)
        monkeypatch.setattr(TaskProducer, "transaction", slow)
        monkeypatch.setattr(task, "_answers", lambda within_s: counted(log._client, within_s))
        commit = asyncio.ensure_future(task.commit(TURN))
        task.hasten()
        for _ in range(3):
            await asyncio.wait_for(asked.acquire(), END_S)
        assert not commit.done()
        released.set()
        await commit
        assert task.store.get(b"00row") == b"value"

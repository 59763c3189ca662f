"""How a worker ends: soon when it is told to, and loudly when its engine cannot go on."""

from __future__ import annotations

import time

import pytest

from tests.e2e.faust_worker import FaustWorker, fresh_id, provider

pytestmark = pytest.mark.broker


@pytest.fixture
def name():
    return fresh_id("probe")


@pytest.fixture
def running(name, bootstrap_servers, tmp_path):
    with FaustWorker("tests.e2e.probe", bootstrap_servers, tmp_path / "worker", env={"PROBE_ID": name}) as worker:
        yield worker


def test_a_step_that_sleeps_for_a_minute_does_not_hold_it(running, name, bootstrap_servers):
    running.until_ready()
    running.get("/sleeper/")
    with provider(bootstrap_servers, (f"{name}.requests", f"{name}.answers")):
        running.until(lambda: "sync step" in running.get("/look/")["threads"])
    assert running.stop() < 10


@pytest.mark.parametrize("reached", ["Subscribed to topic(s)", "Discovered coordinator 1 for transactional id"])
def test_it_may_be_stopped_before_it_is_ready(running, reached):
    running.until(lambda: reached in running.console())
    assert "[^Worker]: Ready" not in running.console()
    assert running.stop() < 10


def test_an_engine_that_cannot_go_on_takes_the_worker_with_it(running):
    running.until_ready()
    running.get("/break/")
    began = time.monotonic()
    assert running.process.wait(20) != 0
    assert time.monotonic() - began < 15
    assert "the disk is full" in running.console()

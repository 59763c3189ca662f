"""What topics tell of runs that are killed: the lifecycle topic and the outputs agree exactly, and replay shows both
while the run is under way and after."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiokafka import ConsumerRecord

from tests.e2e.program import (
    ROWS_1K,
    ROWS_12,
    Place,
    assert_same_payments,
    result_of,
    started,
    tpf,
    wait_until,
)
from tests.integration.applications import Payments
from tests.lifecycle import agree
from tpf_streams.logs.kafka.reader import input_record
from tpf_streams.ports import InputRecord


def read(records: Iterable[ConsumerRecord]) -> list[InputRecord]:
    return [input_record(record) for record in records]


def document_of(*words: str | Path) -> Any:
    found = tpf("replay", *words, "--json")
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


def live_until(payments: Payments, outputs: int, words: Sequence[str | Path]) -> None:
    """One life, killed with so many outputs and more to come."""
    with started(*words) as run:
        wait_until(lambda: run.poll() is not None or len(outputs_of(payments)) >= outputs, 90, 0.1)
        run.send_signal(signal.SIGKILL)
        assert run.wait(10) == -signal.SIGKILL


def test_replay_while_it_runs_and_after_it_was_killed(tmp_path):
    """By the owner's socket, and from the log itself when nobody owns it."""
    place = Place(tmp_path)
    with started(*place.words(ROWS_12, provider=None)) as run:

        def pending() -> bool:
            found = tpf("pending", "--data-dir", place.data, "--json")
            return found.returncode == 0 and result_of(found)["count"] == 12

        wait_until(pending, 30, 0.3)
        status = result_of(tpf("status", "--data-dir", place.data, "--json"))
        execution_id = status["executions"][0]["executionId"]
        running = document_of(execution_id, "--data-dir", place.data)
        run.send_signal(signal.SIGKILL)
        run.wait(10)
    dead = document_of(execution_id, "--data-dir", place.data)
    assert (running["status"], dead) == ("running", running)
    assert tpf(*place.words()).returncode == 0
    after = document_of(execution_id, "--data-dir", place.data)
    assert (after["status"], after["events"][: len(running["events"])]) == ("completed", running["events"])
    timeline = tpf("replay", execution_id, "--data-dir", place.data)
    assert timeline.stdout.count("success") == 1


@pytest.mark.broker
@pytest.mark.timeout(300)
def test_two_kills_on_kafka_and_the_topics_tell_one_story(tmp_path, bootstrap_servers):
    payments = Payments(tmp_path, bootstrap_servers)
    payments.settings["kafka.session-timeout"] = "PT6S"
    out, data = tmp_path / "out", tmp_path / "data"
    lifecycle = f"{payments.name}-lifecycle"
    with payments.provider(
        *("--reject", "0.08", "--delay-ms", "20", "--duplicates", "0.1", "--permits-per-second", "120"),
        log=tmp_path / "provider.log",
    ):
        for outputs in (150, 500):
            live_until(payments, outputs, payments.run_words(ROWS_1K, out=out, data=data))
        before = read(asyncio.run(payments._records(lifecycle)))
        halfway = agree(before, outputs_of(payments), ended=False)
        assert 500 <= halfway.outputs < 1_000
        words: list[str | Path] = ["--log", "kafka", "--pipeline", payments.pipeline, *payments.set_words]
        (execution_id,) = halfway.stories
        assert document_of(execution_id, *words)["status"] == "running"
        result = result_of(tpf(*payments.run_words(out=out, data=data), timeout=120))
    assert (result["items"], result["by_arm"]) == (1000, {"approved": 907, "unapproved": 93})
    assert_same_payments(ROWS_1K, out / "payments_1k.csv.out")
    records = read(asyncio.run(payments._records(lifecycle)))
    verdict = agree(records, outputs_of(payments))
    story = verdict.stories[execution_id]
    assert (verdict.outputs, story.end, len(story.closed)) == (1000, "success", 1000)
    assert [record.value for record in records[: len(before)]] == [record.value for record in before]
    document = document_of(execution_id, *words)
    events = document["events"]
    assert (document["status"], len(events)) == ("completed", verdict.events)
    assert Counter(event["event"] for event in events)["await_completion_admitted"] == 1000


def outputs_of(payments: Payments) -> list[InputRecord]:
    return read(asyncio.run(payments._records(payments.outputs)))


@pytest.mark.broker
def test_a_cluster_without_the_application_is_told(tmp_path, bootstrap_servers):
    payments = Payments(tmp_path, bootstrap_servers)
    words: list[str | Path] = ["--log", "kafka", "--pipeline", payments.pipeline, *payments.set_words]
    found = tpf("replay", "7b0c5f7a-4a3e-8d60-9a51-0f4f7f1a2b3c", *words)
    assert (found.returncode, f"there is no topic {payments.name}-lifecycle" in found.stderr) == (1, True), found.stderr

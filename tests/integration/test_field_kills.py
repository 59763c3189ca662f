"""Field case O15 on Apache Kafka: SIGKILL in mid-run, and while the rows come back from the broker."""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.faust_worker import provider
from tests.e2e.program import assert_same_payments, finish, result_of, start, started, tpf, wait_until
from tests.field.declining import declines_every_seventh, is_declined
from tests.field.pipelines import DATA
from tests.integration.applications import Payments
from tests.integration.clients import fresh
from tpf_streams.dsl.load import load_pipeline
from tpf_streams.runtime.kafka import open_kafka_client
from tpf_streams.testing.provider_options import ProviderOptions

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

SOURCE = DATA / "O15.payments.csv"
IDS = [str(number) for number in range(1, 601)]


@pytest.fixture
async def payments(tmp_path, bootstrap_servers):
    """With a window of 50, and with its topics made."""
    found = Payments(tmp_path, bootstrap_servers)
    found.settings |= {"pipeline.max-concurrency": "50", "kafka.session-timeout": "PT6S"}
    loaded = load_pipeline(found.pipeline, settings_overrides=found.settings, require_secret=False)
    await (await open_kafka_client(loaded)).close()
    return found


@contextmanager
def answering(payments: Payments, ids: range) -> Iterator[None]:
    """A provider of some of the payments, as slow as one that takes its time for each."""

    def answer(request: dict[str, Any], options: ProviderOptions) -> Any:
        mine = int(request["requestPayload"]["csvId"]) in ids
        return declines_every_seventh(request, options) if mine else None

    topics, group = (payments.requests, payments.responses), fresh("provider")
    with provider(payments.bootstrap, topics, answer, group=group, delay_ms=100, permits_per_second=100):
        yield


def live_until(payments: Payments, outputs: int, words: Sequence[str | Path]) -> None:
    """One life, killed with so many outputs and more to come."""
    with started(*words) as process:
        wait_until(lambda: len(payments.output_values()) >= outputs or process.poll() is not None, 60, 0.05)
        process.send_signal(signal.SIGKILL)
        assert process.wait(10) == -signal.SIGKILL
    assert len(payments.output_values()) < len(IDS)


def test_o15_three_kills_in_one_run_and_one_in_recovery(payments, tmp_path):
    """Right: 600 rows, each once, the unit terminal once, nothing pending. The fourth life finds no copy of the rows
    and dies with a part of them restored; the fifth one does with what the fourth has left."""
    out, data = tmp_path / "out", tmp_path / "data"
    words = payments.run_words(out=out, data=data)
    with answering(payments, range(1, 591)):  # the rest is open still when the third life is ended
        live_until(payments, 60, payments.run_words(SOURCE, out=out, data=data))
        live_until(payments, 300, words)
        live_until(payments, 570, words)
    shutil.rmtree(data)
    restoring = finish(start(*words, program=("tests.integration.dying", "while-restored")), 60)
    assert restoring.returncode == -signal.SIGKILL, restoring.stderr
    with answering(payments, range(591, 601)):
        result = result_of(tpf(*words, timeout=120))
    assert (result["items"], result["completed"], result["waiting"]) == (600, 600, 0)
    assert (result["executions"], result["continued"]) == ({"SUCCEEDED": 1}, 1)
    found = payments.output_values()
    assert Counter(it["payload"]["csvId"] for it in found) == Counter(IDS)
    assert {it["payload"]["csvId"] for it in found if it["arm"] == "unapproved"} == set(filter(is_declined, IDS))
    assert_same_payments(SOURCE, out / f"{SOURCE.name}.out")

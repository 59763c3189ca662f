"""Deadlines over a process that is killed, on the embedded log: what was overdue when it came back ends once, by the
deadline stored before, and answers that lay in the topic in time are admitted first."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import Place, result_of, started, tpf, wait_until
from tests.field.pipelines import DECISION, RESPONSES
from tests.lifecycle import agree
from tpf_streams.logs.local import LocalLog
from tpf_streams.ports import Record
from tpf_streams.runtime.control import ask
from tpf_streams.stores.rocksdb import RocksDbStateStore

ROWS, ANSWERED = 400, 300
TIMEOUT_S = 15
STEPS = "def finish(decision: dict):\n    return {'status': decision['status']}\n"


def opened(place: Place) -> LocalLog:
    return LocalLog.open(place.data, RocksDbStateStore, application_id="field-cases", partitions=8)


def answer(row: dict[str, Any]) -> Record:
    fields = {name: row[name] for name in ("tenantId", "interactionId", "correlationId", "resumeToken")}
    return Record(RESPONSES, None, json.dumps({**fields, "responsePayload": {"status": "APPROVED"}}).encode())


@pytest.mark.timeout(120)
def test_overdue_after_a_kill_and_answered_before_it(tmp_path):
    place = Place(tmp_path)
    text = DECISION.replace("PT1M", f"PT{TIMEOUT_S}S").replace(
        "input: Decision, output: Outcome", "service: steps:finish, input: Decision, output: Outcome"
    )
    pipeline, orders = tmp_path / "pipeline.yaml", tmp_path / "orders.jsonl"
    pipeline.write_text(text)
    (tmp_path / "steps.py").write_text(STEPS)
    orders.write_text("".join(f'{{"orderId": "o-{number}"}}\n' for number in range(ROWS)))
    words: list[str | Path] = ["run", pipeline, "--data-dir", place.data, "--json"]
    words += ["--set", "pipeline.max-concurrency=1024"]

    with started(*words, "--input", orders) as run:

        def pending() -> dict[str, Any] | None:
            arguments = {"limit": ROWS, "payload": True, "token": True}
            return ask(place.data, "pending", arguments) if place.data.exists() else None

        wait_until(lambda: (pending() or {}).get("count") == ROWS, 30, 0.2)
        found = pending()
        run.send_signal(signal.SIGKILL)
        run.wait(10)
    assert found is not None
    rows = found["interactions"]
    log = opened(place)
    asyncio.run(log.append([answer(row) for row in rows[:ANSWERED]]))
    asyncio.run(log.close())
    last_ms = max(row["deadlineEpochMs"] for row in rows)
    assert time.time() * 1000 < min(row["deadlineEpochMs"] for row in rows), "answered in time, on this machine too"
    time.sleep(max(0.0, last_ms / 1000 - time.time()) + 1)

    result = result_of(tpf(*words))
    assert result["executions"] == {"SUCCEEDED": ANSWERED, "FAILED": ROWS - ANSWERED}
    assert result["dropped"] == 0, "none was late"
    stored = {row["interactionId"]: row["deadlineEpochMs"] for row in rows}
    log = opened(place)
    try:
        topics = ("field-cases-lifecycle", "field-cases-outputs")
        verdict = agree(*(list(log.read(topic)) for topic in topics))
    finally:
        asyncio.run(log.close())
    ends = Counter(end for story in verdict.stories.values() for end in story.closed.values())
    assert ends == {"await_completion_admitted": ANSWERED, "await_interaction_timed_out": ROWS - ANSWERED}
    assert {name for story in verdict.stories.values() for name in story.closed} == set(stored)
    again = result_of(tpf(*words, "--input", orders))
    assert again["executions"] == result["executions"]

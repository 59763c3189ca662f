"""What fails on Kafka: retries by time, the dead letter, what operators let go on or end, and an owner that is stalled
meanwhile. Told by topics alone, and to who asks a worker."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.e2e.program import finish, result_of, started, wait_until
from tests.integration.applications import Decisions
from tests.lifecycle import Verdict, agree
from tpf_streams.engine.lifecycle import lifecycle_topic
from tpf_streams.errors import TpfError
from tpf_streams.logs.kafka.reader import input_record
from tpf_streams.runtime.control import ask

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]

STEPS = """
from pathlib import Path

MENDED = Path(__file__).with_name("mended")


def finish(decision: dict):
    if decision["status"] == "BROKEN" and not MENDED.exists():
        raise ConnectionError("the desk is down")
    return {"status": decision["status"]}
"""
RETRIES = {
    "kafka.session-timeout": "PT6S",
    "topology.partitions": "2",
    "pipeline.defaults.retry-limit": "1",
    "pipeline.defaults.retry-wait-ms": "50",
    "pipeline.orchestrator.max-retries": "1",
    "pipeline.orchestrator.retry-delay": "PT1S",
}


class Desk:
    """Orders of one application, and the worker that is asked about them."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.folder, self.worker = folder, folder / "data" / "0"
        self.application = Decisions(folder, bootstrap)
        self.application.settings |= RETRIES
        (folder / "steps.py").write_text(STEPS)

    def words(self, *orders: str, data: str = "data") -> list[str | Path]:
        files = [self.application.orders(*orders)] if orders else []
        return self.application.run_words(*files, out=self.folder / "out", data=self.folder / data)

    def asked(self, command: str, **arguments: Any) -> dict[str, Any]:
        answer = ask(self.worker, command, arguments)
        assert answer is not None, "no worker runs there"
        return answer

    def waiting(self, count: int) -> dict[str, dict[str, Any]]:
        """Open interactions by their order, once there are so many."""
        wait_until(lambda: self._waiting() == count, 90, 0.3)
        found = self.asked("pending", payload=True, token=True)["interactions"]
        return {it["requestPayload"]["orderId"]: it for it in found}

    def _waiting(self) -> int | None:
        """None: the worker is not there yet, or has not all partitions."""
        try:
            answer = ask(self.worker, "pending", {}) if self.worker.exists() else None
        except TpfError:
            return None
        return None if answer is None or answer.get("unseenPartitions") else int(answer["count"])

    def complete(self, row: dict[str, Any], status: str) -> str:
        payload = json.dumps({"status": status})
        words = {"interactionId": row["interactionId"], "resumeToken": row["resumeToken"], "payload": payload}
        return str(self.asked("complete", **words)["outcome"])

    def row(self, execution_id: str) -> dict[str, Any]:
        return self.asked("status", executionId=execution_id)

    def until(self, execution_id: str, status: str) -> dict[str, Any]:
        wait_until(lambda: self.row(execution_id)["status"] == status, 60, 0.2)
        return self.row(execution_id)

    def letters(self) -> list[tuple[str, dict[str, Any]]]:
        records = asyncio.run(self.application._records(self.application.dead_letters))
        return [(dict(it.headers)["tpf-reason"].decode(), orjson.loads(it.value)) for it in records]

    def verdict(self) -> Verdict:
        """Lifecycle and outputs held against each other."""
        topics = lifecycle_topic(self.application.name), self.application.outputs
        lifecycle, outputs = (asyncio.run(self.application._records(topic)) for topic in topics)
        return agree(map(input_record, lifecycle), map(input_record, outputs))

    def statuses(self) -> list[str]:
        return sorted(value["payload"]["status"] for value in self.application.output_values())


@pytest.fixture
def desk(tmp_path, bootstrap_servers):
    return Desk(tmp_path, bootstrap_servers)


def test_a_step_fails_for_good_and_goes_on_when_it_is_mended(desk):
    """T90, T91, T94: a retry waits its time, the dead letter says why, a redrive uses the answer that is there."""
    with started(*desk.words("good", "bad", "slow")) as run:
        rows = desk.waiting(3)
        bad, slow = rows["bad"]["executionId"], rows["slow"]["executionId"]
        assert [desk.complete(rows["good"], "APPROVED"), desk.complete(rows["bad"], "BROKEN")] == ["admitted"] * 2
        waits = desk.until(bad, "WAIT_RETRY")
        assert (waits["errorCode"], waits["attempt"]) == ("ConnectionError", 1)
        failed = desk.until(bad, "FAILED")
        assert (failed["errorCode"], failed["errorMessage"]) == ("ConnectionError", "the desk is down")
        ((reason, letter),) = desk.letters()
        assert (reason, letter["executionId"], letter["retriesObserved"]) == ("retry_exhausted", bad, 1)
        assert letter["errorDetail"].startswith("Traceback") and letter["transitionKey"] == f"{bad}:1:1"

        stale = desk.asked("redrive", executionId=bad, expectedVersion=failed["version"] - 1)
        (desk.folder / "mended").touch()
        mended = desk.asked("redrive", executionId=bad, expectedVersion=failed["version"], reason="mended")
        assert [stale["outcome"], mended["outcome"]] == ["version_mismatch", "redriven"]
        assert desk.until(bad, "SUCCEEDED")["attempt"] == 2
        cancelled = desk.asked("cancel", id=slow, reason="closed today")
        assert cancelled == {"kind": "execution", "outcome": "cancelled"}
        found = finish(run, 60)
    assert (found.returncode, result_of(found)["executions"]) == (1, {"SUCCEEDED": 2, "FAILED": 1})
    assert desk.statuses() == ["APPROVED", "BROKEN"]
    assert len(desk.application.request_values()) == 3, "nothing was asked for again"
    verdict = desk.verdict()
    assert [verdict.stories[it].end for it in (rows["good"]["executionId"], bad, slow)] == [
        "success",
        "success",
        "cancelled",
    ]
    assert len(desk.letters()) == 1, "a cancellation has none"


def test_a_redrive_while_the_old_process_is_stalled(desk):
    """The old owner is stopped in the middle of it all; the new one has the partitions, and is asked to redrive. Woken
    up, the old one may do nothing more: whatever it held belongs to a generation that is over."""
    with ExitStack() as stack:
        old = stack.enter_context(started(*desk.words("bad", "other")))
        row = desk.waiting(2)["bad"]
        execution_id = row["executionId"]
        old.send_signal(signal.SIGSTOP)
        desk.worker = desk.folder / "successor" / "0"
        new = stack.enter_context(started(*desk.words(data="successor")))
        assert desk.waiting(2)["bad"]["interactionId"] == row["interactionId"]
        assert desk.asked("cancel", id=row["interactionId"], reason="asked wrongly")["outcome"] == "cancelled"
        assert desk.until(execution_id, "FAILED")["errorCode"] == "AWAIT_CANCELLED"
        assert desk.asked("redrive", executionId=execution_id)["outcome"] == "redriven"
        rows = desk.waiting(2)
        assert rows["bad"]["interactionId"] != row["interactionId"]
        old.send_signal(signal.SIGCONT)
        outcomes = [desk.complete(rows[name], "APPROVED") for name in ("bad", "other")]
        ended = [finish(process, 90) for process in (new, old)]
    assert outcomes == ["admitted", "admitted"]
    assert [it.returncode for it in ended] == [0, 0], [it.stderr for it in ended]
    assert desk.statuses() == ["APPROVED", "APPROVED"]
    assert desk.verdict().stories[execution_id].end == "success"
    asked = [it for it in desk.application.request_values() if it["executionId"] == execution_id]
    keys = {it["transportMetadata"]["idempotencyKey"] for it in asked}
    assert (len(asked), len(keys)) == (2, 1)

"""Field cases O07, O08 and O13: what leaves, what is known to have left, and what is owed again after a crash."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.field.adapters import PushedTransport
from tests.field.pipelines import DATA, DECISION, PUSHED, RESPONSES, STREAM, Steps, open_driver
from tests.field.sequences import Player, completion
from tpf_streams.errors import LogError
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.ports import Record, TopicPartition, Turn
from tpf_streams.testing import ManualClock, TopologyTestDriver

EVENTS = "field-cases-events"


def memory_log(clock: ManualClock, **options: Any) -> MemoryLog:
    return MemoryLog(application_id="field-cases", partitions=1, clock=clock, **options)


class TwoWorkers(Player):
    """Two workers of one application; the partition is fenced at the commit, so both may decide the same event."""

    def __init__(self, workers: Mapping[str, TopologyTestDriver], case: str) -> None:
        super().__init__(workers["w1"], case)
        self.workers = workers
        self.payload = {"orderId": "o-7"}

    def create_interaction(self, event: Mapping[str, Any]) -> None:
        """Asked for, and nobody has decided it yet; the second time, the step runs again."""
        submit = self.driver.application.submit(self.payload, key="o-7", tenant=self.tenant)
        self.executions["ex-7"] = asyncio.run(submit)

    def claim_dispatch(self, event: Mapping[str, Any]) -> None:
        self.workers[event["worker"]].run()

    def dispatch_ok(self, event: Mapping[str, Any]) -> None:
        assert len(self.driver.requests()) == 1


@pytest.mark.parametrize("fence_at_commit_only", [True, False])
def test_o07_two_workers_and_one_request(tmp_path, fence_at_commit_only):
    """Section 0 wins: a claim is the ownership of a partition (0.12); of two workers that decide the same event one
    commit holds. Right: one request leaves, a late claim gets nothing, the step run again finds its row."""
    clock = ManualClock()
    log = memory_log(clock, fence_at_commit_only=fence_at_commit_only)
    with (
        open_driver(tmp_path, DECISION, log=log, clock=clock) as first,
        open_driver(tmp_path, DECISION, log=log, clock=clock) as second,
    ):
        workers = {"w1": first, "w2": second}
        player = TwoWorkers(workers, "O07").play()
        for driver in (first, second, first):
            driver.run()
        (request,) = first.requests()
        assert len(first.requests()) == player.expect["sends"]
        assert len(first.executions()) == player.expect["rows"]
        assert first.interaction(request["interactionId"]).status == player.expect["interaction"]
        for name, count in player.expect["metrics"].items():
            assert sum(it.metric(name) for it in workers.values()) == count
        assert sum(it.metric("execution.duplicate.total") for it in workers.values()) == 1


def test_o08_a_request_that_joins_its_turn_is_not_sent_again(tmp_path):
    """A crash right after the commit: request and row are one turn, so there is nothing between them to lose, and no
    re-send (which the case takes as a pass too). Both answers land on the one interaction."""
    steps = Steps()
    with open_driver(tmp_path, DECISION.replace("PT1M", "PT5M"), steps) as driver:
        asyncio.run(driver.application.submit({"orderId": "o-8"}, key="o-8"))
        asyncio.run(next(driver.tasks()).turn())
        driver.stop()
        driver.clock.advance(90_000)
        driver.start()
        answer_twice(driver, driver.requests(), steps)


def test_o08_a_request_sent_again_is_the_same_bytes(tmp_path, monkeypatch):
    """Outside the log the process dies between the send and its record. Right: at most one more request, the same
    bytes under a later clock; one resume, the second answer is a duplicate."""
    queue, steps = PushedTransport.stand_in(monkeypatch, "sqs"), Steps()
    with open_driver(tmp_path, PUSHED.replace("PT1M", "PT5M"), steps) as driver:
        queue.hangs = True
        execution_id = driver.submit({"orderId": "o-8"})
        assert len(queue.sent) == 1
        driver.stop()
        queue.hangs = False
        driver.clock.advance(90_000)
        driver.start()
        assert driver.execution(execution_id).status == "WAITING_EXTERNAL"
        assert len(queue.sent) == 2
        assert len(set(queue.sent)) == 1
        answer_twice(driver, queue.requests, steps)


def answer_twice(driver: TopologyTestDriver, requests: list[dict[str, Any]], steps: Steps) -> None:
    expect = json.loads((DATA / "O08.expect.json").read_text("utf-8"))
    assert 1 <= len(requests) <= expect["max_requests"]
    first, last = requests[0], requests[-1]
    assert [first[name] for name in expect["equal_fields"]] == [last[name] for name in expect["equal_fields"]]
    assert driver.answer(first, {"status": "APPROVED"}) == "admitted"
    assert driver.answer(last, {"status": "APPROVED"}) == expect["second_answer"]
    assert len(steps.finished) == expect["resumes"]


class SlowHandlers(Player):
    """The messages are answers to five items, the handlers the continuations behind them."""

    def __init__(self, driver: TopologyTestDriver, case: str, gates: list[asyncio.Event]) -> None:
        super().__init__(driver, case)
        self.gates = gates
        self.first = self.case["given"]["messages"][0]
        driver.submit({"count": str(len(gates))})
        self.items = driver.requests()

    def read(self, event: Mapping[str, Any]) -> None:
        for offset in event["offsets"]:
            answer = completion(self.items[offset - self.first], {"status": str(offset)})
            self.driver.send(RESPONSES, answer)

    def done(self, event: Mapping[str, Any]) -> None:
        self.gates[event["offset"] - self.first].set()
        self.driver.run()

    def commit_tick(self, event: Mapping[str, Any]) -> None:
        """Every turn commits."""

    def SIGKILL(self, event: Mapping[str, Any]) -> None:  # noqa: N802 - the case's word
        self.driver.stop()

    def restart(self, event: Mapping[str, Any]) -> None:
        self.driver.start()


def test_o13_unfinished_work_is_owed_again_and_finished_work_is_not(tmp_path):
    """Section 0 wins: a record is finished when its decision is committed (CASES.md), so the position may pass 101;
    what its decision owes is a row. Right: after the kill the slow one comes again, and no effect happens twice."""
    gates = [asyncio.Event() for _ in range(5)]
    begun: list[int] = []

    async def finish(decision: dict[str, Any]) -> dict[str, Any]:
        place = int(decision["status"]) - 100
        begun.append(place)
        await gates[place].wait()
        return decision

    with open_driver(tmp_path, STREAM, functions={"Finish": finish}) as driver:
        player = SlowHandlers(driver, "O13", gates).play(8)
        assert finished(driver) == [102, 100, 104]
        gates[3].set()
        player.play()
        assert begun[5:] == [1, 3]
        assert finished(driver) == [102, 100, 104, 103]
        gates[1].set()
        driver.run()
        assert sorted(finished(driver)) == player.case["given"]["messages"]
        assert driver.metric("completion.duplicate.total") == 0
        assert [it.status for it in driver.executions()] == ["SUCCEEDED"]


def finished(driver: TopologyTestDriver) -> list[int]:
    return [int(it["payload"]["status"]) for it in driver.outputs()]


class LostCommits:
    """Every third commit does not hold. Looks on at what is committed while one is under way."""

    def __init__(self) -> None:
        self.log: MemoryLog | None = None
        self.commits = self.lost = 0
        self.decided: dict[str, int] = {}

    def before(self, partition: int, turn: Turn) -> None:
        assert self.log is not None
        place = TopicPartition(EVENTS, 0)
        committed = self.log.task_positions(0).get(place, 0)
        assert committed == self.decided.get("position", 0)
        self.commits += 1
        if self.commits % 3 == 0:
            self.lost += 1
            raise LogError("lost on purpose")
        self.decided["position"] = max(committed, turn.positions.get(place, 0))

    def after(self, partition: int, turn: Turn) -> None:
        """It holds."""


def test_o13_the_position_never_passes_an_undecided_record(tmp_path):
    """Right: where a decision is lost, the position stays before its record, which is decided again."""
    faults, clock, steps = LostCommits(), ManualClock(), Steps()
    log = faults.log = memory_log(clock, faults=faults)
    with open_driver(tmp_path, STREAM, steps, log=log, clock=clock) as driver:
        driver.submit({"count": "20"})
        answers = [completion(it, {"status": "APPROVED"}) for it in driver.requests()]
        asyncio.run(log.append([Record(RESPONSES, None, answer) for answer in answers[:7]]))
        driver.run()
        for answer in answers[7:]:
            driver.send(RESPONSES, answer)
        assert faults.lost > 5
        assert len(driver.outputs()) == 20
        assert sorted(it["itemIndex"] for it in driver.outputs()) == list(range(20))
        assert [it.status for it in driver.executions()] == ["SUCCEEDED"]

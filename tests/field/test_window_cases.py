"""Field cases O16 and O17: the window of a stream, whatever becomes of its items and whoever asks for them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.field.adapters import PushedTransport
from tests.field.pipelines import MINUTE_MS, POLLED, PUSHED_STREAM, REJECT, STREAM, Steps, open_driver
from tests.field.sequences import Player, completion
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.testing import TopologyTestDriver

WINDOW = 4
AWAIT = 1
"""Index of the await step."""
TOO_LARGE = 1
"""The item that cannot be created: its request is larger than a payload may be."""
SMALL = {"pipeline.max-concurrency": str(WINDOW), "pipeline.max-payload-bytes": "1024"}
APPROVED = {"status": "APPROVED"}
NO_RETRY = {"pipeline.defaults.retry-limit": "0"}


class OneTooLarge(Steps):
    def split(self, batch: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for index in range(int(batch["count"])):
            yield {"orderId": f"o-{index}" + "-" * 2000 * (index == TOO_LARGE)}


class Failing(Player):
    """O16. Items of one batch have one deadline: the time-out of item 2 is played last, and the others of its batch are
    answered before it."""

    def __init__(self, driver: TopologyTestDriver, queue: PushedTransport) -> None:
        super().__init__(driver, "O16")
        self.queue = queue
        self._left.sort(key=lambda event: event["op"] == "timeout_item")
        self.queue.fails = lambda interaction: interaction.item_index == 0
        self.in_flight: list[int] = []

    def start_execution(self, event: Mapping[str, Any]) -> None:
        super().start_execution(event)
        self.look()

    def downstream_demand(self, event: Mapping[str, Any]) -> None:
        self.driver.request(math.inf)

    def dispatch_fails(self, event: Mapping[str, Any]) -> None:
        assert self.reject_of(event).startswith("DISPATCH_FAILED")

    def create_fails(self, event: Mapping[str, Any]) -> None:
        assert event["index"] == TOO_LARGE
        assert self.reject_of(event).startswith("PAYLOAD_TOO_LARGE")

    def timeout_item(self, event: Mapping[str, Any]) -> None:
        batch = [it for it in self.driver.pending() if it.created_at_epoch_ms == self._began_ms]
        self.answer_all([it for it in batch if it.item_index != event["index"]])
        self._advance_to(MINUTE_MS + 1)
        assert self.reject_of(event).startswith("AWAIT_TIMEOUT")
        self.look()

    def deliver_undecodable_for(self, event: Mapping[str, Any]) -> None:
        assert self.driver.answer(self.request(event), {"nothing": "of a decision"}) == "invalid_payload"
        self.look()

    def deliver_completion_for(self, event: Mapping[str, Any]) -> None:
        assert self.driver.answer(self.request(event), APPROVED) == "admitted"
        self.look()

    def deliver_completion_twice_for(self, event: Mapping[str, Any]) -> None:
        answer = completion(self.request(event), APPROVED)
        assert self.driver.complete_all([answer, answer]) == ["admitted", "duplicate"]
        self.look()

    def look(self) -> None:
        session = self.driver.session(self.execution_id)
        assert session is not None
        self.in_flight.append(session.in_flight)
        assert self.driver.application.environment.budgets.held(AWAIT) == session.in_flight

    def answer_all(self, interactions: list[InteractionRecord]) -> bool:
        for it in interactions:
            assert self.driver.answer(self.queue.request_of(it), APPROVED) == "admitted"
            if self.driver.session(self.execution_id) is not None:
                self.look()
        return bool(interactions)

    def request(self, event: Mapping[str, Any]) -> dict[str, Any]:
        order = f"o-{event['index']}"
        return next(it for it in self.queue.requests if it["requestPayload"]["orderId"] == order)

    def reject_of(self, event: Mapping[str, Any]) -> str:
        return next(it.reason for it in self.driver.rejects(self.execution_id) if it.item_index == event["index"])


def test_o16_every_slot_comes_back_once(tmp_path, monkeypatch):
    """Right: whatever ends an item, one more is dispatched; in flight is never above four, and four again after all."""
    queue = PushedTransport.stand_in(monkeypatch, "sqs")
    settings = {**SMALL, **NO_RETRY, **POLLED, **REJECT}
    with open_driver(tmp_path, PUSHED_STREAM, OneTooLarge(), settings=settings) as driver:
        player = Failing(driver, queue).play()
        assert max(player.in_flight) == player.in_flight[-1] == WINDOW
        while player.answer_all(driver.pending()):
            assert max(player.in_flight) == WINDOW
        execution, unit = driver.execution(player.execution_id), driver.unit(player.execution_id, AWAIT)
        assert unit is not None and execution.summary is not None
        assert (execution.status, execution.summary.outputs, execution.summary.rejected_items) == ("SUCCEEDED", 9, 3)
        assert (unit.status, unit.completed_item_count, unit.rejected_item_count) == ("COMPLETED", 9, 3)
        assert driver.application.environment.budgets.held(AWAIT) == 0
        assert driver.metric("unit.terminal.total") == 1


@pytest.mark.parametrize("cause", ["dispatch", "create", "timeout"])
def test_o16_a_policy_that_fails_the_unit(tmp_path, monkeypatch, cause):
    """Right: FAILED once, no row stays pending, all four slots are free."""
    queue = PushedTransport.stand_in(monkeypatch, "sqs")
    queue.fails = lambda interaction: cause == "dispatch" and interaction.item_index == 2
    steps = OneTooLarge() if cause == "create" else Steps()
    with open_driver(tmp_path, PUSHED_STREAM, steps, settings={**SMALL, **NO_RETRY, **POLLED}) as driver:
        execution_id = driver.submit({"count": "12"})
        if cause == "timeout":
            driver.advance(MINUTE_MS + 1)
        for interaction in driver.pending():
            driver.answer(queue.request_of(interaction), APPROVED)
        execution, unit = driver.execution(execution_id), driver.unit(execution_id, AWAIT)
        assert unit is not None
        codes = {"dispatch": "DISPATCH_FAILED", "create": "PAYLOAD_TOO_LARGE", "timeout": "AWAIT_TIMEOUT"}
        assert (execution.status, execution.error_code) == ("FAILED", codes[cause])
        assert unit.status.terminal
        assert driver.metric("execution.terminal.total") == driver.metric("unit.terminal.total") == 1
        assert driver.pending() == []
        assert driver.application.environment.budgets.held(AWAIT) == 0


class WatchedSource(Steps):
    """Knows how far the source is read ahead of what was given out."""

    driver: TopologyTestDriver
    ahead = 0

    def split(self, batch: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for item in super().split(batch):
            self.ahead = max(self.ahead, self.read - len(self.driver.outputs()))
            yield item


class Burst(Player):
    """O17."""

    answered = 0

    def downstream_demand(self, event: Mapping[str, Any]) -> None:
        if event["n"] == 0:
            self.driver.hold_demand()
            return
        self.driver.request(math.inf if event["n"] == "unbounded" else event["n"])
        while "then" in event and self.burst():
            pass

    def deliver_burst(self, event: Mapping[str, Any]) -> None:
        self.burst(2 if "twice" in event["indexes"] else 1)

    def burst(self, times: int = 1) -> int:
        """Answer every request not answered yet, all at once."""
        fresh = self.driver.requests()[self.answered :]
        self.answered += len(fresh)
        self.replies += self.driver.complete_all([completion(it, APPROVED) for it in fresh for _ in range(times)])
        return len(fresh)


def test_o17_answers_wait_for_demand(tmp_path):
    """Right: answers are recorded at once and given out on demand, none is dropped, and the source is read at most
    window + 1 ahead (0.17)."""
    steps = WatchedSource()
    settings = {"pipeline.max-concurrency": "8"}
    with open_driver(tmp_path, STREAM, steps, settings=settings) as driver:
        steps.driver = driver
        player = Burst(driver, "O17").play(3)
        expect = player.expect
        assert player.replies == ["admitted", "duplicate"] * expect["after_2"]["recorded"]
        session = driver.session(player.execution_id)
        assert session is not None and session.completed == {"1": expect["after_2"]["recorded"]}
        assert (len(driver.requests()), len(driver.outputs())) == (expect["after_2"]["dispatched_max"], 0)

        player.play(1)
        assert len(driver.outputs()) == expect["after_3"]["emitted"]
        player.play()
        assert len(driver.outputs()) == expect["end"]["emitted"]
        assert len({it["itemIndex"] for it in driver.outputs()}) == expect["end"]["distinct"]
        assert 8 <= steps.ahead <= expect["source_read_ahead_max"]
        assert driver.execution(player.execution_id).status == "SUCCEEDED"


def test_o17_without_demand_a_crash_gives_nothing_out(tmp_path):
    """Answers that wait for demand are owed rows: after a crash they wait again, and each is given out once."""
    with open_driver(tmp_path, STREAM, settings={"pipeline.max-concurrency": "8"}) as driver:
        player = Burst(driver, "O17").play(3)
        driver.crash()
        assert driver.outputs() == []
        driver.request(3)
        assert len(driver.outputs()) == 3
        player.downstream_demand({"n": "unbounded", "then": "answer everything"})
        assert sorted(it["itemIndex"] for it in driver.outputs()) == list(range(50))


def test_o17_sequential(tmp_path):
    """Right: a window of one, and source order kept."""
    settings = {"pipeline.max-concurrency": "8", "pipeline.parallelism": "SEQUENTIAL"}
    with open_driver(tmp_path, STREAM, settings=settings) as driver:
        player = Burst(driver, "O17").play(2)
        expect = player.expect["with_order_SEQUENTIAL"]
        for done in range(50):
            assert len(driver.requests()) - done == expect["window"]
            if done == 0:
                driver.request(math.inf)
            assert player.burst() == 1
        order = [it["itemIndex"] for it in driver.outputs()]
        assert order == sorted(order) == list(range(50))

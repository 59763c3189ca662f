"""Field cases O18 and O23: answers that race a deadline, and answers that race each other."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.field.pipelines import DECISION, INBOX, RESPONSES, Steps, open_driver
from tests.field.sequences import Player
from tpf_streams.ports import Record
from tpf_streams.testing import TopologyTestDriver


class SweepAndAnswer(Player):
    """The case's deadline is 60,001: the interaction is made at 1."""

    def start_execution(self, event: Mapping[str, Any]) -> None:
        self._start = event

    def create_interaction(self, event: Mapping[str, Any]) -> None:
        super().start_execution(self._start)
        super().create_interaction(event)

    def sweep_reads_row(self, event: Mapping[str, Any]) -> None:
        """A decision reads and writes in one turn: no sweep can have read what it will write later."""

    def sweep_writes_timeout(self, event: Mapping[str, Any]) -> None:
        """Time has passed the deadline, and the sweep has run."""


def test_o18_an_answer_before_the_deadline_wins(tmp_path):
    """Right: the completion wins, the sweep behind it finds nothing to do."""
    steps = Steps()
    with open_driver(tmp_path, DECISION, steps) as driver:
        player = SweepAndAnswer(driver, "O18").play()
        interaction = driver.interaction(player.names.requests["int-18"]["interactionId"])
        began = player.names.requests["int-18"]["deadlineEpochMs"] - 60_001
        assert driver.clock.now_ms() - began == 60_002
        assert player.replies == ["admitted"]
        assert interaction.status == player.expect["end"]["interaction"]
        assert driver.execution(player.execution_id).status == "SUCCEEDED"
        assert steps.finished == [{"status": "APPROVED"}]
        assert driver.pending() == []


@pytest.mark.parametrize(("arrives_at", "outcome"), [(60_000, "terminal"), (60_002, "late")])
def test_o18_a_timeout_before_the_answer_wins(tmp_path, arrives_at, outcome):
    """The mirror: the sweep has decided when the answer is read. It is dropped and counted: `terminal` when it lay in
    the topic in time, `late` when it did not (0.4). The execution fails once."""
    steps = Steps()
    with open_driver(tmp_path, DECISION, steps) as driver:
        player = SweepAndAnswer(driver, "O18").play(3)
        answer = json.dumps(player.envelope(player.case["events"][4])).encode()
        driver.clock.advance(arrives_at - 2)
        asyncio.run(driver.log.append([Record(RESPONSES, None, answer)]))
        driver.clock.advance(60_002 - arrives_at)
        driver.run()
        execution = driver.execution(player.execution_id)
        assert (execution.status, execution.error_code) == ("FAILED", "AWAIT_TIMEOUT")
        assert driver.interaction(player.names.requests["int-18"]["interactionId"]).status == "TIMED_OUT"
        assert driver.tally.dropped == {outcome: 1}
        assert (driver.metric("execution.terminal.total"), driver.metric("unit.terminal.total")) == (1, 1)
        assert steps.finished == []


class ManagersInbox(Player):
    """Completions of one moment are handed in together, in the order given."""

    order: tuple[int, ...] = (0, 1, 2)

    def __init__(self, driver: TopologyTestDriver, case: str) -> None:
        super().__init__(driver, case)
        self.clicks: list[dict[str, Any]] = []

    def open_requests(self) -> list[dict[str, Any]]:
        return [
            {
                "tenantId": it.tenant_id,
                "executionId": it.execution_id,
                "interactionId": it.interaction_id,
                "correlationId": it.correlation_id,
            }
            for it in self.driver.pending()
        ]

    def http_complete(self, event: Mapping[str, Any]) -> None:
        ids = self.names.requests["int-23"]
        fields = {name: ids[name] for name in ("tenantId", "interactionId")}
        self.clicks.append({**fields, "responsePayload": event["body"], "actor": event["actor"]})

    def list_pending(self, event: Mapping[str, Any]) -> None:
        self.replies = self.driver.complete_all([self.clicks[place] for place in self.order])


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_o23_near_simultaneous_decisions(tmp_path, order):
    """Right: one decision, one resume, one admission; the same click again is a duplicate, the other decision a
    conflict, and the row says who decided what; the item leaves the list at once. (HTTP part: with the API.)"""
    steps = Steps()
    with open_driver(tmp_path, INBOX, steps) as driver:
        player = ManagersInbox(driver, "O23")
        player.order = order
        player.play()
        first = player.clicks[order[0]]
        expected = {click: "duplicate" if player.clicks[click] == first else "conflict" for click in order[1:]}
        assert player.replies == ["admitted", *(expected[click] for click in order[1:])]
        decided = driver.interaction(first["interactionId"])
        assert (decided.actor, decided.response_payload) == (first["actor"], first["responsePayload"])
        assert decided.group == "duty-managers"
        assert driver.metric("completion.admitted.total") == player.expect["audit_entries"]
        assert driver.metric("resume.released.total") == player.expect["resumes"] == len(steps.finished)
        assert driver.pending() == player.expect["list_pending"]

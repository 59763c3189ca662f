"""Field cases O01 and O03 to O06: one answer, one outcome, one resume, in whatever order things happen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from tests.field.pipelines import DATA, DECISION, RESPONSES, STREAM, TWO_AWAITS, Steps, open_driver
from tests.field.sequences import Player, deliver, foreseen
from tpf_streams.core.events import SegmentCompleted
from tpf_streams.core.execution import OwedKind, OwedRecord
from tpf_streams.ports import TopicPartition

STREAM_STEP = "Await Provider"


def assert_metrics(player: Player) -> None:
    """The counters that the case names have the values it names."""
    expected = player.expect["metrics"]
    assert {name: player.driver.metric(name) for name in expected} == expected


class AnswerBeforeTheRow(Player):
    """A provider that reads uncommitted answers a request whose turn does not hold yet: all of it comes later."""

    def start_execution(self, event: Mapping[str, Any]) -> None:
        self.payload = {"orderId": event["execution"]}

    def create_interaction(self, event: Mapping[str, Any]) -> None:
        self.names.requests[event["interaction"]] = foreseen(self.driver, self.payload, self.tenant)

    def dispatch_ok(self, event: Mapping[str, Any]) -> None:
        assert self.driver.requests() == []

    def mark_dispatch_complete(self, event: Mapping[str, Any]) -> None:
        assert self.driver.executions() == []

    def park(self, event: Mapping[str, Any]) -> None:
        """The turn that creates, dispatches and parks holds now."""
        self.executions[event["execution"]] = self.driver.submit(self.payload, tenant=self.tenant)


def test_o01_an_answer_before_its_row_is_held_and_resumes_once(tmp_path):
    """Section 0 wins: creating, dispatching and parking are one turn, so nothing comes between them; what the case
    describes is an answer before its row (0.11). It is held, decided with the row, and resumes exactly once."""
    steps = Steps()
    with open_driver(tmp_path, DECISION, steps) as driver:
        player = AnswerBeforeTheRow(driver, "O01").play(4)
        assert player.replies == ["held"]
        assert driver.outputs() == []
        player.play()
        assert driver.execution(player.execution_id).status == "SUCCEEDED"
        assert steps.finished == [player.expect["end"]["resume_payload"]]
        assert driver.requests()[0]["interactionId"] == player.names.requests["int-1"]["interactionId"]
        assert_metrics(player)
        assert driver.submit(player.payload, tenant=player.tenant) == player.execution_id
        assert len(driver.outputs()) == 1


class GatedSource(Steps):
    """A source that has given its items and does not say yet that they were all."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def gated(self, batch: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        for item in self.split(batch):
            yield item
        await self.gate.wait()


class OnTheDurablePath(Player):
    """The same on a stream whose live session has been cancelled: here the gates are separate turns."""

    gate: asyncio.Event | None = None

    def start_execution(self, event: Mapping[str, Any]) -> None:
        super().start_execution(event)
        self.driver.cancel_session(self.execution_id)

    def mark_dispatch_complete(self, event: Mapping[str, Any]) -> None:
        if self.gate is not None:
            self.gate.set()
            self.driver.run()
        super().mark_dispatch_complete(event)

    def park(self, event: Mapping[str, Any]) -> None:
        """The turn that ended the source has parked the execution, and released what was held."""


def test_o01_an_answer_before_the_park_is_released_by_it(tmp_path):
    """Right: recorded and held; the turn that parks notices the finished unit and releases one resume; a repeated
    release is a no-op."""
    steps = GatedSource()
    functions = {"Split": steps.gated}
    settings = {"pipeline.max-concurrency": "1"}
    with open_driver(tmp_path, STREAM, steps, functions=functions, settings=settings) as driver:
        player = OnTheDurablePath(driver, "O01")
        player.case["given"]["items"] = 1
        player.gate = steps.gate
        player.play(4)
        interaction_id = player.names.requests["int-1"]["interactionId"]
        assert driver.interaction(interaction_id).status == player.expect["after_event_3"]["interaction"]
        assert steps.finished == []
        player.play()
        assert steps.finished == [player.expect["end"]["resume_payload"]]
        assert_metrics(player)
        player.release_resume({"unit": "u-1"})
        player.release_resume({"unit": "u-1"})
        assert len(driver.outputs()) == 1
        assert_metrics(player)


@pytest.mark.parametrize("played", [Player, OnTheDurablePath], ids=["live", "durable"])
def test_o03_a_redelivered_answer_counts_once(tmp_path, played):
    """Right: the unit stays open with 2 of 3; item a has one output; c's answer closes it once. Section 0 wins on the
    live path (0.20): the counts are in the session until the last item is delivered."""
    steps = Steps()
    with open_driver(tmp_path, STREAM, steps) as driver:
        player = played(driver, "O03").play()
        end = player.expect["end"]
        assert player.replies == ["admitted", "duplicate", "duplicate", "admitted"]
        unit, session = driver.unit(player.execution_id, STREAM_STEP), driver.session(player.execution_id)
        assert unit is not None and session is not None
        assert (unit.status, unit.expected_item_count) == ("WAITING_EXTERNAL", end["expected_items"])
        assert session.completed == {"1": end["completed_items"]}
        assert played is Player or unit.completed_item_count == end["completed_items"]
        of_first = [it for it in driver.results(player.execution_id) if it.item_index == 0]
        assert len(of_first) == end["outputs_for_index_0"]
        assert driver.metric("completion.duplicate.total") == 2

        player.then()
        unit = driver.unit(player.execution_id, STREAM_STEP)
        assert unit is not None
        assert (unit.status, unit.completed_item_count) == ("COMPLETED", player.expect["final"]["completed_items"])
        assert_metrics(player)
        assert len(driver.outputs()) == 3


def test_o04_a_second_equal_answer_is_a_duplicate_and_another_a_conflict(tmp_path):
    """Right: the second is told `duplicate`, the third `conflict`, neither resumes, and the first payload is kept."""
    steps = Steps()
    with open_driver(tmp_path, DECISION, steps) as driver:
        player = Player(driver, "O04").play()
        assert player.replies == ["admitted", "duplicate", "conflict"]
        stored = driver.interaction(player.names.requests["int-4"]["interactionId"])
        assert stored.response_payload == player.expect["end"]["stored_payload"]
        assert steps.finished == [player.expect["end"]["resume_payload"]]
        assert (driver.metric("tpf.await.resume.released.total"), driver.dropped("conflict")) == (1, 1)


def test_o04_all_three_deliveries_are_acknowledged(tmp_path):
    """The same as lines on the response topic: the reader's position passes all three, none is tried again."""
    steps = Steps()
    with open_driver(tmp_path, DECISION, steps) as driver:
        player = Player(driver, "O04").play(4)
        for line in player.names.fill((DATA / "O04.envelopes.jsonl").read_text("utf-8")).splitlines():
            driver.send(RESPONSES, line.encode())
        (group,) = [it for it in driver.log.snapshot().groups.values() if TopicPartition(RESPONSES, 0) in it.committed]
        assert group.committed[TopicPartition(RESPONSES, 0)] == 3
        assert len(steps.finished) == 1
        assert driver.metric("completion.admitted.total") == driver.metric("completion.duplicate.total") == 1
        assert driver.dropped("conflict") == 1
        driver.crash()
        assert driver.metric("completion.duplicate.total") == 1


def test_o05_a_release_of_an_earlier_wait_moves_nothing(tmp_path):
    """Right: only the second unit's own answer resumes the execution that is parked on it."""
    steps = Steps()
    with open_driver(tmp_path, TWO_AWAITS, steps) as driver:
        player = Player(driver, "O05").play()
        first = OwedRecord(player.execution_id, OwedKind.SEGMENT, None, 2, unit_id=player.units["u-5a"])
        deliver(driver, player.execution_id, SegmentCompleted(first, [{"orderId": "from the past"}]))
        execution = driver.execution(player.execution_id)
        assert (execution.status, execution.await_unit_id) == ("WAITING_EXTERNAL", player.units["u-5b"])
        assert execution.current_step_index == player.expect["end"]["step_index"]
        assert player.replies == ["admitted", "duplicate"]
        assert driver.metric("resume.released.total") == player.expect["end"]["resumes"]
        assert len(driver.requests()) == 2

        player.then()
        assert driver.execution(player.execution_id).status == "SUCCEEDED"
        assert driver.metric("resume.released.total") == player.expect["final"]["resumes"]
        assert steps.finished == [player.expect["final"]["second_resume_payload"]]


class OneBusinessKey(Player):
    """Two tenants have the order `order-0042`, and its correlation is the one that each interaction was given."""

    def start_execution(self, event: Mapping[str, Any]) -> None:
        submitted = self.driver.submit({"orderId": "order-0042"}, key="order-0042", tenant=event["tenant"])
        self.executions[event["execution"]] = submitted

    def envelope(self, event: Mapping[str, Any]) -> dict[str, Any]:
        text = json.dumps(event["envelope"])
        name = text.partition("${TOKEN:int-")[2].partition("}")[0]
        found: dict[str, Any] = json.loads(self.names.fill(text.replace("order-0042", f"cor-{name}")))
        return found


@pytest.mark.parametrize("red_first", [False, True])
def test_o06_two_tenants_with_one_business_key(tmp_path, red_first):
    """Section 0 wins: ids carry their route (0.1), so one correlation id never exists under two tenants. Both tenants
    have the same business key instead; each answer, by correlation id alone, reaches its own execution."""
    steps = Steps()
    with open_driver(tmp_path, DECISION, steps) as driver:
        player = OneBusinessKey(driver, "O06").play(6)
        red, blue = (player.executions[name] for name in ("ex-6r", "ex-6b"))
        answers = [(player.case["events"][6], blue), (player.expect["then"][0], red)]
        (first, resumed), (second, waiting) = reversed(answers) if red_first else answers
        player.deliver_completion(first)
        assert driver.execution(resumed).status == "SUCCEEDED"
        assert driver.execution(waiting).status == "WAITING_EXTERNAL"
        player.deliver_completion(second)
        assert player.replies == ["admitted", "admitted"]
        assert [driver.results(it)[0].payloads for it in (red, blue)] == [
            [{"status": "APPROVED"}],
            [{"status": "DECLINED"}],
        ]
        keys = {request["transportMetadata"]["idempotencyKey"] for request in driver.requests()}
        assert len(keys) == 1


def test_o06_lines_of_a_file(tmp_path):
    """The same by the lines of the case, over the response topic: by interaction id and correlation id."""
    with open_driver(tmp_path, DECISION) as driver:
        player = OneBusinessKey(driver, "O06").play(6)
        for line in (DATA / "O06.envelopes.jsonl").read_text("utf-8").splitlines():
            driver.send(RESPONSES, json.dumps(player.envelope({"envelope": json.loads(line)})).encode())
        assert {it.status for it in driver.executions()} == {"SUCCEEDED"}


def test_o06_the_other_tenants_name_on_an_answer_is_refused(tmp_path):
    """Scoping the other way round: right ids and token under the wrong tenant change nothing (0.4)."""
    with open_driver(tmp_path, DECISION) as driver:
        player = OneBusinessKey(driver, "O06").play(6)
        envelope = player.envelope(player.case["events"][6])
        assert driver.complete({**envelope, "tenantId": "tenant-red"}) == "tenant_mismatch"
        assert len(driver.pending()) == 2

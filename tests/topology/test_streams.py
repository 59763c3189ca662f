"""A stream over an await boundary, on the live path and on the durable one, item by item."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.field.adapters import PushedTransport
from tests.field.pipelines import DECISION, PUSHED_STREAM, RESPONSES, STREAM, Steps, open_driver
from tests.field.sequences import completion
from tpf_streams.core import decide
from tpf_streams.core.events import CompletionReceived
from tpf_streams.core.state import Draft
from tpf_streams.testing import TopologyTestDriver

AWAIT = 1
APPROVED = {"status": "APPROVED"}


def window_of(count: int) -> Mapping[str, str]:
    return {"pipeline.max-concurrency": str(count)}


def test_a_window_of_two_and_three_items(tmp_path):
    """T55: two are dispatched; completing one delivers it, and only then the third is dispatched."""
    with open_driver(tmp_path, STREAM, settings=window_of(2)) as driver:
        driver.hold_demand()
        execution_id = driver.submit({"count": "3"})
        first, second = driver.requests()
        assert driver.answer(first, APPROVED) == "admitted"
        assert (len(driver.requests()), len(driver.outputs())) == (2, 0)
        driver.request(1)
        assert (len(driver.requests()), len(driver.outputs())) == (3, 1)
        assert driver.answer(second, APPROVED) == driver.answer(driver.requests()[2], APPROVED) == "admitted"
        driver.request(2)
        assert driver.execution(execution_id).status == "SUCCEEDED"


def test_a_transport_without_a_live_session_parks_and_goes_on_item_by_item(tmp_path, monkeypatch):
    """T57: the execution waits durably for its unit, no session is kept; each answer then goes on at once."""
    queue = PushedTransport.stand_in(monkeypatch, "sqs")
    with open_driver(tmp_path, PUSHED_STREAM) as driver:
        execution_id = driver.submit({"count": "3"})
        execution, unit = driver.execution(execution_id), driver.unit(execution_id, AWAIT)
        assert unit is not None
        assert (execution.status, execution.await_unit_id) == ("WAITING_EXTERNAL", unit.unit_id)
        assert (unit.dispatch_complete, unit.expected_item_count) == (True, 3)
        assert [len(task.performer.sessions) for task in driver.tasks()] == [0]
        for done, request in enumerate(reversed(queue.requests), start=1):
            driver.crash()
            assert driver.answer(request, APPROVED) == "admitted"
            assert len(driver.outputs()) == done
        assert driver.execution(execution_id).status == "SUCCEEDED"
        assert [it.item_index for it in driver.results(execution_id)] == [0, 1, 2]
        assert driver.metric("live.handoff.total") == 0
        assert driver.metric("resume.released.total") == driver.metric("item.completed.total") == 3


class OpenedSource(Steps):
    opened = 0

    def split(self, batch: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self.opened += 1
        yield from super().split(batch)


def test_a_source_is_opened_once_in_a_life(tmp_path):
    """T61: also when its session is cancelled on the way; after a crash it is opened again, past what is known."""
    steps = OpenedSource()
    with open_driver(tmp_path, STREAM, steps, settings=window_of(2)) as driver:
        execution_id = driver.submit({"count": "6"})
        driver.cancel_session(execution_id)
        for place in range(3):
            assert driver.answer(driver.requests()[place], APPROVED) == "admitted"
        assert steps.opened == 1
        driver.crash()
        for place in range(3, 6):
            assert driver.answer(driver.requests()[place], APPROVED) == "admitted"
        assert driver.execution(execution_id).status == "SUCCEEDED"
        assert steps.opened == 2
        assert [it["requestPayload"]["orderId"] for it in driver.requests()] == [f"o-{place}" for place in range(6)]


def test_more_answers_than_steps_may_run_at_once(tmp_path):
    """T98: continuations beyond the bound wait their turn; none is lost."""
    running = most = 0

    async def finish(decision: dict[str, Any]) -> dict[str, Any]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return decision

    with open_driver(tmp_path, STREAM, functions={"Finish": finish}, settings=window_of(200)) as driver:
        execution_id = driver.submit({"count": "200"})
        driver.complete_all([completion(it, APPROVED) for it in driver.requests()])
        assert driver.execution(execution_id).status == "SUCCEEDED"
        assert 2 <= most <= driver.application.environment.segments_max


@pytest.fixture
def breaking(monkeypatch) -> None:
    """Deciding an answer that says so raises."""
    original = decide._TABLE[CompletionReceived]

    def received(draft: Draft, event: CompletionReceived) -> None:
        original(draft, event)
        if event.envelope.actor == "breaker":
            raise RuntimeError("a defect of the machine")

    monkeypatch.setitem(decide._TABLE, CompletionReceived, received)


def test_an_event_that_cannot_be_decided_stays_with_its_execution(tmp_path, breaking):
    """T37: kept as a dead letter, its execution FAILED with the reason, nothing of the half decision taken; others go
    on, and after a crash nothing comes again (contract 0.5)."""
    steps = Steps()
    with open_driver(tmp_path, DECISION, steps) as driver:
        ids = [driver.submit({"orderId": f"o-{place}"}) for place in range(3)]
        first, second, third = driver.requests()
        broken = completion(second, APPROVED)[:-1] + b', "actor": "breaker"}'
        driver.stop()
        for answer in (completion(first, APPROVED), broken, completion(third, APPROVED)):
            driver.send(RESPONSES, answer)
        driver.start()
        assert_only_the_second_failed(driver, ids, broken)
        driver.crash()
        assert_only_the_second_failed(driver, ids, broken)
        assert len(steps.finished) == 2


def assert_only_the_second_failed(driver: TopologyTestDriver, ids: list[str], broken: bytes) -> None:
    assert [driver.execution(it).status for it in ids] == ["SUCCEEDED", "FAILED", "SUCCEEDED"]
    failed = driver.execution(ids[1])
    assert failed.error_code == "INTERNAL_ERROR"
    assert "a defect of the machine" in (failed.error_message or "")
    assert "Traceback" in (failed.error_detail or "")
    letter, of_execution = driver.dead_letters()
    assert dict(of_execution.headers)["tpf-reason"] == b"non_retryable"
    assert (letter.value, dict(letter.headers)["tpf-reason"]) == (broken, b"decision_raised")
    assert driver.pending() == []


@pytest.mark.parametrize("answered", [0, 2])
def test_a_source_that_gives_other_items_after_a_crash_is_told(tmp_path, answered):
    """Whatever the items are made of: what was dispatched from them is finished, then FAILED with SOURCE_CHANGED."""
    names = [f"o-{place}" for place in range(6)]

    def split(batch: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield from ({"orderId": name} for name in names)

    with open_driver(tmp_path, STREAM, functions={"Split": split}, settings=window_of(3)) as driver:
        execution_id = driver.submit({"count": "6"})
        for request in driver.requests()[:answered]:
            assert driver.answer(request, APPROVED) == "admitted"
        driver.stop()
        names[1] = "another"
        driver.start()
        for request in driver.requests()[answered:]:
            assert driver.answer(request, APPROVED) == "admitted"
        execution = driver.execution(execution_id)
        assert (execution.status, execution.error_code) == ("FAILED", "SOURCE_CHANGED")
        assert len(driver.outputs()) == len(driver.requests()) == 3 + answered
        assert "another" not in str(driver.requests())


def test_who_has_nothing_to_send_ends_though_another_has_every_slot(tmp_path):
    """To learn that a source has ended takes no slot: an empty file ends at once, and a parked stream passes its gates
    though the provider of another one is silent."""
    with open_driver(tmp_path, STREAM, settings=window_of(3)) as driver:
        waiting = driver.submit({"count": "2"})
        driver.cancel_session(waiting)
        silent = driver.submit({"count": "9"})
        empty = driver.submit({"count": "0"}, key="empty")
        assert driver.execution(empty).status == "SUCCEEDED"
        assert driver.execution(waiting).status == "WAITING_EXTERNAL"
        mine = [it for it in driver.requests() if it["executionId"] == waiting]
        assert [driver.answer(it, APPROVED) for it in mine] == ["admitted", "admitted"]
        assert driver.execution(waiting).status == "SUCCEEDED"
        session = driver.session(silent)
        assert session is not None and session.in_flight == 3


def test_what_downstream_asks_for_is_not_used_up_by_an_execution_that_ended(tmp_path):
    with open_driver(tmp_path, STREAM, settings=window_of(2)) as driver:
        driver.hold_demand()
        ended, going = (driver.submit({"count": "1"}, key=key) for key in ("ended", "going"))
        for request in driver.requests():
            assert driver.answer(request, APPROVED) == "admitted"
        driver.cancel_execution(ended)
        driver.request(1)
        assert [it["executionId"] for it in driver.outputs()] == [going]
        assert driver.execution(going).status == "SUCCEEDED"

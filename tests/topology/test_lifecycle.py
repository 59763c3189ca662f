"""What the lifecycle topic tells of whole pipelines; and that the checker of topics sees what is wrong with one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import orjson
import pytest

from tests.lifecycle import DisagreementError, agree
from tests.topology.payments import DATA, RESPONSES, open_payments, simulate
from topologies.csv_payments.domain import ApprovedPaymentStatus
from topologies.csv_payments.steps import process_approved_payment_status
from tpf_streams.engine.lifecycle import decode_lifecycle
from tpf_streams.testing import TopologyTestDriver

LIFECYCLE, OUTPUTS = "csv-payments-lifecycle", "csv-payments-outputs"


def topics(driver: TopologyTestDriver):
    return driver.read_topic(LIFECYCLE), driver.read_topic(OUTPUTS)


def events_of(driver: TopologyTestDriver):
    return [event for record in driver.read_topic(LIFECYCLE) for event in decode_lifecycle(record.value or b"", "here")]


def names(driver: TopologyTestDriver) -> list[str]:
    return [event.name for event in events_of(driver)]


@pytest.fixture
def driver(tmp_path):
    with open_payments(tmp_path, concurrency=5) as found:
        yield found


@pytest.fixture
def done(driver):
    """Twelve payments, answered, some twice."""
    simulate(driver, reject=0.08, duplicates=0.5)
    driver.submit_files(DATA / "payments_12.csv")
    driver.advance(5_000)
    return driver


def test_a_stream_tells_of_every_item_and_ends_once(done):
    verdict = agree(*topics(done))
    assert verdict.outputs == 12
    counts = Counter(names(done))
    for name in ("await_admission_acquired", "await_interaction_dispatched", "await_completion_admitted",
                 "await_unit_item_completed", "emit", "await_admission_released"):  # fmt: skip
        assert counts[name] == 12, name
    once = ("start", "await_unit_dispatch_complete", "await_unit_completed", "await_unit_terminal",
            "object_published", "success")  # fmt: skip
    assert {name: counts[name] for name in once} == dict.fromkeys(once, 1)
    assert counts["await_completion_duplicate"] == done.metric("completion.duplicate.total") > 0
    assert names(done)[0] == "start"
    assert names(done)[-1] == "success"


def test_one_record_a_turn(done):
    """Twelve items, five at a time: a record of the topic is a turn, and holds many events."""
    records = done.read_topic(LIFECYCLE)
    assert len(records) < len(events_of(done)) / 3


def test_an_item_that_is_late_is_told_with_everything_that_follows(driver):
    driver.submit_files(DATA / "payments_12.csv")
    driver.advance(700_000)
    verdict = agree(*topics(driver))
    (story,) = verdict.stories.values()
    assert (story.end, Counter(story.closed.values())["await_interaction_timed_out"]) == ("error", 1)
    (error,) = [event for event in events_of(driver) if event.name == "error"]
    assert error.detail["errorCode"] == "AWAIT_TIMEOUT"
    found = names(driver)
    order = ["await_interaction_timed_out", "await_unit_terminal", "error"]
    assert sorted(order, key=found.index) == order, "causes before effects"


def test_the_durable_path_tells_of_the_wait_and_of_each_release(driver):
    (execution_id,) = driver.submit_files(DATA / "payments_12.csv")
    driver.cancel_session(execution_id)
    driver.advance(100)
    simulate(driver)
    driver.advance(10_000)
    verdict = agree(*topics(driver))
    assert verdict.stories[execution_id].end == "success"
    counts = Counter(names(driver))
    assert counts["await_session_cancelled"] == counts["await_execution_waiting"] == 1
    assert counts["await_resume_released"] == 12
    assert counts["await_completion_early_held"] <= 12
    found = names(driver)
    assert found.index("await_unit_dispatch_complete") < found.index("await_execution_waiting")


def test_completions_that_are_not_admitted_are_told_by_their_outcome(driver):
    driver.submit_files(DATA / "payments_12.csv")
    request = driver.requests()[0]
    assert driver.answer(request, {"wrong": 1}) == "invalid_payload"
    assert driver.answer(request, {"wrong": 1}, resumeToken="x.y") == "resume_token_rejected"
    driver.send(RESPONSES, orjson.dumps({"tenantId": "default", "responsePayload": 1, "correlationId": "nobody"}))
    told = Counter(name for name in names(driver) if name.startswith("await_completion_"))
    assert told["await_completion_invalid_payload"] == told["await_completion_resume_token_rejected"] == 1
    agree(*topics(driver), ended=False)


def test_an_operator_who_cancels_is_told_apart(driver):
    (execution_id,) = driver.submit_files(DATA / "payments_12.csv")
    driver.cancel_execution(execution_id)
    driver.advance(1_000)
    (story,) = agree(*topics(driver)).stories.values()
    assert (story.end, set(story.closed.values())) == ("cancelled", {"await_interaction_cancelled"})


def broken_desk(status: ApprovedPaymentStatus) -> Any:
    if status.payment_record.csv_id == "12":
        raise ValueError("no such currency desk")
    return process_approved_payment_status(status)


@pytest.mark.parametrize(
    ("settings", "end"), [({}, "error"), ({"onItemFailure": "REJECT_ITEM"}, "success")], ids=["fails", "rejects"]
)
def test_a_step_that_goes_on_raising_is_told_once_with_its_reason(tmp_path, settings, end):
    functions = {"Process Approved Payment Status": broken_desk}
    with open_payments(
        tmp_path, functions=functions, settings={"pipeline.defaults.retry-limit": "2", **settings}
    ) as it:
        simulate(it)
        (execution_id,) = it.submit_files(DATA / "payments_12.csv")
        it.advance(60_000)
        story = agree(*topics(it)).stories[execution_id]
        found = events_of(it)
    assert (story.end, story.rejected, len(story.outputs)) == (end, {(0, 11)}, 11)
    (reject,) = [event for event in found if event.name == "reject"]
    assert reject.detail == {"ordinal": 0, "stream": 0, "errorCode": "ValueError"}, (
        "and no word of what the step was given"
    )
    errors = [event.detail for event in found if event.name == "error"]
    reason = {"errorCode": "ValueError", "errorMessage": "no such currency desk"}
    assert errors == ([reason] if end == "error" else [])


def without(records, name):
    """The records with the first event of a name cut out, and the later numbers moved up: nothing of it is left."""
    made, cut = [], False
    for record in records:
        body = orjson.loads(record.value)
        if cut:
            body["first"] -= 1
        place = next((at for at, row in enumerate(body["events"]) if body["names"][row[0]] == name), None)
        if not cut and place is not None:
            del body["events"][place]
            cut = True
        made.append(replace(record, value=orjson.dumps(body)))
    assert cut, name
    return made


@pytest.mark.parametrize(
    "name",
    [
        *("start", "await_interaction_dispatched", "await_completion_admitted", "await_admission_acquired"),
        *("await_admission_released", "await_unit_completed", "emit", "success"),
    ],
)
def test_the_checker_misses_no_event_that_is_missing(done, name):
    lifecycle, outputs = topics(done)
    with pytest.raises(DisagreementError):
        agree(without(lifecycle, name), outputs)


def test_the_checker_sees_records_lost_twice_or_changed_in_order(done):
    lifecycle, outputs = topics(done)
    agree(lifecycle, outputs)
    last = replace(lifecycle[-1], offset=lifecycle[-1].offset + 1)
    for broken in (lifecycle[1:], lifecycle[:-1], [*lifecycle, last], lifecycle[:1] + lifecycle[2:]):
        with pytest.raises(DisagreementError):
            agree(broken, outputs)


def test_the_checker_sees_outputs_lost_twice_or_of_another(done):
    lifecycle, outputs = topics(done)
    other = replace(outputs[0], key=outputs[1].key)
    for broken in (outputs[1:], [*outputs, outputs[0]], [other, *outputs[1:]]):
        with pytest.raises(DisagreementError):
            agree(lifecycle, broken)

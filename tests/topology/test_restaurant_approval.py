"""restaurant-approval (contract 12.4): an order waits in an inbox, a person decides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.orders import ADA
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.testing import TopologyTestDriver

PIPELINE = Path(__file__).parents[2] / "topologies" / "restaurant_approval" / "pipeline.yaml"
HALF_AN_HOUR_MS = 30 * 60_000
ORDER = ADA
DECIDED_AT = "2026-01-01T10:00:00Z"


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(PIPELINE) as found:
        yield found


def waiting(driver: TopologyTestDriver, **order: str) -> InteractionRecord:
    execution_id = driver.submit({**ORDER, **order})
    return next(it for it in driver.pending() if it.execution_id == execution_id)


def decision(interaction: InteractionRecord, arm: str, **fields: str) -> dict[str, Any]:
    return {arm: {"orderId": interaction.request_payload["orderId"], "decidedAt": DECIDED_AT, **fields}}


def test_an_order_waits_at_step_two(driver):
    """The inbox entry holds the order and goes to the restaurant's group; steps 0 and 1 have added to it."""
    interaction = waiting(driver)
    execution = driver.execution(interaction.execution_id)
    assert (execution.status, execution.current_step_index) == ("WAITING_EXTERNAL", 2)
    assert execution.await_unit_id == interaction.unit_id
    assert (interaction.group, interaction.step_id) == ("Trattoria Uno", "ProcessAwaitRestaurantDecisionService")
    request = interaction.request_payload
    assert {name: request[name] for name in ORDER} == ORDER
    assert request["createdAt"] == "2023-11-14T22:13:20.000Z"
    assert interaction.idempotency_key.endswith(f":orderId={request['orderId']}")


@pytest.mark.parametrize(
    ("arm", "fields", "outcome", "summary"),
    [
        ("accepted", {}, ("APPROVED", "ACCEPTED"), "Restaurant approved the order."),
        ("accepted", {"note": "20 minutes"}, ("APPROVED", "ACCEPTED"), "20 minutes"),
        ("declined", {"declineReason": "closed"}, ("DECLINED", "DECLINED"), "closed"),
        ("declined", {"declineReason": "closed", "note": "sorry"}, ("DECLINED", "DECLINED"), "sorry (closed)"),
    ],
)
def test_a_decision_ends_the_order(driver, arm, fields, outcome, summary):
    """No token is asked for: the strategy is interactionId (contract 0.2). Step index 3 afterwards."""
    interaction = waiting(driver)
    assert driver.answer(interaction, decision(interaction, arm, **fields), actor="chef") == "admitted"
    execution = driver.execution(interaction.execution_id)
    assert (execution.status, execution.current_step_index) == ("SUCCEEDED", 3)
    (result,) = driver.results(interaction.execution_id)
    assert (result.arm, result.payloads) == (
        arm,
        [
            {
                "orderId": interaction.request_payload["orderId"],
                "outcome": outcome[0],
                "resolvedAt": DECIDED_AT,
                "restaurantStatus": outcome[1],
                "summary": summary,
            }
        ],
    )
    (output,) = driver.outputs()
    assert (output["executionId"], output["payload"]) == (interaction.execution_id, result.payloads[0])
    assert driver.interaction(interaction.interaction_id).actor == "chef"


def test_a_token_is_checked_when_it_is_supplied(driver):
    interaction = waiting(driver)
    accepted = decision(interaction, "accepted")
    assert driver.answer(interaction, accepted, resumeToken="a.b") == "resume_token_rejected"
    assert driver.pending() == [interaction]


@pytest.mark.parametrize(
    "payload",
    [
        {"postponed": {}},
        {"accepted": {}, "declined": {}},
        {"accepted": {"orderId": "no uuid", "decidedAt": DECIDED_AT}},
        {"declined": {"orderId": "7b5e1f4c-3c5b-4c8e-9f7e-1b2f3c4d5e6f", "decidedAt": DECIDED_AT}},
        [],
        "accepted",
    ],
    ids=["unknown-arm", "two-arms", "bad-id", "missing-reason", "list", "text"],
)
def test_what_is_no_decision_leaves_the_order_waiting(driver, payload):
    """Kept as a dead letter, told as invalid_payload; a good decision is taken afterwards (T26)."""
    interaction = waiting(driver)
    assert driver.answer(interaction, payload) == "invalid_payload"
    assert driver.pending() == [interaction]
    assert len(driver.dead_letters()) == 1
    assert driver.answer(interaction, decision(interaction, "accepted")) == "admitted"


def test_an_order_no_restaurant_should_see_fails_at_once(driver):
    execution_id = driver.submit({**ORDER, "items": "  "})
    execution = driver.execution(execution_id)
    assert (execution.status, execution.error_code) == ("FAILED", "INVALID_ORDER")
    assert execution.error_message == "the order has no items"
    assert driver.pending() == []


def test_a_crash_before_the_decision_keeps_the_order(driver):
    """Neither the order id nor a time of it changes: no step reads a clock or draws an id."""
    interaction = waiting(driver)
    driver.stop()
    driver.clock.advance(60_000)
    driver.start()
    assert driver.pending() == [interaction]
    assert driver.answer(interaction, decision(interaction, "accepted")) == "admitted"
    assert len(driver.outputs()) == 1


def test_nobody_decides(driver):
    """FAILED with AWAIT_TIMEOUT, everything of it terminal at once; a decision afterwards is late."""
    interaction = waiting(driver)
    driver.advance(HALF_AN_HOUR_MS)
    assert driver.pending() == [interaction]
    driver.advance(1)
    execution = driver.execution(interaction.execution_id)
    assert (execution.status, execution.error_code) == ("FAILED", "AWAIT_TIMEOUT")
    assert interaction.interaction_id in (execution.error_message or "")
    unit = driver.unit(interaction.execution_id, "Await Restaurant Decision")
    assert unit is not None and unit.status == "TIMED_OUT"
    assert driver.answer(interaction, decision(interaction, "accepted")) == "late"
    assert driver.outputs() == []


def test_an_operator_cancels(driver):
    """R5: a cancelled interaction takes no answer, whoever comes second; the good token would not help (T24)."""
    first, second = waiting(driver), waiting(driver, customerName="Bob")
    driver.cancel_interaction(first.interaction_id, "the kitchen burns")
    driver.cancel_execution(second.execution_id, "the kitchen burns")
    for interaction in (first, second):
        assert driver.answer(interaction, decision(interaction, "accepted")) == "terminal"
        assert driver.interaction(interaction.interaction_id).status == "CANCELLED"
        assert driver.execution(interaction.execution_id).status == "FAILED"
    assert driver.dropped("terminal") == 2
    third = waiting(driver, customerName="Cem")
    assert driver.answer(third, decision(third, "accepted")) == "admitted"
    driver.cancel_interaction(third.interaction_id, "too late")
    driver.cancel_execution(third.execution_id, "too late")
    assert driver.execution(third.execution_id).status == "SUCCEEDED"
    assert driver.metric("execution.terminal.total") == 3

"""fraud-check: one decision by a partner; over Kafka, and over a stand-in for the transports outside the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.field.adapters import PushedTransport
from tpf_streams.testing import TopologyTestDriver

PIPELINE = Path(__file__).parents[2] / "topologies" / "fraud_check" / "pipeline.yaml"
STEP = "ProcessFraudCheckService"
ORDER = {"orderId": "o-1", "amount": "12.50", "currency": "EUR"}
WEBHOOK = """        type: webhook
        request: {url: "http://partner.example/fraud-check"}

"""
FINE = {"orderId": "o-1", "approved": True, "score": 3, "reason": "fine"}


@pytest.fixture
def partner(monkeypatch) -> PushedTransport:
    return PushedTransport.stand_in(monkeypatch, "webhook")


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    """The pipeline as it is, over Kafka."""
    with TopologyTestDriver(PIPELINE) as found:
        yield found


@pytest.fixture
def pushed(partner, tmp_path) -> Iterator[TopologyTestDriver]:
    """The same pipeline with a transport outside the log."""
    text = PIPELINE.read_text(encoding="utf-8")
    kafka = text[text.index("        type: kafka") : text.index("  - name: Release Order")]
    file = tmp_path / "pipeline.yaml"
    file.write_text(text.replace(kafka, WEBHOOK), encoding="utf-8")
    with TopologyTestDriver(file, settings={"pipeline.defaults.retry-limit": "2"}) as found:
        yield found


@pytest.mark.parametrize("approved", [True, False])
def test_the_partner_decides(driver, approved):
    execution_id = driver.submit(ORDER)
    (request,) = driver.requests()
    assert (request["stepId"], request["requestPayload"]) == (STEP, ORDER)
    assert (request["inputType"], request["outputType"]) == ("FraudCheckRequest", "FraudCheckDecision")
    assert request["transportMetadata"]["idempotencyKey"] == f"{STEP}:orderId=o-1"
    assert driver.answer(request, {**FINE, "approved": approved}) == "admitted"
    execution = driver.execution(execution_id)
    assert (execution.status, execution.current_step_index) == ("SUCCEEDED", 1)
    (result,) = driver.results(execution_id)
    assert result.payloads == [{"orderId": "o-1", "released": approved, "reason": "fine"}]


def test_a_token_is_required(driver):
    driver.submit(ORDER)
    assert driver.answer(driver.requests()[0], FINE, resumeToken=None) == "resume_token_rejected"
    assert len(driver.pending()) == 1


def test_the_same_order_again_is_the_same_execution(driver):
    first = driver.submit(ORDER)
    assert driver.submit(ORDER) == first
    assert driver.submit({**ORDER, "orderId": "o-2"}) != first
    assert (len(driver.executions()), len(driver.requests())) == (2, 2)


def test_a_partner_that_is_down_for_a_while_gets_the_request_later(pushed, partner):
    partner.fails = lambda interaction: True
    execution_id = pushed.submit(ORDER)
    pushed.advance(600)
    partner.fails = lambda interaction: False
    pushed.advance(2_000)
    assert len(partner.sent) == 1
    assert pushed.answer(partner.requests[0], FINE) == "admitted"
    assert pushed.execution(execution_id).status == "SUCCEEDED"


def test_a_partner_that_stays_down_fails_the_execution(pushed, partner):
    partner.fails = lambda interaction: True
    execution_id = pushed.submit(ORDER)
    pushed.advance(60_000)
    execution = pushed.execution(execution_id)
    assert (execution.status, execution.error_code) == ("FAILED", "DISPATCH_FAILED")
    assert pushed.pending() == []


def test_an_answer_that_overtakes_the_record_of_its_request_wins(pushed, partner):
    """T30: the answer is here before the process knows that the request left; nothing is sent again afterwards."""
    partner.hangs = True
    execution_id = pushed.submit(ORDER)
    (request,) = partner.requests
    assert pushed.interaction(request["interactionId"]).status == "WAITING"
    assert pushed.answer(request, FINE) == "admitted"
    assert pushed.execution(execution_id).status == "SUCCEEDED"
    pushed.crash()
    assert len(partner.sent) == 1
    assert pushed.interaction(request["interactionId"]).status == "COMPLETED"

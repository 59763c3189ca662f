"""The pipeline written in Python alone: the same machine, reached without YAML."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from topologies.shipping_quote import app
from tpf_streams.core.step import AwaitDefinition
from tpf_streams.testing import TopologyTestDriver

README = Path(__file__).parents[2] / "topologies/shipping_quote/README.md"
PARCEL = {"parcel_id": "p-1", "grams": 900, "country": "FR"}


@pytest.fixture
def driver():
    with TopologyTestDriver(app.document, functions=app.functions) as driver:
        yield driver


def test_the_definition_is_one_like_any_other(driver):
    steps = driver.definition.steps
    assert [(step.name, step.input_type, step.output_type) for step in steps] == [
        ("Check Parcel", "Parcel", "QuoteRequest"),
        ("Ask Carrier", "QuoteRequest", "QuoteOrRefusal"),
        ("Book Shipment", "QuoteOrRefusal", "Shipment"),
    ]
    assert isinstance(steps[1], AwaitDefinition)
    assert (steps[1].timeout_ms, steps[1].require_token, steps[1].arms) == (3_600_000, True, ("quote", "refusal"))
    assert driver.definition.application_id == "shipping-quote"


def test_a_quote_is_booked(driver):
    execution = driver.submit(PARCEL)
    request = driver.requests()[0]
    assert request["requestPayload"] == {"parcel_id": "p-1", "grams": "900", "country": "FR", "express": True}
    answer = {"quote": {"parcel_id": "p-1", "price": "9.50", "days": 2}}
    assert driver.answer(request, answer) == "admitted"
    assert driver.answer(request, answer) == "duplicate"
    assert driver.execution(execution).status == "SUCCEEDED"
    assert [output["payload"] for output in driver.outputs()] == [
        {"parcel_id": "p-1", "booked": True, "note": "9.50 in 2 days"}
    ]


def test_a_refusal_is_told(driver):
    driver.submit(PARCEL)
    driver.answer(driver.requests()[0], {"refusal": {"parcel_id": "p-1", "reason": "too far"}})
    assert driver.outputs()[0]["payload"] == {"parcel_id": "p-1", "booked": False, "note": "too far"}


def test_a_parcel_without_weight_fails(driver):
    execution = driver.execution(driver.submit({**PARCEL, "grams": 0}))
    assert (execution.status, execution.error_code) == ("FAILED", "INVALID_PARCEL")


def test_the_snippet_of_the_readme_runs():
    code = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(code) == 1
    exec(compile(code[0], str(README), "exec"), {})

"""From a pipeline to its transports, with every problem at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.contract.test_transport import KAFKA, SIGNER, Case, step_over
from tpf_streams.core.step import Cardinality, PipelineDefinition, StepDefinition
from tpf_streams.errors import DefinitionError
from tpf_streams.transports.registry import transports_for


def pipeline(*steps):
    service = StepDefinition(0, "Validate", "ProcessValidateService", Cardinality.ONE_TO_ONE, "Order", "Order")
    placed = tuple(replace(step, index=index) for index, step in enumerate(steps, 1))
    return PipelineDefinition("orders", "orders", (service, *placed), "orders", "secret")


def test_one_transport_a_type():
    kafka, inbox = step_over(Case("kafka", KAFKA)), step_over(Case("interaction-api"))
    transports = transports_for(pipeline(kafka, inbox, kafka), SIGNER)
    assert {name: transport.type for name, transport in transports.items()} == {
        "kafka": "kafka",
        "interaction-api": "interaction-api",
    }
    assert transports_for(pipeline(), SIGNER) == {}


def test_a_type_without_an_adapter_is_refused_with_everything_else_that_is_wrong():
    """T09: without a provider nothing starts."""
    bad_key = step_over(Case("kafka", {**KAFKA, "request": {"topic": "r", "key": "x"}}))
    with pytest.raises(DefinitionError) as error:
        transports_for(pipeline(step_over(Case("carrier-pigeon")), bad_key), SIGNER)
    assert [(problem.file, problem.key, problem.message) for problem in error.value.problems] == [
        (
            "orders",
            "steps[1].await.transport",
            "Await Fraud Check: No AwaitTransportAdapter provider is available for type carrier-pigeon",
        ),
        ("orders", "steps[2].await.transport", "Await Fraud Check: Unsupported kafka await request.key: x"),
    ]

"""What every await transport keeps to. A new one adds its case here and its provider to `PROVIDERS`, nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pytest

from tpf_streams.core.interaction import InteractionRecord, InteractionStatus
from tpf_streams.core.step import AwaitDefinition, Cardinality, CorrelationStrategy, TransportSpec
from tpf_streams.core.token import TokenSigner
from tpf_streams.errors import TerminalError
from tpf_streams.transports.registry import PROVIDERS

SIGNER = TokenSigner(("secret-for-tests",))


@dataclass
class Case:
    """`options` of a step that is right, and per thing that is wrong the options and what must be said."""

    type: str
    options: dict[str, Any] = field(default_factory=dict)
    wrong: dict[str, dict[str, Any]] = field(default_factory=dict)


KAFKA = {"request": {"topic": "requests", "key": "correlationId"}, "response": {"topic": "answers"}}

CASES = [
    Case(
        "kafka",
        KAFKA,
        {
            "kafka await transport requires request.topic": {**KAFKA, "request": {"topic": "  "}},
            "kafka await transport requires response.topic": {**KAFKA, "response": {}},
            "Unsupported kafka await request.key: recipient": {**KAFKA, "request": {"topic": "r", "key": "recipient"}},
            "request.topic must be a text": {**KAFKA, "request": {"topic": 7}},
            "headers must map names to texts": {**KAFKA, "headers": {"x-source": 7}},
        },
    ),
    Case("interaction-api"),
]


def step_over(case, **options):
    return AwaitDefinition(
        index=1,
        name="Await Fraud Check",
        step_id="ProcessAwaitFraudCheckService",
        cardinality=Cardinality.ONE_TO_ONE,
        input_type="Order",
        output_type="Verdict",
        timeout_ms=60_000,
        transport=TransportSpec(case.type, options={**case.options, **options}),
        correlation=CorrelationStrategy.SIGNED_RESUME_TOKEN,
        require_token=True,
    )


def interaction_over(case):
    return InteractionRecord(
        tenant_id="tenant-1",
        execution_id="execution-1",
        unit_id="unit-1",
        step_id="ProcessAwaitFraudCheckService",
        step_index=1,
        item_index=3,
        interaction_id="interaction-1",
        correlation_id="correlation-1",
        causation_id="execution-1:1:3",
        idempotency_key="ProcessAwaitFraudCheckService:orderId=7:item=3",
        status=InteractionStatus.DISPATCHED,
        version=1,
        input_type="Order",
        output_type="Verdict",
        request_payload={"orderId": "7", "amount": "12.50"},
        response_payload=None,
        actor=None,
        assignee=None,
        group=None,
        transport_type=case.type,
        deadline_epoch_ms=1_700_000_060_000,
        issued_at_epoch_ms=1_700_000_000_000,
        dispatched_at_epoch_ms=1_700_000_000_001,
        created_at_epoch_ms=1_700_000_000_000,
        updated_at_epoch_ms=1_700_000_000_000,
    )


each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.type)


def test_every_provider_has_a_case():
    assert {case.type for case in CASES} == set(PROVIDERS)


@each_case
def test_is_named_by_its_type(case):
    assert PROVIDERS[case.type](SIGNER).type == case.type


@each_case
def test_takes_a_step_that_is_right(case):
    PROVIDERS[case.type](SIGNER).prepare(step_over(case))


@pytest.mark.parametrize(
    ("case", "message"), [(case, message) for case in CASES for message in case.wrong], ids=lambda part: str(part)[:60]
)
def test_says_at_start_what_is_wrong_with_a_step(case, message):
    wrong = replace(case, options=case.wrong[message])
    with pytest.raises(TerminalError) as error:
        PROVIDERS[case.type](SIGNER).prepare(step_over(wrong))
    assert message in str(error.value)
    assert error.value.code == "TRANSPORT_CONFIG"


@each_case
async def test_a_request_leaves_in_one_way_only(case):
    transport, step, interaction = PROVIDERS[case.type](SIGNER), step_over(case), interaction_over(case)
    record = transport.request_record(step, interaction)
    if record is None:
        metadata = await transport.send(step, interaction)
        assert metadata["adapter"] == case.type
        assert metadata["dispatchedAtEpochMs"] == interaction.dispatched_at_epoch_ms
    else:
        assert record.topic == "requests" and record.partition is None
        with pytest.raises(TerminalError):
            await transport.send(step, interaction)


@each_case
async def test_a_repeat_is_the_same_request(case):
    """O08: after a crash another process, under a later clock, sends what the first one sent, byte for byte."""
    step, interaction = step_over(case), interaction_over(case)
    later = replace(interaction, version=4, updated_at_epoch_ms=interaction.updated_at_epoch_ms + 90_000)
    first, second = PROVIDERS[case.type](SIGNER), PROVIDERS[case.type](SIGNER)
    record = first.request_record(step, interaction)
    assert record == second.request_record(step, later)
    if record is None:
        assert await first.send(step, interaction) == await second.send(step, later)


@each_case
async def test_a_request_is_in_the_types_of_its_provider(case):
    """Of what leaves as a record; what is sent otherwise, its own tests look at."""
    step = replace(
        step_over(case),
        transport_input_type="partner.v1.Order",
        transport_output_type="partner.v1.Verdict",
        to_transport=lambda stored: {"order": stored["orderId"]},
    )
    record = PROVIDERS[case.type](SIGNER).request_record(step, interaction_over(case))
    if record is not None:
        sent = orjson.loads(record.value or b"")
        assert (sent["inputType"], sent["outputType"]) == ("partner.v1.Order", "partner.v1.Verdict")
        assert sent["requestPayload"] == {"order": "7"}


@each_case
async def test_the_row_is_left_as_it_is(case):
    transport, interaction = PROVIDERS[case.type](SIGNER), interaction_over(case)
    if transport.request_record(step_over(case), interaction) is None:
        await transport.send(step_over(case), interaction)
    assert interaction == interaction_over(case)

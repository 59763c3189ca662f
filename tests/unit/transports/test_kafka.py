"""Requests over Kafka: envelope, key, headers, metadata (contract 1.1)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.contract.test_transport import KAFKA, SIGNER, Case, interaction_over, step_over
from tpf_streams.core.token import TokenSigner
from tpf_streams.errors import TerminalError
from tpf_streams.transports.kafka import KafkaTransport

CASE = Case("kafka", KAFKA)
INTERACTION = interaction_over(CASE)


def request(step=None, interaction=INTERACTION, signer=SIGNER):
    return KafkaTransport(signer).request_record(step or step_over(CASE), interaction)


def test_dispatch_publishes_the_framework_envelope():
    """T05: topic, key, headers, token, payload, metadata."""
    step = step_over(CASE, headers={"x-source": "orders", "tpf-step-id": "spoofed"}, consumer={"group": "orders-app"})
    record = request(step)
    assert (record.topic, record.key) == ("requests", b"correlation-1")
    assert record.headers == (
        ("x-source", b"orders"),
        ("tpf-step-id", b"ProcessAwaitFraudCheckService"),
        ("tpf-tenant-id", b"tenant-1"),
        ("tpf-execution-id", b"execution-1"),
        ("tpf-interaction-id", b"interaction-1"),
        ("tpf-correlation-id", b"correlation-1"),
        ("tpf-response-topic", b"answers"),
        ("tpf-idempotency-key", b"ProcessAwaitFraudCheckService:orderId=7:item=3"),
    )
    envelope = json.loads(record.value)
    token = envelope.pop("resumeToken")
    assert list(envelope.items()) == [
        ("tenantId", "tenant-1"),
        ("executionId", "execution-1"),
        ("interactionId", "interaction-1"),
        ("correlationId", "correlation-1"),
        ("stepId", "ProcessAwaitFraudCheckService"),
        ("deadlineEpochMs", 1_700_000_060_000),
        ("inputType", "Order"),
        ("outputType", "Verdict"),
        ("requestPayload", {"orderId": "7", "amount": "12.50"}),
        (
            "transportMetadata",
            {
                "adapter": "kafka",
                "requestTopic": "requests",
                "responseTopic": "answers",
                "keyStrategy": "correlationId",
                "key": "correlation-1",
                "consumerGroup": "orders-app",
                "dispatchedAtEpochMs": 1_700_000_000_001,
                "idempotencyKey": "ProcessAwaitFraudCheckService:orderId=7:item=3",
            },
        ),
    ]
    claims = SIGNER.verify(token)
    assert (claims.interaction_id, claims.step_id) == ("interaction-1", "ProcessAwaitFraudCheckService")
    assert (claims.deadline_epoch_ms, claims.issued_at_epoch_ms) == (1_700_000_060_000, 1_700_000_000_000)


def test_keys_of_the_envelope_stand_in_the_order_of_the_reference():
    assert list(json.loads(request().value)) == [
        "tenantId", "executionId", "interactionId", "correlationId", "stepId", "deadlineEpochMs", "inputType",
        "outputType", "resumeToken", "requestPayload", "transportMetadata",
    ]  # fmt: skip


def test_dispatch_keys_by_interaction_id_by_default():
    """T07."""
    record = request(step_over(CASE, request={"topic": "requests"}))
    metadata = json.loads(record.value)["transportMetadata"]
    assert record.key == b"interaction-1"
    assert (metadata["keyStrategy"], metadata["key"]) == ("interactionId", "interaction-1")
    assert "consumerGroup" not in metadata


def test_dispatch_rejects_an_unknown_key_strategy():
    """T08."""
    with pytest.raises(TerminalError, match=r"Unsupported kafka await request\.key: orderId"):
        request(step_over(CASE, request={"topic": "requests", "key": "orderId"}))


def test_dispatch_fails_without_a_secret():
    """T09: what cannot be signed does not leave."""
    with pytest.raises(TerminalError, match="resume-token-secret must be configured"):
        request(signer=TokenSigner(()))


@pytest.mark.parametrize("topic", [None, "", " \t"])
def test_a_blank_topic_is_refused(topic):
    """T04."""
    with pytest.raises(TerminalError, match=r"requires request\.topic"):
        request(step_over(CASE, request={"topic": topic}))


def test_topics_are_trimmed():
    record = request(step_over(CASE, request={"topic": " requests "}, response={"topic": "answers\n"}))
    assert record.topic == "requests"
    assert dict(record.headers)["tpf-response-topic"] == b"answers"


def test_metadata_is_a_copy_each_time():
    """T03: what a caller does to it changes no request."""
    transport, step = KafkaTransport(SIGNER), step_over(CASE)
    before = transport.request_record(step, INTERACTION)
    transport.metadata(step, INTERACTION)["adapter"] = "other"
    assert transport.metadata(step, INTERACTION)["adapter"] == "kafka"
    assert transport.request_record(step, INTERACTION) == before
    assert json.loads(before.value or b"")["transportMetadata"] == transport.metadata(step, INTERACTION)


@pytest.mark.parametrize(
    "options",
    [{"consumer": {"group": "mine"}}, {"consumerGroup": "mine"}, {"consumer.group": "mine"}],
)
def test_the_consumer_group_has_two_spellings(options):
    assert KafkaTransport(SIGNER).metadata(step_over(CASE, **options), INTERACTION)["consumerGroup"] == "mine"


def test_texts_beyond_ascii_travel_as_utf8():
    interaction = replace(INTERACTION, idempotency_key="recipient=Zoë", request_payload={"recipient": "Zoë"})
    record = request(step_over(CASE, headers={"x-city": "Köln"}), interaction)
    assert dict(record.headers)["tpf-idempotency-key"] == "recipient=Zoë".encode()
    assert dict(record.headers)["x-city"] == "Köln".encode()
    assert "Zoë".encode() in record.value


def test_one_transport_serves_several_steps():
    transport = KafkaTransport(SIGNER)
    other = replace(step_over(CASE, request={"topic": "others"}), index=2)
    assert transport.request_record(step_over(CASE), INTERACTION).topic == "requests"
    assert transport.request_record(other, INTERACTION).topic == "others"
    assert transport.request_record(replace(other, index=1), INTERACTION).topic == "others"

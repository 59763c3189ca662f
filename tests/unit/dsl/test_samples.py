"""The six layout samples load unchanged, and mean what the contract says (12.1 to 12.4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpf_streams.core.step import (
    AwaitDefinition,
    Cardinality,
    CorrelationStrategy,
    OnItemTimeout,
    OnRowError,
    Parallelism,
    StepDefinition,
)
from tpf_streams.dsl import LoadedPipeline, load_pipeline

DATA = Path(__file__).parent / "data"
SECRET = "a secret that nothing may show!!"
ENVIRON = {"PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET": SECRET}
SAMPLES = sorted(DATA.glob("*.yaml"))


def load(name: str, **overrides: str) -> LoadedPipeline:
    return load_pipeline(DATA / f"{name}.yaml", environ=ENVIRON, settings_overrides=overrides)


def await_step(loaded: LoadedPipeline) -> AwaitDefinition:
    (step,) = [step for step in loaded.definition.steps if isinstance(step, AwaitDefinition)]
    return step


def test_there_are_six_samples():
    assert len(SAMPLES) == 6


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_loads(path):
    loaded = load_pipeline(path, environ=ENVIRON)
    services = [step.index for step in loaded.definition.steps if isinstance(step, StepDefinition)]
    assert sorted(loaded.bindings) == services
    assert loaded.warnings == []


def test_csv_payments_over_kafka():
    loaded = load("csv-payments.kafka")
    definition = loaded.definition
    assert (definition.pipeline_id, definition.application_id) == ("csv-payments", "csv-payments")
    assert definition.output_topic == "csv-payments-outputs"
    assert definition.publishes
    assert definition.ingests_objects
    assert [(step.step_id, step.cardinality) for step in definition.steps] == [
        ("ProcessCsvPaymentsInputService", Cardinality.ONE_TO_MANY),
        ("ProcessAwaitPaymentProviderService", Cardinality.ONE_TO_ONE),
        ("ProcessApprovedPaymentStatusService", Cardinality.ONE_TO_ONE),
        ("ProcessUnapprovedPaymentStatusService", Cardinality.ONE_TO_ONE),
        ("ProcessFinalizePaymentOutputService", Cardinality.ONE_TO_ONE),
    ]
    services = [step for step in definition.steps if isinstance(step, StepDefinition)]
    assert [(it.arms, it.inline, it.terminal) for it in services] == [
        (None, False, False),
        (("approved",), True, False),
        (("unapproved",), True, False),
        (None, True, True),
    ]
    step = await_step(loaded)
    assert step.timeout_ms == 300_000
    assert step.correlation is CorrelationStrategy.SIGNED_RESUME_TOKEN
    assert step.require_token
    assert step.idempotency_fields == ("csvId", "recipient", "amount", "currency")
    assert step.decimal_fields == {"amount"}
    assert step.arms == ("approved", "unapproved")
    assert step.on_item_timeout is OnItemTimeout.FAIL_UNIT
    transport = step.transport
    assert (transport.type, transport.live, transport.owed) == ("kafka", True, False)
    assert transport.endpoint == "kafka://csv-payments.payment.requests"
    assert transport.options == {
        "request": {"topic": "csv-payments.payment.requests", "key": "correlationId"},
        "response": {"topic": "csv-payments.payment.results"},
        "consumer": {"group": "csv-payments-orchestrator"},
    }


def test_csv_payments_objects():
    loaded = load("csv-payments.kafka")
    source, publish = loaded.source, loaded.publish
    assert source is not None
    assert publish is not None
    assert (source.name, source.root, source.directory) == ("csv-payment-files", "./csv", DATA / "csv")
    assert (source.include, source.exclude, source.prefix) == (("*.csv",), (), "")
    assert (source.poll_enabled, source.poll_interval_ms, source.batch_size) == (True, 10_000, 50)
    assert source.identity_fields == ("provider", "container", "key", "etag")
    assert (source.encoding, source.on_row_error) == ("utf-8", OnRowError.REJECT_ROW)
    assert (publish.root, publish.directory, publish.key_template) == ("./out", DATA / "out", "{groupKey}.out")
    assert publish.content_type == "text/csv"
    assert (publish.on_existing, publish.quirks) == ("version", "none")
    noted = {note.split(": ")[1] for note in loaded.notes if "accepted and unused" in note or "workers" in note}
    assert {
        "sources.csv-payment-files.poll",
        "publish.csv-payment-output-files.grouping.maxOpenGroups",
    } <= noted, "nothing is accepted and then ignored (contract 0.19)"


def test_sqs_is_live_only_when_its_poller_owns_the_response_queue():
    queue = "http://127.0.0.1:9324/000000000000/csv-payment-results"
    poller = {"tpf.await.sqs.poller.enabled": "true"}
    off = await_step(load("csv-payments.sqs")).transport
    assert (off.type, off.live, off.owed) == ("sqs", False, True)
    assert off.endpoint == "sqs://http://127.0.0.1:9324/000000000000/csv-payment-requests"
    assert not await_step(load("csv-payments.sqs", **poller)).transport.live
    other = poller | {"tpf.await.sqs.response-queue-url": queue + "-2"}
    assert not await_step(load("csv-payments.sqs", **other)).transport.live
    owned = load("csv-payments.sqs", **poller | {"tpf.await.sqs.response-queue-url": queue})
    assert await_step(owned).transport.live
    assert not any("durable path" in note for note in owned.notes)
    assert any("durable path" in note for note in load("csv-payments.sqs").notes)


def test_fraud_check_over_a_webhook():
    step = await_step(load("fraud-check.webhook"))
    assert step.index == 0
    assert step.step_id == "ProcessFraudCheckService"
    assert (step.transport.endpoint, step.transport.live, step.transport.owed) == (None, False, True)
    assert step.transport.options == {
        "request": {"url": "http://127.0.0.1:8085/fraud-check"},
        "method": "POST",
        "callback": {"baseUrl": "http://127.0.0.1:6066"},
    }


def test_fraud_check_over_kafka_keeps_its_header():
    assert await_step(load("fraud-check.kafka")).transport.options["headers"] == {"x-source": "tpf"}


def test_restaurant_approval_needs_no_secret():
    loaded = load_pipeline(DATA / "restaurant-approval.yaml", environ={})
    definition = loaded.definition
    assert definition.pipeline_id == "restaurant-approval"
    assert definition.resume_token_secrets == ()
    step = await_step(loaded)
    assert (step.transport.type, step.require_token, step.group) == ("interaction-api", False, "restaurantName")
    assert (step.transport.endpoint, step.transport.live, step.transport.owed) == (None, False, False)
    assert step.arms == ("accepted", "declined")
    assert any("pipeline.id-secret: not set" in note for note in loaded.notes)
    assert any("runtimeLayout: accepted and unused" in note for note in loaded.notes)
    assert any("pipeline.transport: accepted; the pipeline runs LOCAL" in note for note in loaded.notes)


def test_defaults_are_the_contracts():
    definition = load("csv-payments.kafka").definition
    assert definition.parallelism is Parallelism.AUTO
    assert (definition.window, definition.budget, definition.budget_enabled) == (128, 128, True)
    assert definition.limits.max_payload_bytes == 262_144
    assert definition.limits.max_aggregate_bytes == 3_145_728
    assert definition.limits.early_rows_max == 10_000
    assert not definition.strict_envelopes
    assert definition.id_secret == "csv-payments"


def test_no_secret_is_shown_anywhere():
    previous = "an older secret of the same kind"
    loaded = load(
        "csv-payments.kafka",
        **{"pipeline.orchestrator.resume-token-previous-secrets": previous, "pipeline.id-secret": "digest key"},
    )
    assert loaded.definition.resume_token_secrets == (SECRET, previous)
    shown = f"{loaded!r} {loaded} {loaded.settings!r} {loaded.settings} {list(loaded.settings.shown())}"
    shown += f" {loaded.settings.given('pipeline.orchestrator.resume-token-secret')!r} {loaded.notes}"
    for secret in (SECRET, previous, "digest key"):
        assert secret not in shown
    assert "***" in shown

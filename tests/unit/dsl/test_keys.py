"""The tables of keys are true: what they call honoured is read, and what else is written never passes in silence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tpf_streams.dsl.document import MapNode
from tpf_streams.dsl.keys import Key, Kind, Table
from tpf_streams.dsl.keys_root import ROOT
from tpf_streams.dsl.report import Report
from tpf_streams.dsl.section import Section
from tpf_streams.dsl.setting import Status
from tpf_streams.dsl.settings_table import FAMILIES, SETTINGS

DSL = Path(__file__).parents[3] / "tpf_streams" / "dsl"


def tables(table: Table) -> Iterator[Table]:
    yield table
    for key in (*table.keys.values(), *((table.each,) if table.each else ())):
        for inner in ([key.table] if key.table else []) + list(key.variants.tables.values() if key.variants else []):
            yield from tables(inner)


def keys() -> list[tuple[str, Key]]:
    return [pair for table in tables(ROOT) for pair in table.keys.items()]


def test_every_honoured_key_is_read_somewhere():
    readers = "".join(path.read_text(encoding="utf-8") for path in DSL.glob("*.py") if not path.stem.startswith("keys"))
    honoured = {name for name, key in keys() if key.status is Status.HONOURED and not key.setting}
    unread = {name for name in honoured if f'"{name}"' not in readers}
    assert unread - {"inputTypeName", "outputTypeName"} == set()
    assert 'other = f"{side}TypeName"' in readers


def test_every_key_is_explained_and_every_setting_exists():
    for name, key in keys():
        assert key.help.endswith("."), name
        assert bool(key.why) is (key.status is not Status.HONOURED), name
        assert not key.setting or key.setting in SETTINGS, name
        assert key.kind is not Kind.CHOICE or key.choices, name
        assert key.kind is not Kind.INTEGER or key.maximum > 0, name


def test_every_default_is_one_that_may_be_written():
    for table in tables(ROOT):
        for name, key in table.keys.items():
            if key.default is None:
                continue
            report = Report()
            section = Section(report, "f", MapNode({}, 1, 1), table)
            readers = {
                Kind.FLAG: section.flag,
                Kind.INTEGER: section.integer,
                Kind.DURATION: section.duration_ms,
                Kind.CHOICE: section.word,
                Kind.TEXTS: section.texts,
            }
            assert readers.get(key.kind, section.raw_text)(name) is not None, name
            assert not [it for it in report.problems if it.key == name], name


def test_a_key_that_stands_in_no_table_cannot_be_read():
    with pytest.raises(KeyError, match="colour"):
        Section(Report(), "f", MapNode({}, 1, 1), ROOT).text("colour")


CONTRACT_11 = """
mode default-tenant pipeline-id release-version execution-ttl-days lease-ms max-retries retry-delay retry-multiplier
max-circuit-deferral sweep-interval sweep-limit idempotency-policy state-provider dispatcher-provider dlq-provider
queue-url dlq-url resume-token-secret await-aggregate-max-input-items await-aggregate-max-output-items strict-startup
dynamo.execution-table dynamo.await-admission-table dynamo.region dynamo.endpoint-override sqs.poll-start-delay
sqs.region sqs.endpoint-override sqs.local-loopback tenancy.allowed-tenants tenancy.require-explicit-tenant
quotas.max-in-flight-transitions-per-tenant worker.execution-mode worker.max-in-flight worker.saturated-delay
worker.allowed-payload-prefixes worker.rest.base-url worker.rest.server-enabled worker.rest.shared-secret
worker.grpc.endpoint worker.grpc.max-inbound-message-size worker.sqs.queue-url control-plane.enabled admin.enabled
"""
ELSEWHERE = """
pipeline.await-admission.enabled pipeline.await-admission.store pipeline.await-admission.retry-wait-ms
pipeline.max-concurrency pipeline.parallelism pipeline.max-recursive-depth pipeline.transport pipeline.platform
tpf.await.kafka.reactive-messaging.enabled tpf.await.sqs.poller.enabled tpf.await.sqs.response-queue-url
tpf.await.sqs.poll-start-delay tpf.await.sqs.visibility-timeout tpf.await.sqs.completion-timeout
tpf.await.sqs.wait-time-seconds tpf.await.sqs.max-messages tpf.checkpoint.kafka.publisher.enabled
tpf.checkpoint.kafka.consumer.enabled pipeline.handoff.bindings.orders.targets.a.kind pipeline.telemetry.enabled
pipeline.telemetry.metrics.enabled pipeline.telemetry.tracing.enabled pipeline.telemetry.tracing.per-item
pipeline.telemetry.replay.enabled pipeline.telemetry.replay.exporter pipeline.telemetry.replay.file.path
pipeline.defaults.retry-limit pipeline.defaults.retry-wait-ms pipeline.defaults.max-backoff pipeline.defaults.jitter
pipeline.defaults.recover-on-failure mp.messaging.incoming.tpf-await-kafka-responses.topic
"""


def test_no_key_of_the_contract_is_unknown():
    named = [f"pipeline.orchestrator.{key}" for key in CONTRACT_11.split()] + ELSEWHERE.split()
    families = tuple(family.prefix for family in FAMILIES)
    assert [key for key in named if key not in SETTINGS and not key.startswith(families)] == []

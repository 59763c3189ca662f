"""The kafka log of a pipeline: its connection, and the topics that it needs."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tpf_streams.core.step import AwaitDefinition, Cardinality, PipelineDefinition
from tpf_streams.dsl.load import LoadedPipeline
from tpf_streams.dsl.settings import Settings
from tpf_streams.errors import DefinitionError, Problem
from tpf_streams.logs.kafka import KafkaClient, KafkaLog, KafkaSettings, TopicSpec, TopicUse
from tpf_streams.runtime.open_log import identity_of
from tpf_streams.stores.rocksdb import RocksDbStateStore, rocksdb_options

ENVELOPE_BYTES = 64 * 1024
"""What stands around a payload in a request or an output, at most."""


async def open_kafka_log(loaded: LoadedPipeline, data_dir: Path, kafka: KafkaSettings | None = None) -> KafkaLog:
    """Reach the cluster, make or check the topics. `kafka`: how, where the settings do not say it.

    Raises LogError, LogMismatchError, DefinitionError, OSError.
    """
    settings = loaded.settings
    options, _ = rocksdb_options(settings.integer("rocksdb.memory-bytes"))
    return await KafkaLog.open(
        kafka or kafka_settings(settings, loaded.definition.application_id),
        data_dir,
        lambda path: RocksDbStateStore(path, options),
        topics=list(topics_of(loaded)),
        identity=identity_of(loaded.definition),
    )


async def open_kafka_client(loaded: LoadedPipeline, *, read_uncommitted: bool = False) -> KafkaClient:
    """For who answers: reach the cluster, make or check the request and response topics.

    `read_uncommitted`: readers also see requests whose transaction may fail. Raises LogError, LogMismatchError,
    DefinitionError.
    """
    settings = kafka_settings(loaded.settings, loaded.definition.application_id)
    if read_uncommitted:
        settings = replace(settings, readers_isolation="read_uncommitted")
    client = await KafkaClient.open(settings)
    try:
        await client.ensure([spec for spec in topics_of(loaded) if spec.use in (TopicUse.REQUESTS, TopicUse.RESPONSES)])
    except BaseException:
        await client.close()
        raise
    return client


@asynccontextmanager
async def open_history(loaded: LoadedPipeline) -> AsyncIterator[KafkaClient]:
    """For who only looks: the application's topics as they are; none is created. Raises LogError, DefinitionError."""
    client = await KafkaClient.open(kafka_settings(loaded.settings, loaded.definition.application_id))
    try:
        yield client
    finally:
        await client.close()


def kafka_settings(settings: Settings, application_id: str, security: Mapping[str, Any] | None = None) -> KafkaSettings:
    """`security`: the client's arguments, where the settings do not say them. Raises DefinitionError for certificates
    that cannot be read."""
    return KafkaSettings(
        settings.required_text("kafka.bootstrap.servers"),
        application_id,
        partitions=settings.integer("topology.partitions"),
        replication=settings.integer("topology.replication"),
        create_topics=settings.flag("create-topics"),
        transaction_timeout_ms=settings.millis("kafka.transaction-timeout"),
        session_timeout_ms=settings.millis("kafka.session-timeout"),
        lifecycle_ms=settings.millis("lifecycle.retention"),
        lifecycle_bytes=settings.integer("lifecycle.retention-bytes"),
        security=_security(settings) if security is None else security,
    )


def _security(settings: Settings) -> dict[str, Any]:
    protocol = settings.required_text("kafka.security.protocol")
    security: dict[str, Any] = {"security_protocol": protocol}
    if protocol.startswith("SASL"):
        security["sasl_mechanism"] = settings.required_text("kafka.sasl.mechanism")
        security["sasl_plain_username"] = _needed(settings, "kafka.sasl.username", protocol)
        security["sasl_plain_password"] = _needed(settings, "kafka.sasl.password", protocol)
    if protocol.endswith("SSL"):
        security["ssl_context"] = _ssl_context(settings)
    return security


def _needed(settings: Settings, key: str, protocol: str) -> str:
    found = settings.text(key)
    if not found:
        raise DefinitionError([Problem("settings", 0, key, f"needed with kafka.security.protocol {protocol}")])
    return found


def _ssl_context(settings: Settings) -> ssl.SSLContext:
    own, key = settings.text("kafka.ssl.certfile"), settings.text("kafka.ssl.keyfile")
    try:
        context = ssl.create_default_context(cafile=settings.text("kafka.ssl.cafile"))
        if own:
            context.load_cert_chain(own, key, settings.text("kafka.ssl.password"))
    except (OSError, ssl.SSLError) as error:
        problem = Problem("settings", 0, "kafka.ssl", f"a certificate cannot be read: {error}")
        raise DefinitionError([problem]) from error
    return context


def topics_of(loaded: LoadedPipeline) -> Iterator[TopicSpec]:
    """The user's topics that the pipeline reads and writes. One named by several steps must serve them all."""
    found: dict[str, TopicSpec] = {}
    for spec in _wanted(loaded):
        other = found.setdefault(spec.name, spec)
        if other is not spec:
            found[spec.name] = _both(other, spec)
    yield from found.values()


def _wanted(loaded: LoadedPipeline) -> Iterator[TopicSpec]:
    definition, settings = loaded.definition, loaded.settings
    partitions = settings.integer("topology.topic-partitions")
    append_time = settings.text("await.arrival-time") == "append"
    for step in definition.steps:
        if not isinstance(step, AwaitDefinition) or step.transport.type != "kafka":
            continue
        options, size = step.transport.options, _payload_bytes(definition, step) + ENVELOPE_BYTES
        yield TopicSpec(options["request"]["topic"].strip(), TopicUse.REQUESTS, partitions, size)
        yield TopicSpec(
            options["response"]["topic"].strip(),
            TopicUse.RESPONSES,
            partitions,
            retention_ms=step.timeout_ms,
            append_time=append_time,
        )
    yield TopicSpec(
        definition.output_topic, TopicUse.OUTPUTS, partitions, definition.limits.max_payload_bytes + ENVELOPE_BYTES
    )


def _payload_bytes(definition: PipelineDefinition, step: AwaitDefinition) -> int:
    limits = definition.limits
    return limits.max_payload_bytes if step.cardinality is Cardinality.ONE_TO_ONE else limits.max_aggregate_bytes


def _both(one: TopicSpec, other: TopicSpec) -> TopicSpec:
    return TopicSpec(
        one.name,
        one.use,
        one.partitions,
        max(one.record_bytes, other.record_bytes),
        retention_ms=max(one.retention_ms or 0, other.retention_ms or 0) or None,
        append_time=one.append_time or other.append_time,
    )

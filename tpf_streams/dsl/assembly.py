"""Puts checked pieces together into core definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tpf_streams.core.joining import INPUT_ITEMS, OUTPUT_ITEMS
from tpf_streams.core.step import (
    AnyStep,
    AwaitDefinition,
    Limits,
    OnItemFailure,
    OnRowError,
    Parallelism,
    PipelineDefinition,
    StepDefinition,
    TransportSpec,
)
from tpf_streams.dsl.completion import Boundary
from tpf_streams.dsl.naming import is_topic, kebab_case
from tpf_streams.dsl.policy import PREVIOUS, SECRET
from tpf_streams.dsl.reading import Reading
from tpf_streams.dsl.report import shown
from tpf_streams.dsl.routing import Way
from tpf_streams.dsl.setting import SecretText
from tpf_streams.dsl.settings import Settings
from tpf_streams.dsl.steps import AwaitKeys, ParsedStep
from tpf_streams.dsl.types import TypeRegistry
from tpf_streams.errors import Problem

_DAY_MS = 86_400_000
_APPLICATION_ID_MAX = 249 - len("-dead-letters")


@dataclass(frozen=True, slots=True)
class Outline:
    """The names of a pipeline. `awaits`: the transport of each await step by the step's name, where it could be read;
    `problems`: what is wrong so far."""

    pipeline_id: str
    application_id: str
    output_topic: str
    settings: Settings
    awaits: Mapping[str, TransportSpec]
    problems: tuple[Problem, ...] = ()


def outline(reading: Reading, problems: tuple[Problem, ...] = ()) -> Outline:
    settings = reading.settings
    pipeline_id = settings.text("pipeline.orchestrator.pipeline-id") or kebab_case(reading.app_name)
    application_id = settings.text("pipeline.application-id") or pipeline_id
    topic = settings.text("publish.topic") or f"{application_id}-outputs"
    awaits = {step.name: step.awaits.transport for step in reading.steps if step.awaits and step.awaits.transport}
    return Outline(pipeline_id, application_id, topic, settings, awaits, problems)


def service_step(step: ParsedStep, way: Way, *, last: bool) -> StepDefinition:
    return StepDefinition(
        index=step.index,
        name=step.name,
        step_id=step.step_id,
        cardinality=step.cardinality,
        input_type=step.input_type,
        output_type=step.output_type,
        inline=step.inline,
        terminal=last,
        service=step.service,
        arms=way.arms,
    )


def _await_step(
    step: ParsedStep, keys: AwaitKeys, transport: TransportSpec, boundary: Boundary, types: TypeRegistry
) -> AwaitDefinition:
    union, record = types.unions.get(step.output_type), types.records.get(step.input_type)
    decimals = [field.name for field in record.fields if field.type == "decimal"] if record else []
    return AwaitDefinition(
        index=step.index,
        name=step.name,
        step_id=step.step_id,
        cardinality=step.cardinality,
        input_type=step.input_type,
        output_type=step.output_type,
        timeout_ms=keys.timeout_ms,
        transport=transport,
        correlation=keys.correlation,
        require_token=keys.require_token,
        idempotency_fields=keys.idempotency_fields,
        assignee=keys.assignee,
        group=keys.group,
        on_item_timeout=keys.on_item_timeout,
        arms=tuple(union.arms) if union else (),
        decimal_fields=frozenset(decimals),
        convert=types.converter(step.output_type),
        transport_input_type=boundary.input_type,
        transport_output_type=boundary.output_type,
        to_transport=boundary.to_transport,
        completion=boundary.completion,
    )


def _step(
    step: ParsedStep, way: Way, boundaries: Mapping[int, Boundary], types: TypeRegistry, *, last: bool
) -> AnyStep:
    keys = step.awaits
    if keys is None:
        return service_step(step, way, last=last)
    assert keys.transport is not None  # a transport that could not be read is a problem, and ends the load before this
    return _await_step(step, keys, keys.transport, boundaries[step.index], types)


def assemble(reading: Reading, ways: Sequence[Way], boundaries: Mapping[int, Boundary]) -> PipelineDefinition:
    """The definition of a file that was read and connected without a problem; names of topics may still be illegal."""
    settings, source = reading.settings, reading.source
    names = outline(reading)
    application_id = names.application_id
    _check_topics(reading, application_id, names.output_topic)
    return PipelineDefinition(
        pipeline_id=names.pipeline_id,
        app_name=reading.app_name,
        steps=tuple(
            _step(step, way, boundaries, reading.types, last=step is reading.steps[-1])
            for step, way in zip(reading.steps, ways, strict=True)
        ),
        application_id=application_id,
        id_secret=SecretText(settings.text("pipeline.id-secret") or application_id),
        limits=limits(settings),
        parallelism=Parallelism(settings.required_text("pipeline.parallelism")),
        on_item_failure=OnItemFailure(settings.required_text("onItemFailure")),
        on_row_error=source.on_row_error if source else OnRowError(settings.required_text("onRowError")),
        encoding=source.encoding if source else settings.required_text("encoding"),
        budget_enabled=settings.flag("pipeline.await-admission.enabled"),
        resume_token_secrets=_secrets(settings),
        strict_envelopes=settings.flag("strict-envelopes"),
        output_topic=names.output_topic,
        publishes=reading.publish is not None,
        ingests_objects=source is not None,
    )


def limits(settings: Settings) -> Limits:
    return Limits(
        max_concurrency=settings.integer("pipeline.max-concurrency"),
        max_payload_bytes=settings.integer("pipeline.max-payload-bytes"),
        max_aggregate_bytes=settings.integer("pipeline.max-aggregate-bytes"),
        max_aggregate_input_items=settings.integer(INPUT_ITEMS),
        max_aggregate_output_items=settings.integer(OUTPUT_ITEMS),
        early_rows_max=settings.integer("await.early-rows-max"),
        sweep_limit=settings.integer("pipeline.orchestrator.sweep-limit"),
        max_retries=settings.integer("pipeline.orchestrator.max-retries"),
        retry_delay_ms=settings.millis("pipeline.orchestrator.retry-delay"),
        retry_multiplier=settings.number("pipeline.orchestrator.retry-multiplier"),
        execution_ttl_ms=settings.integer("pipeline.orchestrator.execution-ttl-days") * _DAY_MS,
        identity_ttl_ms=settings.millis("ingest.identity-ttl"),
    )


def _secrets(settings: Settings) -> tuple[str, ...]:
    """The signing secret first (contract 0.13)."""
    first = settings.text(SECRET)
    return () if first is None else (first, *settings.texts(PREVIOUS))


def _check_topics(reading: Reading, application_id: str, topic: str) -> None:
    """Topics are named after the application, so its id must be part of a legal name."""
    if not is_topic(application_id) or len(application_id) > _APPLICATION_ID_MAX:
        message = (
            f"{shown(application_id)}: topics begin with it, so letters, digits, dots, dashes and underscores are "
            f"allowed, at most {_APPLICATION_ID_MAX}"
        )
        keys = ("pipeline.application-id", "pipeline.orchestrator.pipeline-id")
        _at_setting_or_root(reading, keys, "appName", message)
    elif not is_topic(topic):
        _at_setting_or_root(reading, ("publish.topic",), "appName", f"{shown(topic)}: not a legal topic name")


def _at_setting_or_root(reading: Reading, keys: Sequence[str], root_key: str, message: str) -> None:
    given = next((found for key in keys if (found := reading.settings.given(key))), None)
    if given is not None:
        given.problem(reading.root.report, message)
    else:
        reading.root.problem(root_key, message)

"""Puts checked pieces together into core definitions."""

from __future__ import annotations

from collections.abc import Sequence

from tpf_streams.core.step import (
    AnyStep,
    AwaitDefinition,
    Limits,
    OnItemFailure,
    OnRowError,
    Parallelism,
    PipelineDefinition,
    StepDefinition,
)
from tpf_streams.dsl.naming import is_topic, kebab_case
from tpf_streams.dsl.objects import ObjectPublishConfig, ObjectSourceConfig
from tpf_streams.dsl.policy import PREVIOUS, SECRET
from tpf_streams.dsl.report import Report, shown
from tpf_streams.dsl.routing import Way
from tpf_streams.dsl.setting import SecretText
from tpf_streams.dsl.settings import Settings
from tpf_streams.dsl.steps import ParsedStep

_LONGEST_TOPIC_SUFFIX = len("-dead-letters")


def build_steps(steps: Sequence[ParsedStep], ways: Sequence[Way]) -> list[AnyStep]:
    return [
        _await_step(step) or _service_step(step, way, step is steps[-1]) for step, way in zip(steps, ways, strict=True)
    ]


def _service_step(step: ParsedStep, way: Way, last: bool) -> StepDefinition:
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


def _await_step(step: ParsedStep) -> AwaitDefinition | None:
    keys = step.awaits
    if keys is None or keys.transport is None:
        return None
    return AwaitDefinition(
        index=step.index,
        name=step.name,
        step_id=step.step_id,
        cardinality=step.cardinality,
        input_type=step.input_type,
        output_type=step.output_type,
        timeout_ms=keys.timeout_ms,
        transport=keys.transport,
        correlation=keys.correlation,
        require_token=keys.require_token,
        idempotency_fields=keys.idempotency_fields,
        assignee=keys.assignee,
        group=keys.group,
        on_item_timeout=keys.on_item_timeout,
    )


def assemble(
    app_name: str,
    settings: Settings,
    steps: Sequence[AnyStep],
    source: ObjectSourceConfig | None,
    publish: ObjectPublishConfig | None,
    report: Report,
) -> PipelineDefinition:
    pipeline_id = settings.text("pipeline.orchestrator.pipeline-id") or kebab_case(app_name)
    application_id = settings.text("pipeline.application-id") or pipeline_id
    topic = settings.text("publish.topic") or f"{application_id}-outputs"
    _check_topics(settings, application_id, topic, report)
    return PipelineDefinition(
        pipeline_id=pipeline_id,
        app_name=app_name,
        steps=tuple(steps),
        application_id=application_id,
        id_secret=SecretText(settings.text("pipeline.id-secret") or application_id),
        limits=limits(settings),
        parallelism=Parallelism(settings.required_text("pipeline.parallelism")),
        on_item_failure=OnItemFailure(settings.required_text("onItemFailure")),
        encoding=source.encoding if source else settings.required_text("encoding"),
        on_row_error=source.on_row_error if source else OnRowError(settings.required_text("onRowError")),
        budget_enabled=settings.flag("pipeline.await-admission.enabled"),
        resume_token_secrets=_secrets(settings),
        strict_envelopes=settings.flag("strict-envelopes"),
        output_topic=topic,
        publishes=publish is not None,
        ingests_objects=source is not None,
    )


def limits(settings: Settings) -> Limits:
    return Limits(
        max_concurrency=settings.integer("pipeline.max-concurrency"),
        max_payload_bytes=settings.integer("pipeline.max-payload-bytes"),
        max_aggregate_bytes=settings.integer("pipeline.max-aggregate-bytes"),
        early_rows_max=settings.integer("await.early-rows-max"),
        sweep_limit=settings.integer("pipeline.orchestrator.sweep-limit"),
    )


def _secrets(settings: Settings) -> tuple[str, ...]:
    """The signing secret first (contract 0.13)."""
    first = settings.text(SECRET)
    return () if first is None else (first, *settings.texts(PREVIOUS))


def _check_topics(settings: Settings, application_id: str, topic: str, report: Report) -> None:
    """Topics are named after the application, so its id must be part of a legal name."""
    if not is_topic(application_id) or len(application_id) > 249 - _LONGEST_TOPIC_SUFFIX:
        _told(
            settings,
            "pipeline.application-id",
            report,
            f"{shown(application_id)}: topics begin with it, so letters, "
            "digits, dots, dashes and underscores are allowed, 236 at most",
        )
    if not is_topic(topic):
        _told(settings, "publish.topic", report, f"{shown(topic)}: not a legal topic name")


def _told(settings: Settings, key: str, report: Report, message: str) -> None:
    given = settings.given(key) or settings.given("pipeline.orchestrator.pipeline-id")
    if given is not None:
        given.problem(report, message)
    else:
        report.problem("pipeline", 0, key, message)

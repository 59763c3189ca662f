"""The resolved topology of a pipeline as plain JSON: steps, segments, topics, stores, transports, defaults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from tpf_streams.core.step import AnyStep, AwaitDefinition, PipelineDefinition
from tpf_streams.dsl.load import LoadedPipeline
from tpf_streams.logs.kafka.topics import internal_topics
from tpf_streams.runtime.kafka import topics_of
from tpf_streams.runtime.loading import unsupported_transports
from tpf_streams.runtime.views import KINDS, Answer


def topology_of(loaded: LoadedPipeline) -> Answer:
    """Durations are in milliseconds, sizes in bytes; a secret shows as `***`."""
    definition = loaded.definition
    return {
        "appName": definition.app_name,
        "applicationId": definition.application_id,
        "pipelineId": definition.pipeline_id,
        "parallelism": definition.parallelism.value,
        "window": definition.window,
        "steps": [described(step, definition) for step in definition.steps],
        "segments": list(segments_of(definition)),
        "types": _types(loaded),
        "topics": _topics(loaded),
        "stores": {
            "rows": list(KINDS),
            "partitions": loaded.settings.integer("topology.partitions"),
            "memoryBytes": loaded.settings.integer("rocksdb.memory-bytes"),
        },
        "source": _end(loaded.source),
        "publish": _end(loaded.publish),
        "settings": [
            {"name": key, "value": value, "where": where}
            for key, value, where in loaded.settings.shown()
            if loaded.settings.is_given(key)
        ],
        "defaults": [{"name": it.key, "value": it.value, "where": it.where} for it in loaded.defaults],
        "notes": [*loaded.notes, *unsupported_transports(definition)],
        "warnings": list(loaded.warnings),
    }


def described(step: AnyStep, definition: PipelineDefinition) -> Answer:
    """One step, with its transport where it awaits."""
    found: Answer = {
        "index": step.index,
        "name": step.name,
        "stepId": step.step_id,
        "kind": "await" if isinstance(step, AwaitDefinition) else "service",
        "cardinality": step.cardinality.value,
        "input": step.input_type,
        "output": step.output_type,
        "arms": list(step.arms) if step.arms else None,
    }
    if not isinstance(step, AwaitDefinition):
        return found | {"service": step.service, "inline": step.inline, "terminal": step.terminal}
    return found | {
        "transport": step.transport.type,
        "endpoint": step.transport.endpoint,
        "timeoutMs": step.timeout_ms,
        "live": step.transport.live,
        "options": dict(step.transport.options),
        "budget": definition.budget if step.transport.endpoint and definition.budget_enabled else None,
        "correlation": step.correlation.value,
        "requireToken": step.require_token,
        "idempotencyFields": list(step.idempotency_fields),
        "assignee": step.assignee,
        "group": step.group,
        "onItemTimeout": step.on_item_timeout.value,
        "transportInput": step.transport_input_type,
        "transportOutput": step.transport_output_type,
        "projector": step.completion.projector if step.completion else None,
    }


def segments_of(definition: PipelineDefinition) -> Iterator[Answer]:
    """Each run of service steps, and the step that it stops before: one that awaits or takes many; None: the end."""
    index, count = 0, len(definition.steps)
    while index <= count:
        end = definition.segment_end(index)
        steps = [step.name for step in definition.segment(index)]
        if steps or end < count:
            until = definition.steps[end].name if end < count else None
            yield {"steps": steps, "stream": definition.stream_from(index) is not None, "until": until}
        index = end if end < count and not definition.steps[end].awaits else end + 1


def _types(loaded: LoadedPipeline) -> dict[str, Any]:
    """A record as its fields, a union as its arms."""
    records = {
        name: {field.name: f"{field.type}{' (optional)' if field.optional else ''}" for field in record.fields}
        for name, record in loaded.types.records.items()
    }
    unions = {name: {"arms": dict(union.arms)} for name, union in loaded.types.unions.items()}
    return {name: {"fields": fields} for name, fields in records.items()} | unions


def _topics(loaded: LoadedPipeline) -> list[Answer]:
    """On the local log the same ones lie in the data directory, but for the changelog."""
    own = internal_topics(loaded.definition.application_id, loaded.settings.integer("topology.partitions"))
    return [{"name": it.name, "use": it.use.value, "partitions": it.partitions} for it in (*own, *topics_of(loaded))]


def _end(config: Any) -> Answer | None:
    if config is None:
        return None
    return {name: str(value) if name == "directory" else value for name, value in asdict(config).items()}

"""The replay document (contract 10.3): one execution's topology and everything that became true of it, from its
lifecycle events alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from tpf_streams.core.step import AnyStep, AwaitDefinition, PipelineDefinition, StepDefinition
from tpf_streams.engine.lifecycle import LifecycleEvent

Part: TypeAlias = dict[str, Any]

_ENDS = {"success": "completed", "error": "failed", "cancelled": "failed"}
_IN_ATTRIBUTES = {
    "unit_id": "unit_id",
    "execution_id": "execution_id",
    "step_id": "step_id",
    "step_index": "step_index",
    "interaction_id": "interaction_id",
    "correlation_id": "correlation_id",
    "transport": "transport",
    "item_index": "item_index",
}
_IN_DETAIL = {
    "status": "status",
    "expectedItemCount": "expected_item_count",
    "completedItemCount": "completed_item_count",
    "rejectedItemCount": "rejected_item_count",
    "dispatchComplete": "dispatch_complete",
}


def pipeline_part(definition: PipelineDefinition) -> Part:
    """What a document needs to know of the pipeline, as plain JSON: who asks may not have it at hand."""
    limits = {
        "application": definition.application_id,
        "parallelism": definition.parallelism.value,
        "window": definition.window,
        "maxConcurrency": definition.limits.max_concurrency,
    }
    return {
        "pipeline": definition.pipeline_id,
        "parameters": _section("pipeline", "Pipeline", limits),
        "topology": _topology(definition),
    }


def head(pipeline: Part, events: Sequence[LifecycleEvent]) -> Part:
    """The document without its events. `status` is `running` until the execution has ended. `events`: at least one."""
    first, last = events[0], events[-1]
    end = next((event for event in events if event.name in _ENDS), None)
    why = (end.detail or {}) if end is not None else {}
    return _present(
        {
            "pipeline": pipeline["pipeline"],
            "startedAt": datetime.fromtimestamp(first.at_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            "durationMs": (end or last).at_ms - first.at_ms,
            "status": "running" if end is None else _ENDS[end.name],
            "failureType": why.get("errorCode"),
            "failureMessage": why.get("errorMessage"),
            "runParameters": {"sections": [_execution_section(events), pipeline["parameters"]]},
            "topology": pipeline["topology"],
        }
    )


def whole(events: Sequence[LifecycleEvent]) -> bool:
    """Whether the execution's first event is still there."""
    return events[0].name == "start"


def parts(pipeline: Part, events: Iterable[LifecycleEvent], began_ms: int) -> Iterator[Part]:
    """The document's `events`, in their order. `began_ms`: of the execution's first one."""
    for event in events:
        yield _part(pipeline, event, (event.at_ms - began_ms) / 1000)


def _part(pipeline: Part, event: LifecycleEvent, at_s: float) -> Part:
    steps = pipeline["topology"]["steps"]
    step = steps[step_index(steps, event)]
    detail = event.detail or {}
    following = step
    if event.name == "await_resume_released" and step["index"] + 1 < len(steps):
        following = steps[step["index"] + 1]
    return _present(
        {
            "traceId": (event.execution_id or "").replace("-", ""),
            "itemId": _item_id(event),
            "pipeline": pipeline["pipeline"],
            "step": step["step"],
            "service": step.get("service"),
            "event": event.name,
            "startTime": at_s,
            "endTime": at_s,
            "durationMs": 0,
            "from": step["step"],
            "to": following["step"],
            "cardinality": step["cardinality"],
            "sequence": event.number,
            "errorType": detail.get("errorCode"),
            "errorMessage": detail.get("errorMessage"),
            "attributes": _attributes(event),
        }
    )


def step_index(steps: Sequence[Part], event: LifecycleEvent) -> int:
    """Where an event belongs: its await step, else the first step for the beginning, the last for everything else."""
    if event.step_index is not None and event.step_index < len(steps):
        return event.step_index
    return 0 if event.name in ("start", "execution_duplicate") else len(steps) - 1


def _item_id(event: LifecycleEvent) -> str | None:
    if event.unit_id is not None:
        return event.unit_id
    return event.execution_id if event.item_index is None else f"item-{event.item_index:06d}"


def _attributes(event: LifecycleEvent) -> dict[str, str]:
    """Texts only: contract 10.3."""
    found: dict[str, Any] = {name: getattr(event, field) for field, name in _IN_ATTRIBUTES.items()}
    detail = dict(event.detail or {})
    for name in ("errorCode", "errorMessage"):
        detail.pop(name, None)
    found |= {_IN_DETAIL.get(name, name): value for name, value in detail.items()}
    if event.name == "await_unit_dispatch_complete":
        found["dispatch_complete"] = True
    return {f"tpf.await.{name}": _text(value) for name, value in found.items() if value is not None}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _execution_section(events: Sequence[LifecycleEvent]) -> Part:
    submitted: Mapping[str, Any] = (events[0].detail or {}) if whole(events) else {}
    run = {
        "executionId": events[0].execution_id,
        "executionKey": submitted.get("executionKey"),
        "tenantId": submitted.get("tenantId"),
        "source": submitted.get("source"),
    }
    return _section("execution", "Execution", run)


def _section(name: str, label: str, values: Mapping[str, object]) -> Part:
    entries = [{"key": key, "label": key, "value": str(value)} for key, value in values.items() if value is not None]
    return {"id": name, "label": label, "entries": entries}


def _topology(definition: PipelineDefinition) -> Part:
    steps = definition.steps
    pairs = [(before, steps[index]) for before in steps for index in _following(steps, before)]
    return {
        "pipeline": definition.pipeline_id,
        "steps": [_shown(step) for step in steps],
        "transitions": [_transition(before, after) for before, after in pairs],
    }


def _following(steps: Sequence[AnyStep], before: AnyStep) -> Iterator[int]:
    """Where what a step gives may go: steps that take some arms of a union stand side by side (contract 12.2)."""
    left = set(before.arms or ())
    for step in steps[before.index + 1 :]:
        taken = set(step.arms or ()) if isinstance(step, StepDefinition) else set()
        if taken and left and not taken & left:
            continue
        yield step.index
        left -= taken
        if not taken or not left:
            return


def _shown(step: AnyStep) -> Part:
    awaits = isinstance(step, AwaitDefinition)
    return _present(
        {
            "runtimeStepClass": step.step_id,
            "step": step.name,
            "service": service_of(step),
            "cardinality": _dashed(step),
            "index": step.index,
            "sideEffect": False,
            "renderRole": "await" if awaits else "step",
            "actorKind": "external" if awaits else "service",
        }
    )


def _transition(before: AnyStep, after: AnyStep) -> Part:
    return _present(
        {
            "id": f"{before.index}-{after.index}",
            "fromRuntimeStepClass": before.step_id,
            "toRuntimeStepClass": after.step_id,
            "from": before.name,
            "to": after.name,
            "fromService": service_of(before),
            "toService": service_of(after),
            "cardinality": _dashed(after),
            "relationKind": "sequence",
        }
    )


def service_of(step: AnyStep) -> str | None:
    """The callable of a service step, the transport of an await step."""
    return step.service if isinstance(step, StepDefinition) else step.transport.type


def _dashed(step: AnyStep) -> str:
    return step.cardinality.value.lower().replace("_", "-")


def _present(part: Part) -> Part:
    """Contract 10.3: what is None is left out."""
    return {name: value for name, value in part.items() if value is not None}

"""Every default that a load took: keys of the file that were left out, and settings that nobody gave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tpf_streams.core.step import AwaitDefinition, PipelineDefinition
from tpf_streams.dsl.report import Default
from tpf_streams.dsl.setting import Setting, Status
from tpf_streams.dsl.settings import Settings
from tpf_streams.dsl.settings_table import SETTINGS


def defaults_of(
    definition: PipelineDefinition, settings: Settings, left_out: Sequence[Default], file: str
) -> list[Default]:
    """First what is left out in the file, in its order, then settings that have an effect and leave a choice."""
    made = dict(_made(definition))
    found = list(left_out)
    for setting in SETTINGS.values():
        value = made.get(setting.key, setting.default)
        matters = setting.status is Status.HONOURED and setting.leaves_choice
        if value is not None and matters and not settings.is_given(setting.key):
            found.append(Default(setting.key, value, _places(setting, file)))
    return found


def _made(definition: PipelineDefinition) -> Iterator[tuple[str, str]]:
    """Defaults that are made from other values."""
    awaits = any(isinstance(step, AwaitDefinition) for step in definition.steps)
    yield "pipeline.orchestrator.mode", "QUEUE_ASYNC" if awaits else "SYNC"
    yield "pipeline.orchestrator.pipeline-id", definition.pipeline_id
    yield "pipeline.application-id", definition.application_id
    yield "pipeline.id-secret", "the application id"
    yield "publish.topic", definition.output_topic
    yield "pipeline.transport", "LOCAL"
    yield "pipeline.platform", "COMPUTE"
    if awaits:
        yield "await.correlation.require-token", "for signedResumeToken"


def _places(setting: Setting, file: str) -> str:
    place = setting.place.replace("`", "") or "settings:"
    return f"{place} in {file}, {setting.env_names[0]}, or --set"

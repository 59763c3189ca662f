"""What stands against running a pipeline that is valid."""

from __future__ import annotations

from tpf_streams.core.step import AwaitDefinition, PipelineDefinition
from tpf_streams.errors import DefinitionError, Problem
from tpf_streams.transports.registry import PROVIDERS


def check_runnable(definition: PipelineDefinition, file: str) -> None:
    """Raises DefinitionError with every transport that does not run yet."""
    stops = unsupported_transports(definition)
    if stops:
        raise DefinitionError([Problem(file, 0, "steps", text) for text in stops])


def unsupported_transports(definition: PipelineDefinition) -> list[str]:
    """Transports that load and validate and do not run yet, one line each."""
    return [
        f"step {step.name!r}: transport {step.transport.type} does not run yet; {', '.join(PROVIDERS)} do"
        for step in definition.steps
        if isinstance(step, AwaitDefinition) and step.transport.type not in PROVIDERS
    ]

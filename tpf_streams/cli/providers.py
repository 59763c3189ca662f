"""`--simulate-provider`: a provider for each kafka await step, in this process, by way of the topics only."""

from __future__ import annotations

from dataclasses import asdict

from tpf_streams.cli.console import Exit, fail
from tpf_streams.core.step import AwaitDefinition, PipelineDefinition, StepDefinition
from tpf_streams.ports import Clock, Log
from tpf_streams.testing.provider import SimulatedProvider, load_answer, parse_provider_spec


def simulated_providers(spec: str, definition: PipelineDefinition, log: Log, clock: Clock) -> list[SimulatedProvider]:
    """One for each pair of request and response topic. Exits for a bad spec, and where there is nothing to simulate."""
    try:
        options = parse_provider_spec(spec)
        answer, actor = load_answer(_steps_module(definition))
    except ValueError as error:
        fail(f"--simulate-provider: {error}", Exit.USAGE)
    pairs = dict.fromkeys(
        (step.transport.options["request"]["topic"], step.transport.options["response"]["topic"])
        for step in simulated_steps(definition)
    )
    if not pairs:
        fail("--simulate-provider: no step of this pipeline awaits over kafka", Exit.USAGE)
    return [
        SimulatedProvider(log, request, response, clock=clock, builder=answer, actor=actor, **asdict(options))
        for request, response in pairs
    ]


def simulated_steps(definition: PipelineDefinition) -> list[AwaitDefinition]:
    """The await steps that a simulated provider can answer."""
    return [step for step in definition.steps if isinstance(step, AwaitDefinition) and step.transport.type == "kafka"]


def _steps_module(definition: PipelineDefinition) -> str:
    """The module of the pipeline's first callable: the provider stands beside it."""
    for step in definition.steps:
        if isinstance(step, StepDefinition) and step.service:
            return step.service.partition(":")[0]
    raise ValueError("no step names a service beside which a provider could stand")

"""Simulated providers for the kafka await steps of a pipeline, by way of the topics only."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tpf_streams.core.step import AwaitDefinition, PipelineDefinition, StepDefinition
from tpf_streams.ports import Clock, ReaderSource
from tpf_streams.testing.provider import Answer, ProviderOptions, SimulatedProvider, load_answer


@dataclass(frozen=True, slots=True)
class Simulation:
    """What answers a pipeline's requests, and the pairs of request and response topic that it answers on."""

    pairs: list[tuple[str, str]]
    answer: Answer
    actor: str

    @classmethod
    def of(cls, definition: PipelineDefinition) -> Simulation:
        """Raises ValueError where there is nothing to simulate, or no `answer` beside the steps."""
        pairs = dict.fromkeys(
            (step.transport.options["request"]["topic"], step.transport.options["response"]["topic"])
            for step in simulated_steps(definition)
        )
        if not pairs:
            raise ValueError("no step of this pipeline awaits over kafka")
        return cls(list(pairs), *load_answer(_steps_module(definition)))

    def providers(
        self, options: ProviderOptions, source: ReaderSource, clock: Clock, group: str | None = None
    ) -> list[SimulatedProvider]:
        """One for each pair."""
        how = {"builder": self.answer, "actor": self.actor, "group": group, **asdict(options)}
        return [SimulatedProvider(source, request, response, clock=clock, **how) for request, response in self.pairs]


def simulated_steps(definition: PipelineDefinition) -> list[AwaitDefinition]:
    """The await steps that a simulated provider can answer."""
    return [step for step in definition.steps if isinstance(step, AwaitDefinition) and step.transport.type == "kafka"]


def _steps_module(definition: PipelineDefinition) -> str:
    """The module of the pipeline's first callable: the provider stands beside it."""
    for step in definition.steps:
        if isinstance(step, StepDefinition) and step.service:
            return step.service.partition(":")[0]
    raise ValueError("no step names a service beside which a provider could stand")

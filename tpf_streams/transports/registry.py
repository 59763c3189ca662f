"""From a pipeline to the transports of its await steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tpf_streams.core.step import AwaitDefinition, PipelineDefinition
from tpf_streams.core.token import TokenSigner
from tpf_streams.errors import DefinitionError, Problem, TerminalError
from tpf_streams.ports import AwaitTransport
from tpf_streams.transports.interaction_api import InteractionApiTransport
from tpf_streams.transports.kafka import KafkaTransport


class PreparedTransport(AwaitTransport, Protocol):
    """A transport that can say at start what is wrong with a step, before anything is dispatched."""

    def prepare(self, step: AwaitDefinition) -> None:
        """Check the step's own keys. Raises TerminalError."""
        ...


PROVIDERS: dict[str, Callable[[TokenSigner], PreparedTransport]] = {
    "kafka": KafkaTransport,
    "interaction-api": lambda signer: InteractionApiTransport(),
}
"""Every transport type there is; a new one is added here and to tests/contract/test_transport.py."""


def transports_for(definition: PipelineDefinition, signer: TokenSigner) -> dict[str, AwaitTransport]:
    """One transport per type that the pipeline's await steps name, checked against all of these steps.

    Raises DefinitionError with every problem found: a type without an adapter, a missing or bad key.
    """
    transports: dict[str, PreparedTransport] = {}
    problems: list[Problem] = []
    for step in definition.steps:
        if isinstance(step, AwaitDefinition):
            try:
                transport = transports.get(step.transport.type) or _provider(step)(signer)
                transport.prepare(step)
                transports[step.transport.type] = transport
            except TerminalError as error:
                key = f"steps[{step.index}].await.transport"
                problems.append(Problem(definition.pipeline_id, 0, key, f"{step.name}: {error}"))
    if problems:
        raise DefinitionError(problems)
    return dict(transports)


def _provider(step: AwaitDefinition) -> Callable[[TokenSigner], PreparedTransport]:
    provider = PROVIDERS.get(step.transport.type.lower())
    if provider is None:
        raise TerminalError(f"No AwaitTransportAdapter provider is available for type {step.transport.type}")
    return provider

"""The callables and types of a loaded pipeline, as the engine asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

from tpf_streams.core.step import AwaitDefinition, Json, PipelineDefinition
from tpf_streams.dsl.types import TypeRegistry
from tpf_streams.ports import BoundStep


class PipelineBindings:
    """ports.Bindings. What flows into a step has the declared type of what flows out of the step before it."""

    def __init__(self, definition: PipelineDefinition, types: TypeRegistry, steps: Mapping[int, BoundStep]) -> None:
        self._steps = steps
        self._decoders: dict[int, Callable[[Json], object]] = {}
        self._encoders: dict[int, Callable[[object], Json]] = {}
        for index, name in enumerate(flows(definition)):
            self._decoders[index] = types.converter(name)
            self._encoders[index] = types.encoder(name)

    def step(self, index: int) -> BoundStep:
        return self._steps[index]

    def decode(self, index: int, payload: Json) -> object:
        return self._decoders[index](payload)

    def encode(self, index: int, value: object) -> Json:
        return self._encoders[index](value)


def flows(definition: PipelineDefinition) -> list[str]:
    """The type that flows into each step, and at the end the one that flows out.

    Behind an await that is its output type, arms and all: a step that takes one arm does not narrow it for the others.
    """
    steps = definition.steps
    names = [steps[0].input_type]
    for before, step in pairwise(steps):
        names.append(before.output_type if isinstance(before, AwaitDefinition) else step.input_type)
    return [*names, steps[-1].output_type]

"""What pipelines with lists must give, and whether they did: a model of lists that knows no streams, rows or turns.

A list flows from step to step. A service step is what `steps` says; an await step gives what was admitted for the very
request that stands in the model. So whatever was swapped, lost, doubled or joined out of order shows as another list.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import orjson

from tests.simulation.shadow import Shadow, Violation
from tests.simulation.steps import as_list, mark, seal, split, takes
from tests.simulation.world import World
from tpf_streams.core.execution import ExecutionRecord, ExecutionStatus
from tpf_streams.core.interaction import InteractionStatus
from tpf_streams.core.step import AnyStep, AwaitDefinition, ItemReject, Json


class NoAnswerError(Exception):
    """An item stands at an await step, and nothing was admitted for it."""


@dataclass(slots=True)
class Model:
    """One execution of a pipeline, by its steps. `answers`: of (step, request) what was admitted."""

    world: World
    answers: dict[tuple[int, bytes], Json]

    @classmethod
    def of(cls, world: World, execution: ExecutionRecord) -> Model:
        shadow, answers = world.auditor.shadow, {}
        for row in shadow.of_execution(b"i", execution.execution_id):
            if row.status is InteractionStatus.COMPLETED:
                answers[row.step_index, _bytes(shadow.request(world.pipeline, row))] = shadow.answer(
                    world.pipeline, row
                )
        return cls(world, answers)

    def outputs(self, key: str, version: int) -> list[Json]:
        """What comes out, in order, of the source as of a version. Raises NoAnswerError."""
        pipeline, sources = self.world.pipeline, self.world.sources
        steps = list(pipeline.definition.steps)
        if pipeline.streams:
            flowing = [it for it in sources.elements(key, version) if not isinstance(it, ItemReject)]
            steps.pop(0)
        else:
            flowing = as_list(sources.input(key, listed=pipeline.listed))
        for step in steps:
            flowing = self._behind(step, flowing)
        return flowing

    def _behind(self, step: AnyStep, flowing: list[Json]) -> list[Json]:
        if isinstance(step, AwaitDefinition):
            if step.joins and step.expands and not flowing:
                return []
            asked = [flowing] if step.joins else flowing
            return [part for request in asked for part in as_list(self._answer(step, request))]
        if step.joins:
            return [mark(step.index, it) for it in flowing] if step.expands else [_joined(step.index, flowing)]
        if step.expands:
            return [part for value in flowing for part in split(step.index, value)]
        selective = self.world.pipeline.calls[step.index].selective
        return [mark(step.index, it) if takes(selective, it) else it for it in flowing]

    def _answer(self, step: AwaitDefinition, request: Json) -> Json:
        found = self.answers.get((step.index, _bytes(request)))
        if found is None:
            raise NoAnswerError(f"step {step.index} was not asked, or not answered: {request}")
        return found


def _joined(index: int, values: list[Json]) -> Json:
    return mark(index, seal(values))


def _bytes(value: Json) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def lists_hold(world: World, execution: ExecutionRecord) -> None:
    """The outputs of an execution that succeeded without losing an item are those of the model."""
    shadow = world.auditor.shadow
    _rows_once(shadow, execution)
    lost = any(row.item_index is not None for row in shadow.of_execution(b"r", execution.execution_id))
    if execution.status is not ExecutionStatus.SUCCEEDED or lost:
        return
    rows = sorted(shadow.of_execution(b"o", execution.execution_id), key=lambda row: row.item_index or 0)
    found = [payload for row in rows for payload in row.payloads]
    model, key = Model.of(world, execution), execution.execution_key
    wanted: list[object] = []
    for version in range(world.sources.versions[key] + 1):
        try:
            wanted.append(model.outputs(key, version))
        except NoAnswerError as error:
            wanted.append(str(error))
    if found not in wanted:
        raise Violation(f"{key} gave {found}, its steps and answers {wanted}")
    if execution.summary is None or execution.summary.outputs != len(found):
        raise Violation(f"{execution.summary} in the summary of {found}")
    world.lists_checked += 1


def _rows_once(shadow: Shadow, execution: ExecutionRecord) -> None:
    """No item stands in two places of a list, and each list is there without a gap where its step was asked."""
    for step_index, parts in shadow.lists_of(execution.execution_id).items():
        payloads = [_bytes(payload) for part in parts for payload in part.payloads]
        twice = [payload for payload, count in Counter(payloads).items() if count > 1]
        if twice:
            raise Violation(f"the list before step {step_index} of {execution.execution_key} holds {twice} twice")

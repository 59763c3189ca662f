"""What is asked about the await units of an execution: where each of its waits stands."""

from __future__ import annotations

from tpf_streams.core.execution import ExecutionRecord
from tpf_streams.core.identity import IdFactory
from tpf_streams.core.step import AwaitDefinition
from tpf_streams.core.unit import AwaitUnitRecord
from tpf_streams.runtime.asked import Arguments, Asked
from tpf_streams.runtime.asked_interactions import InteractionQuestions
from tpf_streams.runtime.views import Answer


class UnitQuestions:
    """Answers by command name."""

    def __init__(self, asked: Asked, interactions: InteractionQuestions) -> None:
        self._asked = asked
        self._interactions = interactions
        self._ids = IdFactory(asked.definition.id_secret)
        self.commands = {"units": self.units}

    async def units(self, arguments: Arguments) -> Answer:
        """The last unit of each await step that the execution has come to; with its interaction, where it has a single
        one. Those of a stream are counted: there may be any number."""
        execution = self._asked.execution(arguments)
        steps = [step for step in self._asked.definition.steps if isinstance(step, AwaitDefinition)]
        return {"units": [shown for step in steps if (shown := self._last(execution, step)) is not None]}

    def _last(self, execution: ExecutionRecord, step: AwaitDefinition) -> Answer | None:
        """A redriven execution keeps what earlier generations got; the newest one that was here counts."""
        of = (execution.tenant_id, execution.execution_id, step.step_id, step.index)
        for generation in range(execution.generation, -1, -1):
            ids = self._ids.unit(*of, generation)
            unit = self._asked.views.unit(ids.unit_id)
            if unit is not None:
                single = None if unit.itemized else self._asked.views.interaction(ids.interaction_id(None))
                return {**_shown(step, unit), "interaction": single and self._interactions.whole(single)}
        return None


def _shown(step: AwaitDefinition, unit: AwaitUnitRecord) -> Answer:
    return {
        "unitId": unit.unit_id,
        "step": step.name,
        "stepId": unit.step_id,
        "stepIndex": unit.step_index,
        "generation": unit.generation,
        "status": unit.status.value,
        "itemized": unit.itemized,
        "expectedItemCount": unit.expected_item_count,
        "completedItemCount": unit.completed_item_count,
        "rejectedItemCount": unit.rejected_item_count,
        "createdAtEpochMs": unit.created_at_epoch_ms,
        "updatedAtEpochMs": unit.updated_at_epoch_ms,
    }

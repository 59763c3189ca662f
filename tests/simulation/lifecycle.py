"""The lifecycle topic beside the outputs, and beside the rows: it tells all of what happened, and nothing else."""

from __future__ import annotations

from collections import Counter

from tests.lifecycle import ANSWERED, DisagreementError, agree
from tests.simulation.pipelines import OUTPUTS
from tests.simulation.shadow import Violation
from tests.simulation.world import World
from tpf_streams.core.execution import ExecutionStatus
from tpf_streams.core.interaction import InteractionStatus
from tpf_streams.engine.lifecycle import lifecycle_topic


def lifecycle_holds(world: World) -> None:
    topic = lifecycle_topic(world.pipeline.definition.application_id)
    try:
        last = max(0, len(world.pipeline.definition.course.streams) - 1)
        verdict = agree(world.log.read(topic), world.log.read(OUTPUTS), last_stream=last)
    except DisagreementError as error:
        raise Violation(str(error)) from error
    shadow = world.auditor.shadow
    if set(verdict.stories) != {row.execution_id for row in shadow.executions}:
        raise Violation(f"lifecycle events of {set(verdict.stories)}, and rows of {shadow.executions}")
    ends = {"success": ExecutionStatus.SUCCEEDED, "error": ExecutionStatus.FAILED, "cancelled": ExecutionStatus.FAILED}
    for row in shadow.executions:
        story = verdict.stories[row.execution_id]
        if ends[story.end or ""] is not row.status:
            raise Violation(f"the lifecycle tells of {story.end}: {row}")
        if story.rows_rejected + len(story.rejected) != len(shadow.of_execution(b"r", row.execution_id)):
            raise Violation(f"the lifecycle tells of other rejects: {story}")
    told = Counter(end for story in verdict.stories.values() for end in story.closed.values())
    shown = Counter(
        ANSWERED if row.status is InteractionStatus.COMPLETED else f"await_interaction_{row.status.value.lower()}"
        for row in shadow.interactions
        if row.status.terminal
    )
    if told != shown:
        raise Violation(f"the lifecycle tells of {told}, rows show {shown}")

"""Why an execution failed, or an item was rejected: only for a reason that a fault of this world explains."""

from __future__ import annotations

from tests.simulation.shadow import Violation
from tests.simulation.steps import BROKE, REFUSED
from tests.simulation.world import World
from tpf_streams.core.execution import ExecutionRecord, RejectRecord
from tpf_streams.core.interaction import InteractionRecord, InteractionStatus
from tpf_streams.core.step import OnItemFailure, OnItemTimeout

_OF_INTERACTIONS = {
    "AWAIT_TIMEOUT": InteractionStatus.TIMED_OUT,
    "AWAIT_CANCELLED": InteractionStatus.CANCELLED,
    "DISPATCH_FAILED": InteractionStatus.FAILED,
}


def explained(world: World, execution: ExecutionRecord, reject: RejectRecord | None = None) -> None:
    """Raises Violation for an end that nothing explains. `reject`: the end of one item of it."""
    code = (execution.error_code or "") if reject is None else reject.reason.split(":")[0]
    if not _explains(world, execution, reject, code):
        raise Violation(f"nothing explains {code}: {reject or execution}")


def _explains(world: World, execution: ExecutionRecord, reject: RejectRecord | None, code: str) -> bool:
    key = execution.execution_key
    if code in _OF_INTERACTIONS:
        rows = world.auditor.shadow.of_execution(b"i", execution.execution_id)
        return any(row.status is _OF_INTERACTIONS[code] and _ends(world, row, reject) for row in rows)
    planned = {place: times for place, times in world.failures.planned.items() if place[1] == key}
    match code:
        case "CANCELLED":
            return execution.execution_id in world.auditor.cancelled
        case "INTERNAL_ERROR":
            return world.bugs > 0
        case "SOURCE_CHANGED":
            return world.sources.versions[key] > 0
        case "INVALID_PAYLOAD":
            return bool(world.sources.keyless[key]) and any(step.idempotency_fields for step in world.pipeline.awaits)
        case "AGGREGATE_LIMIT":
            return world.pipeline.definition.limits.max_aggregate_input_items == 6
        case "PUBLISH_FAILED":
            return world.pipeline.definition.publishes
        case _ if code not in (BROKE, REFUSED):
            return False
        case _ if reject is not None:
            failing = world.pipeline.definition.on_item_failure
            drained = execution.error_code in (BROKE, REFUSED) or failing is OnItemFailure.REJECT_ITEM
            return bool(planned) and (drained or execution.error_code is not None)
    if code == REFUSED:
        return 0 in planned.values()
    # The steps of a segment share its tries, and so do the elements of a source; a scalar segment as a whole has more.
    rounds = 1 if world.pipeline.streams else 1 + world.pipeline.definition.limits.max_retries
    return 0 in planned.values() or sum(planned.values()) >= (1 + world.retries) * rounds


def _ends(world: World, row: InteractionRecord, reject: RejectRecord | None) -> bool:
    """Whether the end of this interaction ends its item (a reject), or its whole execution."""
    step = next(step for step in world.pipeline.awaits if step.index == row.step_index)
    itemwise = row.item_index is not None and step.on_item_timeout is OnItemTimeout.REJECT_ITEM
    if row.item_index is not None and row.status is InteractionStatus.FAILED:
        # A dispatch that failed follows onItemFailure: the item is rejected, and the stream drains where it says so.
        drains = world.pipeline.definition.on_item_failure is OnItemFailure.FAIL_EXECUTION
        return drains if reject is None else row.item_index == reject.item_index
    if reject is None:
        return not itemwise
    return itemwise and row.item_index == reject.item_index

"""Counters beside what they count: units, summaries, facts and dead letters say what rows and topics show."""

from __future__ import annotations

from collections import Counter

from tests.simulation.ends import EXECUTION_LETTER
from tests.simulation.shadow import Violation
from tests.simulation.world import World
from tpf_streams.core.execution import ExecutionRecord, ExecutionStatus
from tpf_streams.core.interaction import InteractionStatus
from tpf_streams.core.unit import AwaitUnitRecord, UnitStatus
from tpf_streams.engine.wire import EVENT_HEADER, REASON_HEADER, SOURCE_HEADER, dead_letters_topic

_REFUSED = {"invalid_payload", "payload_too_large", "payload too large"}


def units_count(world: World, execution: ExecutionRecord) -> None:
    """A unit is ended when its execution is; a completed one counts its own answers and what it lost."""
    shadow = world.auditor.shadow
    for unit in shadow.of_execution(b"u", execution.execution_id):
        rows = [row for row in shadow.of_execution(b"i", execution.execution_id) if row.unit_id == unit.unit_id]
        if not unit.status.terminal or any(not row.status.terminal for row in rows):
            raise Violation(f"an ended execution has an open unit: {unit}")
        if unit.generation != execution.generation:
            continue
        if unit.status is not UnitStatus.COMPLETED:
            if execution.status is ExecutionStatus.SUCCEEDED:
                raise Violation(f"an execution succeeded over a failed unit: {unit}")
            continue
        here = [row for row in shadow.of_execution(b"i", execution.execution_id) if row.step_index == unit.step_index]
        # An item keeps the answer that an earlier generation got, and is counted in this one.
        if unit.generation and execution.status is ExecutionStatus.FAILED:
            continue  # a redrive that failed in its middle has not taken up everything
        answered = sum(1 for row in here if row.status is InteractionStatus.COMPLETED)
        items = len({row.item_index for row in here})
        firsts = {stream.awaited: stream.number for stream in world.pipeline.definition.course.streams}
        if unit.itemized and unit.step_index in firsts:
            # An item whose request could not be made is lost without a row.
            asked = {row.item_index for row in here}
            settled = shadow.settled(world.pipeline, execution.execution_id, firsts[unit.step_index])
            items += sum(1 for row in settled if row.item_index not in asked)
        wanted = (items, answered, items - answered)
        if _counted(unit) != wanted:
            raise Violation(f"a unit counts {_counted(unit)}, its rows are {wanted}: {unit}")


def _counted(unit: AwaitUnitRecord) -> tuple[int | None, int, int]:
    return unit.expected_item_count, unit.completed_item_count, unit.rejected_item_count


def summary_counts(world: World, execution: ExecutionRecord) -> None:
    """The summary of a stream that went to its end."""
    shadow, summary = world.auditor.shadow, execution.summary
    if (
        not world.pipeline.streams
        or world.pipeline.shaped
        or summary is None
        or execution.status is not ExecutionStatus.SUCCEEDED
    ):
        return
    outcomes = shadow.of_execution(b"o", execution.execution_id)
    rejects = shadow.of_execution(b"r", execution.execution_id)
    rows = sum(1 for row in rejects if row.item_index is None)
    given = sum(1 for row in outcomes if row.payloads)
    found = (summary.items, summary.outputs, summary.rejected_rows, summary.rejected_items)
    if found != (len(outcomes), given, rows, len(rejects) - rows):
        raise Violation(f"{found} in the summary, rows show {len(outcomes)}, {given}, {rows}: {execution}")
    arms = Counter(row.arm for row in outcomes if row.arm is not None)
    if dict(summary.by_arm) != dict(arms):
        raise Violation(f"by arm {summary.by_arm}, rows show {arms}")


def facts_count(world: World) -> None:
    """Metrics count facts once (contract 0.10). A crash may swallow some, nothing may double them."""
    if world.sync == "interval":
        return
    shadow = world.auditor.shadow
    ended = sum(1 for row in shadow.executions if row.status.terminal)
    answered = sum(1 for row in shadow.interactions if row.status is InteractionStatus.COMPLETED)
    bounds = {
        "completion.admitted.total": answered,
        "interaction.created.total": len(shadow.interactions),
        "interaction.dispatched.total": len(shadow.interactions),
        "unit.terminal.total": len(shadow.tables[b"u"]),
        "execution.terminal.total": ended + world.redrives,
        "execution.redriven.total": world.redrives,
        "execution.submitted.total": len(shadow.executions),
    }
    for name, most in bounds.items():
        # Whether a request whose interaction ended without an answer has left, its acknowledgement can tell no more.
        sure = {"interaction.dispatched.total": answered, "execution.redriven.total": 0}.get(name, most)
        least = 0 if world.blinks else sure
        if name == "execution.terminal.total" and not world.blinks:
            least = ended + world.facts["execution.redriven.total"]
        if not least <= world.facts[name] <= most:
            raise Violation(f"{name} was told {world.facts[name]} times, rows show {most}")


def dead_letters(world: World) -> None:
    """What nobody can use is kept, once, and nothing else is. Letters of executions are judged turn by turn."""
    letters: Counter[str] = Counter()
    raised = 0
    for record in world.log.read(dead_letters_topic(world.pipeline.definition.application_id)):
        headers = dict(record.headers)
        reason = headers[REASON_HEADER].decode()
        if headers[EVENT_HEADER] == EXECUTION_LETTER:
            continue
        if reason == "decision_raised":
            raised += 1
        elif reason not in _REFUSED:
            letters[headers[SOURCE_HEADER].decode()] += 1
    if raised > world.bugs:
        raise Violation(f"{raised} events set aside, {world.bugs} decisions raised")
    if letters != world.poison:
        raise Violation(f"dead letters {letters}, poison {world.poison}")

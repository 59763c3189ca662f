"""The invariants I1 to I10 of `tpf_streams.core`, held against the rows of a world after every decision."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tpf_streams.core import effects as fx
from tpf_streams.core.execution import ExecutionRecord, OutputRecord, OwedKind, OwedRecord, PartRecord
from tpf_streams.core.interaction import InteractionRecord, InteractionStatus
from tpf_streams.core.state import Decision
from tpf_streams.core.step import AwaitDefinition
from tpf_streams.core.unit import AwaitUnitRecord, UnitStatus

if TYPE_CHECKING:
    from tests.properties.world import World

PERFORMED = (OwedKind.SLOT, OwedKind.SEND, OwedKind.RELEASE, OwedKind.CLOSE, OwedKind.PUBLISH)


class Laws:
    """Remembers what is final, and compares."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ended_interactions: dict[str, InteractionRecord] = {}
        self.ended_executions: dict[str, ExecutionRecord] = {}
        self.ended_units: dict[str, AwaitUnitRecord] = {}
        self.settled: dict[bytes, OutputRecord | PartRecord] = {}

    def durable_now(self) -> dict[str, bool]:
        """Which executions run without a live session, before the decision."""
        sessions = {it.execution_id: self.world.session(it.execution_id) for it in self.world.executions()}
        return {execution_id: session is not None and not session.live for execution_id, session in sessions.items()}

    def check(self, durable: dict[str, bool], decision: Decision) -> None:
        interactions = self.world.interactions()
        owed = self.world.owed()
        executions = self.world.executions()
        self.interactions_end_once(interactions)
        self.deadlines_stand_for_open_interactions(interactions)
        self.slots_are_accounted_for(interactions, owed)
        self.what_is_owed_is_under_way(owed)
        self.dispatches_are_owed_for_waiting_requests(interactions, owed)
        for execution in executions:
            self.items_settle_once(execution)
            self.ended_executions_rest(execution, owed, interactions)
            self.units_count(execution)
        self.gates_are_passed(durable, decision)

    def interactions_end_once(self, interactions: list[InteractionRecord]) -> None:
        """I1, I2."""
        for row in interactions:
            ended = self.ended_interactions.get(row.interaction_id)
            assert ended is None or row == ended, "I1: an interaction changed after its end"
            if row.status.terminal:
                self.ended_interactions[row.interaction_id] = row
        completed = sum(row.status is InteractionStatus.COMPLETED for row in interactions)
        assert self.world.facts["completion.admitted.total"] == completed, "I2"

    def deadlines_stand_for_open_interactions(self, interactions: list[InteractionRecord]) -> None:
        keys = self.world.state.keys
        wanted = {
            keys.deadline(row.deadline_epoch_ms, row.interaction_id) for row in interactions if not row.status.terminal
        }
        assert set(self.world.state.scan_keys(keys.all_deadlines())) == wanted, "I6"

    def slots_are_accounted_for(self, interactions: list[InteractionRecord], owed: list[OwedRecord]) -> None:
        """I5."""
        world = self.world
        held: Counter[tuple[str, int]] = Counter()
        for row in interactions:
            held[row.execution_id, row.step_index] += not row.status.terminal
        for work in owed:
            if work.holds_slot is not None:
                held[work.execution_id, work.holds_slot] += 1
        for execution_id, count in world.session_slots.items():
            held[execution_id, world.awaited(execution_id)] += count
        known = {place: count for place, count in held.items() if count and world.limited(place[1])}
        assert {place: count for place, count in world.slots.items() if count} == known, "I5"

    def what_is_owed_is_under_way(self, owed: list[OwedRecord]) -> None:
        """Owed work that nobody does would wait for the next crash."""
        under_way = [work.owed for work in self.world.work if not isinstance(work, fx.PublishObject)]
        for work in owed:
            if self.is_being_forgotten(work):
                continue
            if work.kind is OwedKind.PUBLISH:
                attempt = self.world.execution(work.execution_id).attempt
                assert fx.PublishObject(work.execution_id, attempt) in self.world.work
            elif work.kind is OwedKind.SEGMENT and work.execution_id in self.world.sources and work.item_index is None:
                assert self.world.sources[work.execution_id] == work
            else:
                assert under_way.count(work) == 1, f"{work.kind} of item {work.item_index} is not under way once"

    def dispatches_are_owed_for_waiting_requests(
        self, interactions: list[InteractionRecord], owed: list[OwedRecord]
    ) -> None:
        waiting = {row.interaction_id for row in interactions if row.status is InteractionStatus.WAITING}
        sends = {it.interaction_id for it in owed if it.kind is OwedKind.SEND and not self.is_being_forgotten(it)}
        assert sends <= waiting, "a dispatch is owed for an interaction that has ended, or is dispatched"

    def items_settle_once(self, execution: ExecutionRecord) -> None:
        """I3, I4."""
        world, session = self.world, self.world.session(execution.execution_id)
        rows = dict(world.state.scan(world.state.keys.outputs_of(execution.execution_id), OutputRecord))
        for key, row in rows.items():
            assert self.settled.setdefault(key, row) == row, "I3: an output changed"
            assert world.emitted[execution.execution_id, row.item_index] == len(row.payloads), "I3: emitted otherwise"
        for key, part in world.state.scan(world.state.keys.all_parts_of(execution.execution_id), PartRecord):
            assert self.settled.setdefault(key, part) == part, "I3: an item of a list changed"
        if session is None:
            return
        end, settled = world.definition.course.streams[session.stream].end, len(rows)
        if end < len(world.definition.steps):
            assert not rows, "I3: an output before the last stream"
            settled = len(world.state.scan_keys(world.state.keys.parts_of(execution.execution_id, end)))
        assert settled == session.settled, "I3"
        assert session.in_flight >= 0, "I4"
        assert not session.live or session.in_flight <= world.definition.window, "I4"

    def ended_executions_rest(
        self, execution: ExecutionRecord, owed: list[OwedRecord], interactions: list[InteractionRecord]
    ) -> None:
        """I7."""
        if not execution.status.terminal:
            return
        ended = self.ended_executions.setdefault(execution.execution_id, execution)
        assert execution == ended, "I7: an ended execution changed"
        mine_owed = [it for it in owed if it.execution_id == execution.execution_id]
        kinds = {work.kind for work in mine_owed if not self.is_being_forgotten(work)}
        assert kinds <= {OwedKind.CLOSE}, f"I7: an ended execution owes {kinds}"
        assert self.world.session(execution.execution_id) is None
        assert execution.execution_id not in self.world.sources
        mine = [row for row in interactions if row.execution_id == execution.execution_id]
        assert kinds or all(row.status.terminal for row in mine), "I7: an open interaction that nobody closes"

    def is_being_forgotten(self, work: OwedRecord) -> bool:
        """Whether `work` is of a failed execution whose owed rows go in bounded turns."""
        keys = self.world.state.keys
        closing = self.world.state.get(keys.owed(work.execution_id, OwedKind.CLOSE, None), OwedRecord)
        return closing is not None and work.kind is not OwedKind.CLOSE

    def units_count(self, execution: ExecutionRecord) -> None:
        for unit in self.units(execution):
            ended = self.ended_units.get(unit.unit_id)
            assert ended is None or unit == ended, "a unit changed after its end"
            answered = unit.completed_item_count + unit.rejected_item_count
            assert unit.expected_item_count is None or answered <= unit.expected_item_count
            if unit.status is UnitStatus.COMPLETED:
                assert (unit.dispatch_complete, answered) == (True, unit.expected_item_count)
                assert not self.is_dispatched_to(execution, unit) or answered == self.items_of(execution)
            if unit.status.terminal:
                self.ended_units[unit.unit_id] = unit

    def is_dispatched_to(self, execution: ExecutionRecord, unit: AwaitUnitRecord) -> bool:
        """Whether every item of the stream whose counts are known went to this unit."""
        streams, session = self.world.definition.course.streams, self.world.session(execution.execution_id)
        number = 0 if session is None else session.stream
        return unit.itemized and unit.step_index == streams[number].awaited

    def items_of(self, execution: ExecutionRecord) -> int:
        session = self.world.session(execution.execution_id)
        if session is not None:
            return session.next_item_index
        assert execution.summary is not None
        return execution.summary.items

    def gates_are_passed(self, durable: dict[str, bool], decision: Decision) -> None:
        """I9."""
        firsts = {it.awaited: it for it in self.world.definition.course.streams if it.awaited is not None}
        for effect in decision.effects:
            if isinstance(effect, fx.RunSegment) and effect.owed.step_index - 1 in firsts:
                execution = self.world.execution(effect.owed.execution_id)
                if effect.owed.item_index is None or not durable.get(execution.execution_id):
                    continue
                first = self.world.definition.steps[effect.owed.step_index - 1]
                assert isinstance(first, AwaitDefinition)
                unit = self.unit(execution, first)
                assert unit is not None and unit.dispatch_complete, "I9: dispatch was not complete"
                assert execution.await_unit_id == unit.unit_id, "I9: the execution was not parked"

    def unit(self, execution: ExecutionRecord, step: AwaitDefinition) -> AwaitUnitRecord | None:
        state = self.world.state
        return state.get(state.keys.unit(state.unit_ids(execution, step).unit_id), AwaitUnitRecord)

    def units(self, execution: ExecutionRecord) -> list[AwaitUnitRecord]:
        steps = [step for step in self.world.definition.steps if isinstance(step, AwaitDefinition)]
        return [unit for step in steps if (unit := self.unit(execution, step)) is not None]

    def check_end(self) -> None:
        """Nothing is stuck, lost or left behind."""
        world = self.world
        assert not world.work
        assert not world.owed()
        assert not world.open_ids()
        assert +world.slots == Counter()
        for execution in world.executions():
            assert execution.status.terminal, f"{execution.execution_id} is stuck as {execution.status}"
            assert all(unit.status.terminal for unit in self.units(execution))
            summary = execution.summary
            assert summary is not None
            rows = list(world.state.scan(world.state.keys.outputs_of(execution.execution_id), OutputRecord))
            if execution.error_code is None:
                assert self.world.definition.course.gathered or summary.items == len(rows)
                assert summary.outputs == sum(len(row.payloads) for _, row in rows)
        for event in list(world.history):
            world.again(event)

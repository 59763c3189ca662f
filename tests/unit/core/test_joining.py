"""Lists in the rows: how they come to be, what bounds them, and what never holds them twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.core.machine import Machine, pipeline
from tpf_streams.core import effects as fx
from tpf_streams.core import events as ev
from tpf_streams.core.execution import ExecutionStatus, OwedKind, PartRecord, Summary
from tpf_streams.core.interaction import InteractionStatus
from tpf_streams.core.joining import whole_request
from tpf_streams.core.parts import PAGE, ROWS_MAX, Parts, in_rows
from tpf_streams.core.step import OnItemFailure, SourceObject
from tpf_streams.core.unit import UnitStatus

ITEMS = [{"n": 0}, {"n": 1}, {"n": 2}]


def gathered(machine: Machine, execution_id: str, index: int) -> list[object]:
    return list(machine.state.parts(execution_id, index))


def request(machine: Machine) -> object:
    (sent,) = machine.take(fx.SendRequest)
    return sent.interaction.request_payload


class TestRequests:
    def test_a_stream_becomes_one_request_in_item_order(self):
        machine = Machine(pipeline("Sksk<"))
        execution_id = machine.stream(3, ended=True)
        for item in (2, 0, 1):
            machine.answer(machine.interaction(execution_id, 1, item), {"a": item})
        machine.take(fx.SendRequest)
        for effect in reversed(machine.take(fx.RunSegment)):
            machine.decide(ev.SegmentCompleted(effect.owed, [{"out": effect.owed.item_index}]))
        assert machine.execution(execution_id).status is ExecutionStatus.RUNNING
        machine.grant_slots()
        assert request(machine) == [{"out": 0}, {"out": 1}, {"out": 2}]
        execution, unit = machine.execution(execution_id), machine.unit(execution_id, 3)
        assert unit is not None
        assert (execution.status, execution.current_step_index) == (ExecutionStatus.WAITING_EXTERNAL, 3)
        assert (execution.await_unit_id, unit.itemized, unit.cardinality) == (unit.unit_id, False, "MANY_TO_ONE")
        first = machine.unit(execution_id, 1)
        assert first is not None
        assert (first.status, first.completed_item_count) == (UnitStatus.COMPLETED, 3)
        assert machine.session(execution_id) is None

    def test_the_row_holds_no_request_and_a_repeat_has_it_all_the_same(self):
        machine = Machine(pipeline("w<"))
        execution_id = machine.submit(ITEMS)
        machine.grant_slots()
        row = machine.interaction(execution_id, 0)
        assert row.request_payload is None
        assert machine.execution(execution_id).input_payload is None
        assert whole_request(machine.state, row).request_payload == ITEMS

    def test_one_value_is_a_list_of_one(self):
        machine = Machine(pipeline("sk<"))
        machine.submit({"n": 1})
        machine.run_segments({"s": 1})
        machine.grant_slots()
        assert request(machine) == [{"s": 1}]

    def test_many_to_one_of_nothing_asks_with_an_empty_list(self):
        machine = Machine(pipeline("Sk<"))
        execution_id = machine.stream(0, ended=True)
        machine.grant_slots()
        assert request(machine) == []
        machine.answer(machine.interaction(execution_id, 1), {"n": 0})
        assert machine.outputs(execution_id) == {-1: [{"n": 0}]}

    def test_many_to_many_of_nothing_asks_nobody(self):
        machine = Machine(pipeline("Sk*"))
        execution_id = machine.stream(0, ended=True)
        assert not machine.take(fx.RequestSlot)
        assert machine.unit(execution_id, 1) is None
        machine.pull(execution_id, ended=True)
        execution = machine.execution(execution_id)
        assert (execution.status, execution.summary) == (ExecutionStatus.SUCCEEDED, Summary())

    def test_rejected_items_are_not_in_it(self):
        machine = Machine(pipeline("Sksk<", on_item_failure=OnItemFailure.REJECT_ITEM))
        execution_id = machine.stream(3, ended=True)
        for item in range(3):
            machine.answer(machine.interaction(execution_id, 1, item))
        machine.take(fx.SendRequest)
        one, two, three = machine.take(fx.RunSegment)
        machine.decide(ev.SegmentFailed(two.owed, "BAD", "no", ""))
        for effect in (three, one):
            machine.decide(ev.SegmentCompleted(effect.owed, [{"out": effect.owed.item_index}]))
        machine.grant_slots()
        assert request(machine) == [{"out": 0}, {"out": 2}]
        machine.answer(machine.interaction(execution_id, 3), {"sum": 1})
        assert machine.execution(execution_id).summary == Summary(items=3, outputs=1, rejected_items=1)

    @pytest.mark.parametrize("shape", ["k<", "w*", "i<"])
    def test_a_list_waits_for_its_slot_like_any_request(self, shape):
        machine = Machine(pipeline(shape))
        execution_id = machine.submit(ITEMS)
        assert machine.owed_kinds(execution_id) == [OwedKind.SLOT]
        machine.reopen()
        machine.grant_slots()
        assert machine.interaction(execution_id, 0).item_index is None


class TestInputLimits:
    MESSAGE = (
        "Await step Step1 materialized 3 input items for MANY_TO_ONE, exceeding "
        "pipeline.orchestrator.await-aggregate-max-input-items=2."
    )

    def test_the_first_item_over_ends_it_and_nothing_is_created(self):
        """T59."""
        machine = Machine(pipeline("Sk<", max_aggregate_input_items=2))
        execution_id = machine.stream(3)
        execution = machine.execution(execution_id)
        assert (execution.status, execution.error_code) == (ExecutionStatus.FAILED, "AGGREGATE_LIMIT")
        assert execution.error_message == self.MESSAGE
        assert machine.take(fx.StopSource)
        assert not machine.take(fx.RequestSlot) and not machine.take(fx.SendRequest)
        assert machine.find(execution_id, 1) is None and machine.unit(execution_id, 1) is None

    def test_what_is_in_flight_is_closed(self):
        machine = Machine(pipeline("Sksk*", max_aggregate_input_items=1))
        execution_id = machine.stream(3)
        for item in range(2):
            machine.answer(machine.interaction(execution_id, 1, item))
        machine.run_segments()
        assert machine.execution(execution_id).error_code == "AGGREGATE_LIMIT"
        assert machine.interaction(execution_id, 1, 2).status is InteractionStatus.CANCELLED
        machine.grant_slots()
        assert machine.slots_held == 0

    @pytest.mark.parametrize(("limit", "status"), [(3, "RUNNING"), (0, "RUNNING"), (2, "FAILED")])
    def test_of_a_submitted_list(self, limit, status):
        machine = Machine(pipeline("k<", max_aggregate_input_items=limit))
        assert machine.execution(machine.submit(ITEMS)).status == status

    def test_a_service_step_has_none(self):
        machine = Machine(pipeline("Ss<", max_aggregate_input_items=2))
        execution_id = machine.stream(5, ended=True)
        assert machine.owed_kinds(execution_id) == [OwedKind.SEGMENT]

    def test_bytes(self):
        machine = Machine(pipeline("Sk<", max_aggregate_bytes=20))
        execution_id = machine.stream(3)
        execution = machine.execution(execution_id)
        assert (execution.error_code, machine.unit(execution_id, 1)) == ("PAYLOAD_TOO_LARGE", None)
        assert "pipeline.max-aggregate-bytes" in (execution.error_message or "")

    def test_as_many_bytes_as_there_may_be(self):
        machine = Machine(pipeline("Sk<", max_aggregate_bytes=len('[{"n":0},{"n":1}]')))
        execution_id = machine.stream(2, ended=True)
        machine.grant_slots()
        assert machine.execution(execution_id).status is ExecutionStatus.WAITING_EXTERNAL

    def test_an_input_that_is_no_list(self):
        machine = Machine(pipeline("k<"))
        execution = machine.execution(machine.submit({"n": 1}))
        assert execution.error_message == "Step0 takes a list of T0, and the input is none"

    def test_an_item_that_is_too_large(self):
        machine = Machine(pipeline("s<", max_payload_bytes=20))
        execution = machine.execution(machine.submit([{"n": 1}, {"n": "x" * 20}]))
        assert execution.error_code == "PAYLOAD_TOO_LARGE"
        assert (execution.error_message or "").startswith("item 1 of the input has 28 bytes")


class TestAnswers:
    def test_each_item_is_a_row_and_flows_on(self):
        machine = Machine(pipeline("k>"))
        execution_id = machine.submit({"n": 1})
        machine.grant_slots()
        row = machine.interaction(execution_id, 0)
        assert machine.answer(row, ITEMS) == "admitted"
        assert machine.interaction(execution_id, 0).response_payload is None
        assert gathered(machine, execution_id, 1) == ITEMS
        assert machine.take(fx.StartSource)
        machine.pull(execution_id, ITEMS, ended=True)
        assert machine.outputs(execution_id) == {number: [item] for number, item in enumerate(ITEMS)}

    def test_the_same_again_is_a_duplicate_and_another_a_conflict(self):
        machine = Machine(pipeline("k>"))
        execution_id = machine.submit({"n": 1})
        machine.grant_slots()
        row = machine.interaction(execution_id, 0)
        machine.answer(row, ITEMS)
        assert machine.answer(row, [dict(item) for item in ITEMS]) == "duplicate"
        assert machine.answer(row, ITEMS[:2]) == machine.answer(row, []) == "conflict"

    def test_one_that_is_no_list_is_one_item(self):
        machine = Machine(pipeline("k>"))
        execution_id = machine.submit({"n": 1})
        machine.grant_slots()
        row = machine.interaction(execution_id, 0)
        assert machine.answer(row, {"n": 7}) == "admitted"
        assert machine.answer(row, [{"n": 7}]) == "duplicate"
        assert gathered(machine, execution_id, 1) == [{"n": 7}]

    @pytest.mark.parametrize("shape", ["k>", "k*", "i>"])
    def test_more_items_than_there_may_be(self, shape):
        """T25: the interaction stays open, and a smaller answer is taken."""
        machine = Machine(pipeline(shape, max_aggregate_output_items=1))
        execution_id = machine.submit([{"n": 1}] if shape == "k*" else {"n": 1})
        machine.grant_slots()
        row = machine.interaction(execution_id, 0)
        assert machine.answer(row, ITEMS) == "payload_too_large"
        (letter,) = machine.take(fx.DeadLetter)
        assert "materialized at least 2 output items" in letter.message
        assert letter.message.endswith("exceeding pipeline.orchestrator.await-aggregate-max-output-items=1.")
        assert machine.interaction(execution_id, 0) == row
        assert machine.answer(row, ITEMS[:1]) == "admitted"

    @pytest.mark.parametrize(("limit", "outcome"), [(0, "admitted"), (3, "admitted"), (2, "payload_too_large")])
    def test_as_many_as_there_may_be(self, limit, outcome):
        machine = Machine(pipeline("k>", max_aggregate_output_items=limit))
        execution_id = machine.submit({"n": 1})
        machine.grant_slots()
        assert machine.answer(machine.interaction(execution_id, 0), ITEMS) == outcome

    def test_bytes_of_the_whole_and_of_one(self):
        machine = Machine(pipeline("k>k", max_payload_bytes=20, max_aggregate_bytes=60))
        execution_id = machine.submit({"n": 1})
        machine.grant_slots()
        row = machine.interaction(execution_id, 0)
        assert machine.answer(row, [{"n": "x" * 20}]) == "payload_too_large"
        assert machine.answer(row, ITEMS * 3) == "payload_too_large"
        assert machine.answer(row, ITEMS) == "admitted"
        machine.pull(execution_id, ITEMS[:1], ended=True)
        assert machine.answer(machine.interaction(execution_id, 1, 0), {"n": "x" * 20}) == "payload_too_large"

    def test_an_early_one_may_be_as_large_as_its_step_allows(self):
        machine = Machine(pipeline("k>", max_payload_bytes=20))
        execution_id = machine.submit({"n": 1})
        machine.grant_slots()
        row = machine.interaction(execution_id, 0)
        fresh = Machine(pipeline("k>", max_payload_bytes=20))
        assert fresh.complete(machine.envelope(row, ITEMS)) == "held"
        assert fresh.submit({"n": 1}) == execution_id
        fresh.grant_slots()
        assert fresh.interaction(execution_id, 0).status is InteractionStatus.COMPLETED
        without = Machine(pipeline("k", max_payload_bytes=20))
        assert without.complete(machine.envelope(row, ITEMS)) == "payload_too_large"


class TestItemsThatBecomeMany:
    @pytest.mark.parametrize("shape", ["Sk>k", "Sw>w"])
    def test_an_await_behind_them_numbers_them_anew(self, shape):
        machine = Machine(pipeline(shape))
        execution_id = machine.stream(2, ended=True)
        machine.send()
        for item in (1, 0):
            machine.answer(machine.interaction(execution_id, 1, item), [{"of": item}, {"of": item, "n": 1}])
        machine.go_on()
        assert gathered(machine, execution_id, 2) == [
            {"of": 0}, {"of": 0, "n": 1}, {"of": 1}, {"of": 1, "n": 1},
        ]  # fmt: skip
        session = machine.session(execution_id)
        assert session is not None
        assert (session.stream, session.next_item_index) == (1, 0)

    def test_at_the_end_an_item_has_several_outputs(self):
        machine = Machine(pipeline("Sk>"))
        execution_id = machine.stream(2, ended=True)
        for item in range(2):
            machine.answer(machine.interaction(execution_id, 1, item), ITEMS[: item + 1])
        assert machine.outputs(execution_id) == {0: ITEMS[:1], 1: ITEMS[:2]}
        assert machine.execution(execution_id).summary == Summary(items=2, outputs=3)


class TestEnds:
    @pytest.mark.parametrize("shape", ["Ss<", "Sk<"])
    def test_what_a_whole_stream_became_is_published(self, shape):
        machine = Machine(pipeline(shape, publishes=True))
        execution_id = machine.stream(2, ended=True)
        machine.grant_slots()
        if shape == "Sk<":
            machine.answer(machine.interaction(execution_id, 1), {"sum": 1})
        machine.run_segments({"sum": 1})
        assert machine.take(fx.PublishObject) == [fx.PublishObject(execution_id)]
        machine.decide(ev.ObjectPublished(execution_id, "whole.out"))
        execution = machine.execution(execution_id)
        assert (execution.status, execution.published) == (ExecutionStatus.SUCCEEDED, "whole.out")
        assert execution.summary == Summary(items=2, outputs=1)

    def test_an_ingested_object_is_a_list_of_one(self):
        machine = Machine(pipeline("s<"))
        source = SourceObject("in", "file", "in", "a.csv", "ab", "in/a.csv")
        machine.decide(ev.ExecutionSubmitted("tenant-1", "key-1", {"k": "a.csv"}, source))
        (execution_id,) = [effect.owed.execution_id for effect in machine.take(fx.RunSegment)]
        assert gathered(machine, execution_id, 0) == [{"k": "a.csv"}]

    def test_an_item_that_became_more_than_a_row_holds(self):
        machine = Machine(pipeline("Sks", max_aggregate_bytes=30))
        execution_id = machine.stream(1, ended=True)
        machine.answer(machine.interaction(execution_id, 1, 0))
        (effect,) = machine.take(fx.RunSegment)
        machine.decide(ev.SegmentCompleted(effect.owed, [{"n": 1}] * 5))
        assert machine.execution(execution_id).error_code == "PAYLOAD_TOO_LARGE"
        assert machine.outputs(execution_id) == {0: []}

    def test_a_source_that_fails_publishes_no_part_of_a_list(self):
        """Contract 0.15: what is in flight is finished; there is nothing whole to take."""
        machine = Machine(pipeline("Sksk<", publishes=True))
        execution_id = machine.stream(2)
        machine.decide(ev.SourceFailed(execution_id, "BROKEN", "it broke", ""))
        for item in range(2):
            machine.answer(machine.interaction(execution_id, 1, item))
        machine.run_segments()
        execution = machine.execution(execution_id)
        assert (execution.status, execution.error_code) == (ExecutionStatus.FAILED, "BROKEN")
        assert not machine.take(fx.PublishObject) and not machine.take(fx.RequestSlot)
        assert execution.summary is not None
        assert replace(execution.summary, place=None) == Summary(items=2, outputs=0)


def test_a_list_is_read_page_by_page_and_again():
    machine = Machine(pipeline("s<"))
    items = [{"n": number} for number in range(2 * PAGE + 1)]
    execution_id = machine.submit(items)
    parts = machine.state.parts(execution_id, 0)
    assert list(parts) == list(parts) == items
    assert list(parts.since(PAGE + 1)) == items[PAGE + 1 :]
    assert isinstance(parts, Parts)


def test_a_list_has_a_row_an_item_up_to_a_bound():
    assert list(in_rows([1, 2, 3])) == [PartRecord([1]), PartRecord([2]), PartRecord([3])]
    rows = list(in_rows(list(range(2 * ROWS_MAX + 5))))
    assert len(rows) <= ROWS_MAX
    assert [item for row in rows for item in row.payloads] == list(range(2 * ROWS_MAX + 5))

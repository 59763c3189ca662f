"""What is told of an admission, and what comes back with it: each fact once, by the path that the answer takes."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from tests.unit.core.machine import Machine, pipeline
from tpf_streams.core import effects as fx
from tpf_streams.core import events as ev
from tpf_streams.core.execution import ExecutionStatus, OwedKind, OwedRecord
from tpf_streams.core.interaction import InteractionStatus
from tpf_streams.core.state import Decision

DISPATCHED, HANDED_ON = "interaction.dispatched.total", "live.handoff.total"
COUNTED = "item.completed.total"
ADMITTED, RELEASED, HELD = "completion.admitted.total", "resume.released.total", "completion.early_held.total"


def continued(machine: Machine) -> list[tuple[int | None, bool]]:
    """The items that go on, and whether with the value that the admission had converted already."""
    return [(it.owed.item_index, it.converted) for it in machine.take(fx.RunSegment)]


def facts_of(decision: Decision) -> dict[str, fx.Fact]:
    return {fact.name: fact for fact in decision.facts}


def admitted(machine: Machine, execution_id: str, item: int | None = None, index: int = 0) -> dict[str, fx.Fact]:
    envelope = machine.envelope(machine.interaction(execution_id, index, item))
    return facts_of(machine.decide(ev.CompletionReceived(envelope, machine.now_ms, "t/0/1", b"raw")))


@pytest.mark.parametrize("overtaken", [False, True])
def test_a_dispatch_outside_the_log_is_told_once_whoever_tells_it(overtaken):
    machine = Machine(pipeline("w"))
    execution_id = machine.submit({"n": 1})
    if not overtaken:
        machine.send()
    found = admitted(machine, execution_id)
    assert (DISPATCHED in found) is overtaken
    machine.send()
    assert machine.facts[DISPATCHED] == 1


def test_latency_is_from_the_interaction_to_its_answer():
    machine = Machine(pipeline("i"))
    execution_id = machine.submit({"n": 1})
    machine.now_ms += 250
    assert admitted(machine, execution_id)[ADMITTED].ids["latencyMs"] == 250


def test_an_answer_is_one_change_of_its_row():
    machine = Machine(pipeline("i"))
    execution_id = machine.submit({"n": 1})
    before = machine.interaction(execution_id, 0)
    admitted(machine, execution_id)
    assert machine.interaction(execution_id, 0).version == before.version + 1


def test_the_slot_of_a_scalar_answer_goes_back():
    machine = Machine(pipeline("k"))
    execution_id = machine.submit({"n": 1})
    machine.grant_slots()
    assert machine.slots_held == 1
    found = admitted(machine, execution_id)
    assert (machine.slots_held, HANDED_ON in found, RELEASED in found) == (0, False, True)


def test_on_the_live_path_an_item_is_handed_on_and_keeps_its_slot():
    machine = Machine(pipeline("Sks"))
    execution_id = machine.stream(1)
    found = admitted(machine, execution_id, 0, 1)
    assert (HANDED_ON in found, RELEASED in found, HELD in found, machine.slots_held) == (True, False, False, 1)
    assert found[COUNTED].ids == {"completedItemCount": 1}
    assert continued(machine) == [(0, True)]


def test_on_the_durable_path_an_item_is_held_and_one_behind_the_gates_is_released():
    machine = Machine(pipeline("Sis"))
    execution_id = machine.stream(2)
    early = admitted(machine, execution_id, 0, 1)
    assert (HELD in early, RELEASED in early, HANDED_ON in early) == (True, False, False)
    assert early[HELD].labels["status"] == "COMPLETED"
    machine.pull(execution_id, [], ended=True)
    machine.go_on()
    late = admitted(machine, execution_id, 1, 1)
    assert (HELD in late, RELEASED in late, HANDED_ON in late) == (False, True, False)
    assert late[COUNTED].ids == {"completedItemCount": 2}
    assert continued(machine) == [(0, False), (1, True)]
    assert machine.facts[RELEASED] == 2


def test_a_release_under_way_finds_what_is_answered_at_its_cursor_or_behind():
    """Behind the gates an item goes on at once where the release has passed it already, and else waits for it: started
    by both it would go on twice."""
    machine = Machine(pipeline("Sis"))
    execution_id = machine.stream(3, ended=True)
    machine.go_on()
    unit = machine.unit(execution_id, 1)
    assert unit is not None
    owed = OwedRecord(execution_id, OwedKind.RELEASE, 1, 1, unit_id=unit.unit_id, cursor=1)
    machine.put(owed, machine.state.keys.owed(execution_id, OwedKind.RELEASE, 1))
    told = [RELEASED in admitted(machine, execution_id, item, 1) for item in (0, 1, 2)]
    assert told == [True, False, False]
    machine.decide(ev.OwedDue(owed))
    assert sorted(item or 0 for item, _ in continued(machine)) == [0, 1, 2]


def test_an_answer_before_the_closing_of_its_execution_has_come_to_it_ends_its_row():
    machine = Machine(pipeline("k"))
    execution_id = machine.submit({"n": 1})
    machine.grant_slots()
    failed = replace(machine.execution(execution_id), status=ExecutionStatus.FAILED)
    machine.put(failed, machine.state.keys.execution(execution_id))
    assert machine.answer(machine.interaction(execution_id, 0)) == "terminal"
    assert machine.interaction(execution_id, 0).status is InteractionStatus.CANCELLED
    assert (machine.deadlines(), machine.slots_held) == (0, 0)


@pytest.mark.parametrize(("shape", "limit"), [("i", "max_payload_bytes"), ("i>", "max_aggregate_bytes")])
@pytest.mark.parametrize(("spare", "outcome"), [(0, "admitted"), (-1, "payload_too_large")])
def test_an_answer_may_be_as_large_as_the_limit_says(shape, limit, spare, outcome):
    payload = [{"n": "x" * 50}] if ">" in shape else {"n": "x" * 50}
    size = len(orjson.dumps(payload))
    machine = Machine(pipeline(shape, **{"max_payload_bytes": size - 1, limit: size + spare}))
    execution_id = machine.submit({"n": 1})
    assert machine.answer(machine.interaction(execution_id, 0), payload) == outcome


def test_what_is_refused_for_its_payload_is_a_dead_letter_by_its_reason():
    machine = Machine(pipeline("i", max_payload_bytes=10))
    execution_id = machine.submit({"n": 1})
    envelope = machine.envelope(machine.interaction(execution_id, 0), {"n": "x" * 20})
    decision = machine.decide(ev.CompletionReceived(envelope, machine.now_ms, "t/0/1", b"raw"))
    (letter,) = [it for it in decision.effects if isinstance(it, fx.DeadLetter)]
    assert (decision.outcome, letter.reason, letter.value) == ("payload_too_large", "payload_too_large", b"raw")
    found = facts_of(decision)
    assert found["dead_letter.total"].labels == {"reason": "payload_too_large"}
    assert found["completion.dropped.total"].labels == {"transport": "unknown", "reason": "payload_too_large"}


@pytest.mark.parametrize(("payload", "outcome", "name"), [
    ({"ok": True}, "duplicate", "completion.duplicate.total"),
    ({"ok": False}, "conflict", "completion.dropped.total"),
])  # fmt: skip
def test_a_second_answer_is_counted_as_what_it_is_and_is_no_dead_letter(payload, outcome, name):
    machine = Machine(pipeline("i"))
    execution_id = machine.submit({"n": 1})
    admitted(machine, execution_id)
    envelope = machine.envelope(machine.interaction(execution_id, 0), payload)
    decision = machine.decide(ev.CompletionReceived(envelope, machine.now_ms, "t/0/1", b"raw"))
    assert (decision.outcome, [it.name for it in decision.facts], list(decision.effects)) == (outcome, [name], [])

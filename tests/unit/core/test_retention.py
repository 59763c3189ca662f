"""Ended executions go, what is open stays, and keys are remembered (contract 0.18)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.unit.core.machine import Machine, pipeline, token
from tpf_streams.core import effects as fx
from tpf_streams.core import events as ev
from tpf_streams.core.envelope import CompletionEnvelope
from tpf_streams.core.execution import ExecutionStatus, OwedKind, TombstoneRecord
from tpf_streams.core.rows import is_execution
from tpf_streams.core.step import ItemReject, SourceObject

TTL, REMEMBERED = 1_000_000, 10_000_000
"""Milliseconds; the first is more than any time-out here."""
SOURCE = SourceObject("payments", "file", "in", "a.csv", "ab" * 32, "/data/in/a.csv")
PAGE = 1_000


def machine(shape: str = "ws", **options: object) -> Machine:
    return Machine(pipeline(shape, execution_ttl_ms=TTL, identity_ttl_ms=REMEMBERED, **options))


def scalar(it: Machine, key: str = "key-1") -> str:
    """An execution that has succeeded."""
    execution_id = it.submit({"n": 1}, key)
    it.send()
    it.answer(it.interaction(execution_id, 0))
    it.run_segments({"done": True})
    assert it.execution(execution_id).status is ExecutionStatus.SUCCEEDED
    return execution_id


def stream(it: Machine, count: int = 3) -> str:
    execution_id = it.submit(None)
    for number in range(count):
        it.pull(execution_id, [{"n": number}, ItemReject("f", number, "c", "bad")])
        it.answer(it.interaction(execution_id, 1, number))
        it.run_segments()
    it.pull(execution_id, ended=True)
    assert it.execution(execution_id).status is ExecutionStatus.SUCCEEDED
    return execution_id


def kinds(it: Machine) -> str:
    """The kinds of all rows, one letter a row, but for those of the partition itself."""
    return "".join(key[2:3].decode() for key, _ in it.store.scan(b"", b"\xff" * 64))


def pass_time(it: Machine, ms: int, limit: int = PAGE) -> None:
    it.now_ms += ms
    it.decide(ev.RetentionReached(limit))


def gone(it: Machine, execution_id: str, limit: int = PAGE) -> int:
    """Time passes until the execution is deleted; -> in how many turns."""
    pass_time(it, TTL + 1, limit)
    turns = 1
    while any(it.state.stored(it.state.keys.retention_until(it.now_ms), 1)):
        it.decide(ev.RetentionReached(limit))
        turns += 1
        assert turns < 1_000
    return turns


def stone(it: Machine, execution_id: str) -> TombstoneRecord | None:
    return it.state.get(it.state.keys.tombstone(execution_id), TombstoneRecord)


def life(it: Machine, number: int, key: str = "key-1") -> str:
    return it.state.ids.execution_id("tenant-1", "pay", key, number)


def forwarded(it: Machine) -> list[ev.Event]:
    """What was sent to another home, which is this one here: decided at once."""
    found = it.take(fx.Forward)
    for effect in found:
        it.decide(effect.event)
    return [effect.event for effect in found]


# --- what goes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [scalar, lambda it: stream(it)], ids=["scalar", "stream"])
def test_of_an_ended_execution_a_tombstone_is_left(end: Callable[[Machine], str]):
    it = machine("ws" if end is scalar else "Sks")
    execution_id = end(it)
    gone(it, execution_id)
    assert sorted(kinds(it)) == ["g", "x"]
    assert it.facts["execution.deleted.total"] == 1
    found = stone(it, execution_id)
    assert found == TombstoneRecord("tenant-1", "key-1", execution_id, 0, it.now_ms + REMEMBERED)


def test_lists_go_too():
    it = machine("Sks<")
    execution_id = it.submit(None)
    it.pull(execution_id, [{"n": number} for number in range(3)])
    for number in range(2):
        it.answer(it.interaction(execution_id, 1, number))
    it.run_segments()
    it.decide(ev.ExecutionCancelled(execution_id, "no"))
    it.go_on()
    assert kinds(it).count("a") == 2
    gone(it, execution_id)
    assert sorted(kinds(it)) == ["g", "x"]


def test_one_row_is_added_at_the_end_and_none_by_an_item():
    it = machine("Sks")
    stream(it, 9)
    assert kinds(it).count("g") == 1


def test_it_stays_until_its_time_is_over():
    it = machine()
    execution_id = scalar(it)
    pass_time(it, TTL)
    assert it.execution(execution_id)
    pass_time(it, 1)
    assert it.state.get(it.state.keys.execution(execution_id), object) is None


def test_a_large_one_goes_in_bounded_turns_and_a_crash_in_the_middle_goes_on():
    it = machine("Sks")
    execution_id = stream(it, 40)
    rows = len(kinds(it))
    pass_time(it, TTL + 1, 7)
    seen = [rows, len(kinds(it))]
    while any(kind in kinds(it) for kind in "iuorajc"):
        it.reopen()
        it.decide(ev.RetentionReached(7))
        seen.append(len(kinds(it)))
    # A look at an interaction deletes its correlation too.
    assert all(before - after <= 2 * 7 + 1 for before, after in pairwise(seen))
    assert len(seen) > rows // 14
    assert stone(it, execution_id)


def test_with_a_limit_of_one_it_comes_to_its_end():
    it = machine("Sks")
    assert gone(it, stream(it, 5), 1) > 15
    assert sorted(kinds(it)) == ["g", "x"]


def test_others_stay():
    it = machine("Sks")
    old = stream(it, 3)
    it.now_ms += TTL // 2
    before = len(kinds(it))
    young = it.submit(None, "key-2")
    it.pull(young, [{"n": 1}])
    added = len(kinds(it)) - before
    pass_time(it, TTL // 2 + 1)
    assert len(kinds(it)) == 2 + added
    assert it.execution(young).status is not ExecutionStatus.SUCCEEDED
    assert stone(it, old)


def test_rows_of_another_execution_with_the_same_route_hash_stay():
    """Once in four thousand million ids begin alike: the rows say whose they are."""
    it = machine("ws")
    execution_id = scalar(it)
    other = it.interaction(execution_id, 0)
    alike = other.interaction_id[:8] + "-1111-8111-8111-111111111111"
    stranger = replace(other, interaction_id=alike, execution_id=alike, correlation_id=alike)
    it.put(stranger, it.state.keys.interaction(alike))
    unit = it.unit(execution_id, 0)
    assert unit is not None
    it.put(replace(unit, unit_id=alike, execution_id=alike), it.state.keys.unit(alike))
    gone(it, execution_id)
    assert sorted(kinds(it)) == ["g", "i", "u", "x"]


def test_a_completion_held_for_a_deleted_execution_goes_with_it():
    it = machine("ws", timeout_ms=10 * TTL)
    execution_id = scalar(it)
    claims = it.interaction(execution_id, 0)
    ours = claims.interaction_id[:8] + "-1111-8111-8111-111111111111"
    held = replace(claims, interaction_id=ours)
    envelope = CompletionEnvelope("tenant-1", ours, None, token(held), None, None, {"ok": True})
    assert it.complete(envelope) == "held"
    gone(it, execution_id)
    assert sorted(kinds(it)) == ["g", "x"]
    assert it.state.early_rows == 0


# --- what stays -------------------------------------------------------------------------------------------------------


def test_nothing_goes_while_something_is_to_be_closed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tpf_streams.core.ending.CLOSE_AT_ONCE", 1)
    it = machine("Sws", timeout_ms=100 * TTL)
    execution_id = it.submit(None)
    it.pull(execution_id, [{"n": number} for number in range(4)])
    it.decide(ev.ExecutionCancelled(execution_id, "no"))
    assert OwedKind.CLOSE in it.owed_kinds(execution_id)
    pass_time(it, TTL + 1)
    assert it.execution(execution_id).status is ExecutionStatus.FAILED
    it.go_on()
    pass_time(it, 60_001)
    assert sorted(kinds(it)) == ["g", "x"]


def test_one_that_went_on_after_its_end_is_kept_from_its_later_end():
    it = machine()
    execution_id = scalar(it)
    execution = it.execution(execution_id)
    key = it.state.keys.execution(execution_id)
    it.put(replace(execution, status=ExecutionStatus.RUNNING), key)
    pass_time(it, TTL + 1)
    assert it.execution(execution_id).status is ExecutionStatus.RUNNING
    assert "g" not in kinds(it)


def test_a_longer_time_holds_for_those_that_have_ended():
    it = machine()
    execution_id = scalar(it)
    it.definition = pipeline("ws", execution_ttl_ms=3 * TTL, identity_ttl_ms=REMEMBERED)
    it.reopen()
    pass_time(it, TTL + 1)
    assert it.execution(execution_id)
    pass_time(it, 2 * TTL)
    assert sorted(kinds(it)) == ["g", "x"]


# --- late answers -----------------------------------------------------------------------------------------------------


def test_a_late_answer_to_a_deleted_execution_is_terminal_or_not_found():
    it = machine(timeout_ms=10 * TTL)
    execution_id = scalar(it)
    row = it.interaction(execution_id, 0)
    gone(it, execution_id)
    assert it.answer(row) == "terminal"
    assert it.complete(it.envelope(row, resume_token=None)) == "not_found"
    assert it.answer(row, at_ms=row.deadline_epoch_ms + 1) == "terminal"
    assert sorted(kinds(it)) == ["g", "x"]


# --- the same key again -----------------------------------------------------------------------------------------------


def test_the_same_key_after_retention_is_another_life():
    it = machine()
    first = scalar(it)
    gone(it, first)
    it.submit({"n": 2})
    assert [event.life for event in forwarded(it) if isinstance(event, ev.ExecutionSubmitted)] == [1]
    second = life(it, 1)
    assert it.execution(second).life == 1
    assert second[:8] != first[:8]
    assert it.execution(second).input_payload == {"n": 2}
    assert it.interaction(second, 0).interaction_id
    found = stone(it, first)
    assert found is not None
    assert (found.life, found.expires_at_epoch_ms, found.next_life) == (1, None, 1)


def test_while_a_later_life_lasts_the_key_meets_it():
    it = machine()
    gone(it, scalar(it))
    it.submit({"n": 2})
    forwarded(it)
    it.submit({"n": 3})
    forwarded(it)
    assert it.facts["execution.duplicate.total"] == 1
    assert it.execution(life(it, 1)).input_payload == {"n": 2}
    assert sum(1 for key, _ in it.store.scan(b"", b"\xff" * 64) if is_execution(key)) == 1


def end_life(it: Machine, number: int) -> None:
    it.send()
    it.answer(it.interaction(life(it, number), 0))
    it.run_segments({"done": True})


def test_lives_go_on_being_counted():
    it = machine()
    gone(it, scalar(it))
    for number in (1, 2, 3):
        it.submit({"n": number})
        forwarded(it)
        end_life(it, number)
        gone(it, life(it, number))
        assert forwarded(it) == [ev.LifeEnded("tenant-1", "key-1", number)]
    found = stone(it, life(it, 0))
    assert found is not None
    assert (found.life, found.next_life) == (3, 4)


def test_a_submission_on_its_way_to_a_life_that_went_does_not_begin_it_again():
    it = machine()
    gone(it, scalar(it))
    it.submit({"n": 1})
    forwarded(it)
    it.submit({"n": 2})
    (late,) = it.take(fx.Forward)
    end_life(it, 1)
    gone(it, life(it, 1))
    (told,) = it.take(fx.Forward)
    it.decide(late.event)
    back = forwarded(it)
    assert [(event.life, event.gone) for event in back if isinstance(event, ev.ExecutionSubmitted)] == [(0, 1)]
    it.decide(told.event)
    forwarded(it)
    assert it.execution(life(it, 2)).input_payload == {"n": 2}
    # The end of the first life was told after the second had begun, and says nothing of that.
    found = stone(it, life(it, 0))
    assert found is not None
    assert found.next_life == 2


def test_a_key_is_forgotten_and_begins_anew():
    it = machine()
    execution_id = scalar(it)
    gone(it, execution_id)
    pass_time(it, REMEMBERED)
    assert stone(it, execution_id)
    pass_time(it, 1)
    assert kinds(it) == ""
    assert it.submit({"n": 2}) == execution_id
    assert it.execution(execution_id).life == 0


def test_an_object_that_is_listed_still_is_not_worked_on_again_and_is_remembered_as_long():
    it = machine()
    it.decide(ev.ExecutionSubmitted("tenant-1", "key-1", {"n": 1}, SOURCE))
    execution_id = life(it, 0)
    it.decide(ev.ExecutionCancelled(execution_id, "no"))
    gone(it, execution_id)
    for _ in range(40):
        pass_time(it, REMEMBERED // 8)
        it.decide(ev.ExecutionSubmitted("tenant-1", "key-1", {"n": 1}, SOURCE))
        assert it.take(fx.Forward) == []
        assert sorted(kinds(it)) == ["g", "x"]
    assert it.facts["execution.duplicate.total"] == 40
    pass_time(it, REMEMBERED + 1)
    assert kinds(it) == ""


def test_a_tombstone_is_not_written_anew_for_every_look_at_a_folder():
    it = machine()
    it.decide(ev.ExecutionSubmitted("tenant-1", "key-1", {"n": 1}, SOURCE))
    it.decide(ev.ExecutionCancelled(life(it, 0), "no"))
    gone(it, life(it, 0))
    it.now_ms += 1
    assert it.decide(ev.ExecutionSubmitted("tenant-1", "key-1", {"n": 1}, SOURCE)).changes == ()


@pytest.mark.parametrize("number", [1, 7])
def test_the_end_of_a_life_that_is_not_the_last_one_says_nothing(number: int):
    it = machine()
    execution_id = scalar(it)
    gone(it, execution_id)
    before = stone(it, execution_id)
    it.decide(ev.LifeEnded("tenant-1", "key-1", number))
    it.decide(ev.LifeEnded("tenant-1", "unheard of", number))
    assert stone(it, execution_id) == before

"""The simulation can fail: a machine that is wrong in one place is caught within 200 seeds, whatever the place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from tests.simulation.run import run_seed
from tpf_streams.core import continuation, ending, joining, retention
from tpf_streams.core.effects import Effect, RunSegment
from tpf_streams.core.execution import ExecutionRecord
from tpf_streams.core.parts import Parts
from tpf_streams.core.state import Draft, State
from tpf_streams.core.step import Json
from tpf_streams.core.unit import SessionRecord
from tpf_streams.engine import lifecycle as lifecycle_module
from tpf_streams.engine import task as task_module
from tpf_streams.engine.afterwards import Afterwards
from tpf_streams.engine.budgets import Budgets
from tpf_streams.engine.lifecycle import lifecycle_topic
from tpf_streams.engine.recovery import owed_effects
from tpf_streams.engine.task import Task
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.ports import Turn
from tpf_streams.testing.faults import CommitUnknownError

SEEDS_MAX = 200

_commit, _release = Task._commit, Budgets.release
_delete, _bury = retention._delete_if_of, retention._bury
_parts_now, _read, _gathered = State.parts_now, Parts.__iter__, joining.gathered


def caught_by(**options: Any) -> str:
    """The first complaint, with its seed."""
    for seed in range(SEEDS_MAX):
        failed = run_seed(seed, **options).failed
        if failed:
            return f"seed {seed}: {failed[seed].strip().splitlines()[-1]}"
    pytest.fail(f"not caught by {SEEDS_MAX} seeds")


def test_an_ended_row_that_owes_nothing_is_caught(monkeypatch):
    """After a crash the continuation of an answered interaction is not taken up again."""

    def forgetful(state: State) -> Iterator[Effect]:
        for effect in owed_effects(state):
            if not (isinstance(effect, RunSegment) and effect.owed.interaction_id is not None):
                yield effect

    monkeypatch.setattr(task_module, "owed_effects", forgetful)
    assert "owed, and nobody does it" in caught_by()


def test_records_before_the_commit_are_caught(monkeypatch):
    """Requests and outputs leave first, then the turn is committed."""

    async def hasty(task: Task, turn: Turn, after: Afterwards) -> None:
        await task._env.log.append(turn.records)
        await _commit(task, replace(turn, records=[]), after)

    monkeypatch.setattr(Task, "_commit", hasty)
    assert caught_by()


def test_effects_before_the_commit_are_caught(monkeypatch):
    """Dispatches outside the log, segments and publishing begin first, then the turn is committed."""

    async def hasty(task: Task, turn: Turn, after: Afterwards) -> None:
        await task._perform(after)
        await _commit(task, turn, replace(after, effects=[], pulled=[]))

    monkeypatch.setattr(Task, "_commit", hasty)
    assert caught_by()


def test_a_permit_that_returns_twice_is_caught(monkeypatch):
    """As long as there is one to return: the budget's own assertion does not help."""

    def generous(budgets: Budgets, step_index: int, execution_id: str) -> None:
        scope = budgets._scopes.get(step_index)
        for _ in range(2):
            if scope is not None and scope.held_by(execution_id):
                _release(budgets, step_index, execution_id)

    monkeypatch.setattr(Budgets, "release", generous)
    assert "AssertionError" not in caught_by()


@pytest.mark.parametrize("again", [True, False], ids=["committed again", "forgotten"])
def test_an_unknown_outcome_taken_for_an_abort_is_caught(monkeypatch, again):
    """A new producer, and on with the memory: the turn is committed once more, or its changes are dropped."""

    async def trusting(task: Task, turn: Turn, after: Afterwards) -> None:
        try:
            await task.log.commit(turn)
        except CommitUnknownError:
            task.log = await task._env.log.open_task(task.partition)
            task.state._store = task.log.store
            if again:
                await task.log.commit(turn)
            else:
                task.state._sealed, task.state._encoded = {}, {}
        task.state.committed()
        await task._after_commit(after)

    monkeypatch.setattr(Task, "_commit", trusting)
    assert caught_by()


def test_numbers_of_events_that_do_not_hold_with_their_turn_are_caught(monkeypatch):
    """After a crash the numbers begin again."""
    count: dict[int, int] = {}

    def forgetful(state: State, wanted: int) -> int:
        first = count.get(id(state), 0)
        count[id(state)] = first + wanted
        return first

    monkeypatch.setattr(State, "take_numbers", forgetful)
    assert "is next, and not" in caught_by()


def test_events_before_the_commit_are_caught(monkeypatch):
    """The lifecycle record leaves on its own, then the turn is committed."""

    async def hasty(task: Task, turn: Turn, after: Afterwards) -> None:
        topic = lifecycle_topic(task._env.definition.application_id)
        await task._env.log.append([record for record in turn.records if record.topic == topic])
        others = [record for record in turn.records if record.topic != topic]
        await _commit(task, replace(turn, records=others), after)

    monkeypatch.setattr(Task, "_commit", hasty)
    assert "LifecycleEvent" in caught_by()


@pytest.mark.parametrize("fact", ["slot.released.total", "output.emitted.total", "interaction.ended.total"])
def test_an_event_that_is_left_out_is_caught(monkeypatch, fact):
    monkeypatch.delitem(lifecycle_module._EVENTS, fact)
    assert caught_by()


def test_a_log_that_only_claims_to_sync_is_caught(monkeypatch):
    """What was acknowledged is lost by a crash of the machine."""
    sync = MemoryLog.__init__

    def broken(log: MemoryLog, **options: Any) -> None:
        sync(log, **{**options, "sync": "broken"})

    monkeypatch.setattr(MemoryLog, "__init__", broken)
    assert "lost" in caught_by(sync="commit")


def test_a_list_out_of_order_is_caught(monkeypatch):
    """Whoever takes a list gets it backwards: the order of arrival would be another one than that of the items."""
    monkeypatch.setattr(State, "parts_now", lambda state, *which: _parts_now(state, *which)[::-1])
    assert caught_by()


def test_a_list_read_out_of_order_is_caught(monkeypatch):
    """The same where a step or a stream reads it."""
    monkeypatch.setattr(Parts, "__iter__", lambda parts: iter([*_read(parts)][::-1]))
    assert caught_by()


def test_a_list_that_lost_an_item_is_caught(monkeypatch):
    """An item is settled, and what it gave is not kept."""

    def forgetful(draft: Any, session: SessionRecord, index: int, item: int, outputs: list[Json]) -> SessionRecord:
        return _gathered(draft, session, index, item, outputs if item != 1 else [])

    monkeypatch.setattr(continuation, "gathered", forgetful)
    assert "gave" in caught_by()


def test_a_list_read_before_it_is_complete_is_caught(monkeypatch):
    """The last page is not read."""
    monkeypatch.setattr(Parts, "__iter__", lambda parts: iter([*_read(parts)][:2]))
    assert caught_by()


def test_a_row_that_is_left_of_a_deleted_execution_is_caught(monkeypatch):
    """Interactions stay when their execution goes."""

    def sparing(draft: Draft, execution_id: str, key: bytes, value: bytes) -> None:
        if key[2:3] != b"i":
            _delete(draft, execution_id, key, value)

    monkeypatch.setattr(retention, "_delete_if_of", sparing)
    assert "left of an execution that went" in caught_by()


def test_an_execution_that_goes_without_a_memory_is_caught(monkeypatch):
    """Its key would begin the same life again, with the ids of the old one."""
    monkeypatch.setattr(retention, "_remember", lambda draft, stone: None)
    assert "not remembered in the same turn" in caught_by()


def test_an_execution_that_goes_too_early_is_caught(monkeypatch):
    """A day is taken for a second."""

    def hasty(draft: Draft, execution_id: str) -> None:
        draft.put(draft.keys.retention(draft.now_ms + 1_000, execution_id), b"")

    def careless(draft: Draft, key: bytes, execution: ExecutionRecord) -> bool:
        limits = replace(draft.definition.limits, execution_ttl_ms=-1)
        with patch.object(draft, "definition", replace(draft.definition, limits=limits)):
            return _bury(draft, key, execution)

    monkeypatch.setattr(ending, "keep_for_a_while", hasty)
    monkeypatch.setattr(retention, "_bury", careless)
    assert caught_by()

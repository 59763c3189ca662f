"""The budgets of a process: who waits is told once a slot is held, whatever happens meanwhile."""

from __future__ import annotations

import pytest

from tests.unit.core.machine import pipeline
from tpf_streams.engine.budgets import Budgets

STEP = 1


@pytest.fixture
def budgets():
    return Budgets(pipeline("Sks", max_concurrency=2))


class Asker:
    """Asks for slots in its own name and remembers what it was given."""

    def __init__(self, budgets: Budgets, name: str) -> None:
        self.budgets, self.name, self.granted = budgets, name, 0

    def ask(self, count: int = 1) -> Asker:
        for _ in range(count):
            self.budgets.request(STEP, self.name, self.told)
        return self

    def told(self) -> None:
        self.granted += 1


def test_slots_are_granted_at_once_while_there_are_any_and_then_as_they_come_back(budgets):
    first = Asker(budgets, "a").ask(3)
    assert (first.granted, budgets.held(STEP)) == (2, 2)
    budgets.release(STEP, "a")
    assert (first.granted, budgets.held(STEP)) == (3, 2)


def test_a_step_without_a_budget_answers_at_once_and_counts_nothing(budgets):
    told: list[int] = []
    budgets.request(2, "a", lambda: told.append(1))
    budgets.release(2, "a")
    budgets.adopt(2, "a")
    assert (told, budgets.held(2), budgets.limits(2), budgets.limits(STEP)) == ([1], 0, False, True)


def test_nothing_is_limited_when_the_budget_is_off():
    assert not Budgets(pipeline("Sks", budget_enabled=False)).limits(STEP)


def test_executions_take_turns(budgets):
    greedy, modest = Asker(budgets, "greedy").ask(10), Asker(budgets, "modest").ask(1)
    budgets.release(STEP, "greedy")
    budgets.release(STEP, "greedy")
    assert (greedy.granted, modest.granted) == (3, 1)


def test_nothing_is_granted_while_a_task_is_opening(budgets):
    budgets.begin_opening(0)
    budgets.begin_opening(1)
    asker = Asker(budgets, "a").ask(2)
    budgets.adopt(STEP, "held by partition 0")
    budgets.end_opening(0)
    assert asker.granted == 0
    budgets.end_opening(1)
    assert (asker.granted, budgets.held(STEP)) == (1, 2)
    budgets.end_opening(1)


def test_nothing_is_granted_while_more_is_held_than_there_is(budgets):
    for name in ("a", "b", "c"):
        budgets.adopt(STEP, name)
    asker = Asker(budgets, "d").ask()
    budgets.release(STEP, "a")
    assert (asker.granted, budgets.held(STEP)) == (0, 2)
    budgets.release(STEP, "b")
    assert (asker.granted, budgets.held(STEP)) == (1, 2)


def test_dropping_an_execution_frees_what_it_held_and_forgets_what_it_wanted(budgets):
    lost, other = Asker(budgets, "lost").ask(3), Asker(budgets, "other").ask(1)
    budgets.drop("lost")
    assert (lost.granted, other.granted, budgets.held(STEP)) == (2, 1, 1)
    assert not budgets.concerns("lost")


def test_withdrawing_keeps_what_is_held(budgets):
    asker = Asker(budgets, "a").ask(3)
    assert budgets.concerns("a")
    budgets.withdraw("a")
    budgets.release(STEP, "a")
    assert (asker.granted, budgets.held(STEP)) == (2, 1)
    assert budgets.concerns("a")
    budgets.release(STEP, "a")
    assert not budgets.concerns("a")
    assert budgets._waiting == {}


def test_whoever_gives_a_slot_back_as_soon_as_it_is_granted_lets_no_stack_grow(budgets):
    """A closed session does: with a window of a thousand open requests the calls would not fit the stack."""
    given_back = 0

    def give_back():
        nonlocal given_back
        given_back += 1
        budgets.release(STEP, "closed")

    holder = Asker(budgets, "holder").ask(2)
    for _ in range(5_000):
        budgets.request(STEP, "closed", give_back)
    last = Asker(budgets, "last").ask(1)
    budgets.release(STEP, "holder")
    assert (given_back, holder.granted, last.granted, budgets.held(STEP)) == (1, 2, 1, 2)
    budgets.release(STEP, "holder")
    assert (given_back, budgets.held(STEP)) == (5_000, 1)


def test_a_release_of_what_is_not_held_is_an_error_of_the_engine(budgets):
    with pytest.raises(AssertionError):
        budgets.release(STEP, "nobody")


def test_who_had_to_wait_is_told_with_the_time():
    waits, now = [], [0.0]
    budgets = Budgets(pipeline("Sks", max_concurrency=2), lambda *told: waits.append(told), lambda: now[0])
    Asker(budgets, "a").ask(3)
    assert waits == []
    now[0] = 2.5
    budgets.release(STEP, "a")
    assert waits == [(STEP, 2.5)]


def test_who_asks_while_a_task_is_opened_has_waited():
    waits, now = [], [0.0]
    budgets = Budgets(pipeline("Sks", max_concurrency=2), lambda *told: waits.append(told), lambda: now[0])
    budgets.begin_opening(0)
    Asker(budgets, "a").ask(1)
    now[0] = 1.0
    budgets.end_opening(0)
    assert waits == [(STEP, 1.0)]

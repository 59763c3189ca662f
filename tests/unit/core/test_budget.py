"""The admission budget (contract 0.17, section 8); T49 to T54 in the form that 0.17 gives them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpf_streams.core.budget import AdmissionBudget, scope_key


def test_t49_capacity_is_shared_and_never_exceeded() -> None:
    budget = AdmissionBudget(2)
    budget.request("tenant-1/exec", 1)
    budget.request("tenant-2/exec", 2)
    assert budget.grant() == [("tenant-1/exec", 1), ("tenant-2/exec", 1)]
    assert budget.grant() == []
    assert (budget.held, budget.waiting, budget.capacity) == (2, 1, 2)
    budget.release("tenant-1/exec")
    assert budget.grant() == [("tenant-2/exec", 1)]
    assert budget.held_by("tenant-2/exec") == 2


def test_t50_the_slots_of_a_closed_task_come_back() -> None:
    budget = AdmissionBudget(2)
    budget.request("gone", 5)
    budget.grant()
    budget.request("alive", 1)
    assert budget.grant() == []
    budget.drop("gone")
    assert (budget.held, budget.held_by("gone"), budget.wanted_by("gone"), budget.waiting) == (0, 0, 0, 1)
    assert budget.grant() == [("alive", 1)]


def test_t51_a_stale_owner_cannot_free_a_slot_of_another() -> None:
    budget = AdmissionBudget(1)
    budget.request("old", 1)
    budget.grant()
    budget.drop("old")
    budget.request("new", 1)
    budget.grant()
    with pytest.raises(AssertionError, match="released by an owner that holds 0"):
        budget.release("old")
    assert (budget.held, budget.held_by("new")) == (1, 1)


def test_t52_scope_keys_have_clear_boundaries() -> None:
    assert (
        scope_key("local-pipeline", "ProcessFraudCheckService", "kafka://fraud-check.requests")
        == "14:local-pipeline24:ProcessFraudCheckService28:kafka://fraud-check.requests"
    )
    assert scope_key("a", "bc", "d") != scope_key("ab", "c", "d")


def test_t53_scopes_are_apart() -> None:
    one, other = AdmissionBudget(1), AdmissionBudget(1)
    one.request("e", 1)
    one.grant()
    other.request("e", 1)
    assert other.grant() == [("e", 1)]


def test_t54_a_freed_slot_goes_to_the_next_in_the_round() -> None:
    budget = AdmissionBudget(1)
    for owner in ("a", "b", "c"):
        budget.request(owner, 2)
    order = []
    for _ in range(6):
        [(owner, count)] = budget.grant()
        assert count == 1
        order.append(owner)
        budget.release(owner)
    assert order == ["a", "b", "c", "a", "b", "c"]


def test_a_large_owner_does_not_starve_a_small_one() -> None:
    budget = AdmissionBudget(4)
    budget.request("large", 10_000)
    assert budget.grant() == [("large", 4)]
    budget.request("small", 1)
    budget.release("large", 2)
    assert budget.grant() == [("large", 1), ("small", 1)]


def test_grants_are_added_up_per_owner() -> None:
    budget = AdmissionBudget(8)
    budget.request("a", 2)
    budget.request("b", 100)
    assert budget.grant() == [("a", 2), ("b", 6)]


def test_nothing_is_granted_on_hold_or_above_capacity() -> None:
    budget = AdmissionBudget(2)
    budget.hold()
    budget.request("a", 1)
    budget.adopt("b", 3)
    assert budget.on_hold
    assert budget.grant() == []
    budget.resume()
    assert budget.held == 3
    assert budget.grant() == []
    budget.release("b", 1)
    assert budget.grant() == []
    budget.release("b", 1)
    assert budget.grant() == [("a", 1)]


def test_an_adopted_and_a_granted_slot_are_the_same() -> None:
    budget = AdmissionBudget(3)
    budget.adopt("a", 1)
    budget.request("a", 1)
    budget.grant()
    budget.release("a", 2)
    assert (budget.held, budget.owners) == (0, 0)


def test_withdraw_forgets_wants_and_keeps_slots() -> None:
    budget = AdmissionBudget(1)
    budget.request("a", 5)
    budget.grant()
    assert budget.withdraw("a") == 4
    assert budget.withdraw("a") == 0
    assert (budget.waiting, budget.held_by("a")) == (0, 1)


def test_asking_for_nothing_is_nothing() -> None:
    budget = AdmissionBudget(1)
    budget.request("a", 0)
    budget.adopt("a", 0)
    budget.release("a", 0)
    budget.drop("a")
    assert (budget.grant(), budget.owners, budget.waiting) == ([], 0, 0)


def test_idle_owners_are_forgotten() -> None:
    budget = AdmissionBudget(1)
    budget.request("a", 1)
    assert budget.owners == 1
    budget.grant()
    assert budget.owners == 1
    budget.release("a")
    assert budget.owners == 0


@pytest.mark.parametrize("count", [2, 100])
def test_releasing_too_much_changes_nothing(count: int) -> None:
    budget = AdmissionBudget(4)
    budget.adopt("a", 1)
    budget.adopt("b", 3)
    with pytest.raises(AssertionError):
        budget.release("a", count)
    assert (budget.held, budget.held_by("a")) == (4, 1)


def test_negative_counts_and_empty_budgets_are_errors_of_the_engine() -> None:
    budget = AdmissionBudget(1)
    for call in (budget.request, budget.adopt, budget.release):
        with pytest.raises(AssertionError, match="negative"):
            call("a", -1)
    with pytest.raises(ValueError, match="at least 1"):
        AdmissionBudget(0)


def test_a_thousand_owners_are_served_in_a_round() -> None:
    budget = AdmissionBudget(100)
    owners = [f"exec-{n}" for n in range(1000)]
    for owner in owners:
        budget.request(owner, 3)
    served: list[str] = []
    while budget.waiting:
        for owner, count in budget.grant():
            served.append(owner)
            budget.release(owner, count)
    assert served == owners * 3


@given(st.integers(1, 8), st.lists(st.integers(1, 30), min_size=2, max_size=8))
def test_nobody_waits_longer_than_one_round(capacity: int, wants: list[int]) -> None:
    """Between two slots of an owner that waits, no other owner gets more than one."""
    budget = AdmissionBudget(capacity)
    owners = [f"e{n}" for n in range(len(wants))]
    for owner, count in zip(owners, wants, strict=True):
        budget.request(owner, count)
    since: dict[str, Counter[str]] = {owner: Counter() for owner in owners}
    while budget.waiting:
        [(owner, _)] = one_at_a_time(budget, capacity)
        since[owner] = Counter()
        for other in owners:
            if other != owner and budget.wanted_by(other):
                since[other][owner] += 1
                assert since[other][owner] <= 1
    assert budget.held == capacity - 1


def one_at_a_time(budget: AdmissionBudget, capacity: int) -> list[tuple[str, int]]:
    """Leave one slot free, so that each grant is a single slot and its order is seen; it comes back at once."""
    if budget.held == 0 and capacity > 1:
        budget.adopt("full", capacity - 1)
    granted = budget.grant()
    for owner, count in granted:
        budget.release(owner, count)
    return granted

"""The admission budget of one scope: how many interactions may be open at once (contract 0.17 and section 8).

Owners are executions, named by their id. They ask for slots; `grant` gives them out one at a time in a round of the
owners that wait, so one large execution cannot starve the others. Within an owner the engine hands them out first
come, first served. Every method costs the same whatever the number of owners; `grant` costs one step a slot. No clock,
no randomness.

Invariants: no slot is granted while the count held is at or above the capacity (`adopt` may bring it above), nor while
on hold; what is held never goes below zero; an idle owner takes no memory.
"""

from __future__ import annotations

from collections import OrderedDict

from tpf_streams.core.identity import length_prefixed


def scope_key(pipeline_id: str, step_id: str, endpoint: str) -> str:
    """The name of a scope: `<length>:<text>` of each part. Not by tenant: tenants share a scope."""
    return length_prefixed(pipeline_id, step_id, endpoint)


class AdmissionBudget:
    """The slots of one scope in one process. Breaking a rule raises AssertionError: an error of the engine."""

    __slots__ = ("_capacity", "_held", "_held_by", "_on_hold", "_waiting", "_wants")

    def __init__(self, capacity: int) -> None:
        """`capacity`: slots, at least 1."""
        if capacity < 1:
            raise ValueError("the capacity of a budget is at least 1")
        self._capacity = capacity
        self._held = 0
        self._held_by: dict[str, int] = {}
        self._waiting = 0
        self._wants: OrderedDict[str, int] = OrderedDict()
        self._on_hold = False

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def held(self) -> int:
        """Slots held by all owners; above the capacity only through `adopt`."""
        return self._held

    @property
    def waiting(self) -> int:
        """Slots asked for and not granted."""
        return self._waiting

    @property
    def on_hold(self) -> bool:
        return self._on_hold

    @property
    def owners(self) -> int:
        """Owners that hold or want something."""
        return len(self._held_by.keys() | self._wants.keys())

    def held_by(self, owner: str) -> int:
        return self._held_by.get(owner, 0)

    def wanted_by(self, owner: str) -> int:
        return self._wants.get(owner, 0)

    def hold(self) -> None:
        """Grant nothing until `resume`: a task of this process is being restored. Idempotent."""
        self._on_hold = True

    def resume(self) -> None:
        """All tasks are restored, their slots adopted. Idempotent."""
        self._on_hold = False

    def request(self, owner: str, count: int) -> None:
        """Add `count` to what the owner wants. A new owner waits at the end of the round."""
        _check_count(count)
        if count:
            self._wants[owner] = self._wants.get(owner, 0) + count
            self._waiting += count

    def grant(self) -> list[tuple[str, int]]:
        """The slots that are free now, one at a time round the owners that wait; (owner, new slots) per owner."""
        free = 0 if self._on_hold else min(self._capacity - self._held, self._waiting)
        granted: dict[str, int] = {}
        for _ in range(free):
            owner = next(iter(self._wants))
            granted[owner] = granted.get(owner, 0) + 1
            self._take_turn(owner)
        for owner, count in granted.items():
            self._hold_more(owner, count)
        return list(granted.items())

    def adopt(self, owner: str, count: int) -> None:
        """Count slots that the owner's open interactions hold already, at the opening of its task."""
        _check_count(count)
        self._hold_more(owner, count)

    def release(self, owner: str, count: int = 1) -> None:
        """Give `count` slots back. Raises AssertionError when the owner does not hold that many."""
        _check_count(count)
        left = self.held_by(owner) - count
        if left < 0:
            raise AssertionError(f"budget: {count} slots released by an owner that holds {self.held_by(owner)}")
        self._held -= count
        if left:
            self._held_by[owner] = left
        else:
            self._held_by.pop(owner, None)

    def withdraw(self, owner: str) -> int:
        """Forget what the owner wants and has not been granted; how many slots that was."""
        wanted = self._wants.pop(owner, 0)
        self._waiting -= wanted
        return wanted

    def drop(self, owner: str) -> None:
        """Forget everything of an owner: its task was closed. Its slots are free at once. Idempotent."""
        self.withdraw(owner)
        self._held -= self._held_by.pop(owner, 0)

    def _take_turn(self, owner: str) -> None:
        self._waiting -= 1
        if self._wants[owner] == 1:
            del self._wants[owner]
        else:
            self._wants[owner] -= 1
            self._wants.move_to_end(owner)

    def _hold_more(self, owner: str, count: int) -> None:
        if count:
            self._held_by[owner] = self._held_by.get(owner, 0) + count
            self._held += count


def _check_count(count: int) -> None:
    if count < 0:
        raise AssertionError(f"budget: a negative count of slots ({count})")

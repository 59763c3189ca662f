"""Random asking and giving back before both: the budgets of a process, and the model (contract 0.17, section 8).

Items ask one by one, as they come to the boundary; a task may be opening, an execution may end while it waits.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial

from tests.cleanroom.histories import History
from tests.cleanroom.model import Budget
from tests.unit.core.machine import pipeline
from tpf_streams.engine.budgets import Budgets

STEP = 0
STEPS = 60
Owner = tuple[str, int]


class Both:
    """One history of one scope."""

    def __init__(self, seed: int) -> None:
        self.history = History(seed)
        capacity = self.history.one([1, 2, 3, 5])
        self.core = Budgets(pipeline("ks", max_concurrency=capacity))
        self.model = Budget(capacity)
        self.granted: list[Owner] = []
        self.given: list[Owner] = []
        self.asked: defaultdict[str, int] = defaultdict(int)

    def run(self) -> None:
        moves = [self.ask] * 5 + [self.give_back] * 4 + [self.withdraw, self.open, self.open, self.bring_in]
        for _ in range(STEPS):
            self.history.one(moves)()
            self.given += self.model.grant()
            # Of one moment: core tells each owner of all it got at once (README, difference 5).
            self.history.same("who was given slots", sorted(self.granted), sorted(self.given))
            self.history.same("slots held", self.core.held(STEP), len(self.model.holders))

    def ask(self) -> None:
        execution, count = self.history.one("abc"), self.history.one([1, 1, 3])
        self.history.note(f"{execution} asks for {count}")
        for _ in range(count):
            self.asked[execution] += 1
            owner = execution, self.asked[execution]
            self.model.ask(*owner)
            self.core.request(STEP, execution, partial(self.granted.append, owner))
            self.given += self.model.grant()

    def give_back(self) -> None:
        if self.model.holders:
            owner = self.history.one(sorted(self.model.holders))
            self.history.note(f"{owner} gives back")
            self.core.release(STEP, owner[0])
            self.model.give_back(*owner)

    def withdraw(self) -> None:
        execution = self.history.one("abc")
        self.history.note(f"{execution} waits no more")
        self.core.withdraw(execution)
        self.model.withdraw(execution)

    def open(self) -> None:
        """A task of the process opens, or all of them are open again."""
        self.history.note("opening" if self.model.restored else "opened")
        (self.core.begin_opening if self.model.restored else self.core.end_opening)(0)
        self.model.restored = not self.model.restored

    def bring_in(self) -> None:
        """Open interactions of a task that opens; they may be more than there are slots."""
        if not self.model.restored:
            execution = self.history.one("abc")
            self.history.note(f"{execution} brings one in")
            self.asked[execution] += 1
            self.core.adopt(STEP, execution)
            self.model.bring_in([(execution, self.asked[execution])])


def history(seed: int) -> Both:
    both = Both(seed)
    both.run()
    return both

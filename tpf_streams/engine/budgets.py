"""The admission budgets of a process: one scope an await step, shared by all its tasks (contract 0.17).

A grant reaches whoever waits as a call, which puts an event into the inbox of a task; the slot is held from then on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tpf_streams.core.budget import AdmissionBudget
from tpf_streams.core.step import AwaitDefinition, PipelineDefinition

Granted = Callable[[], None]


class Budgets:
    """Slots by await step. A step without a budget answers every request at once and counts nothing."""

    def __init__(
        self,
        definition: PipelineDefinition,
        waited: Callable[[int, float], None] = lambda step_index, seconds: None,
        monotonic_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`waited`: told of each slot that was not free at once, with the step's index and the wait in seconds."""
        self._scopes = {
            step.index: AdmissionBudget(definition.budget)
            for step in definition.steps
            if isinstance(step, AwaitDefinition) and definition.budget_enabled and step.transport.endpoint is not None
        }
        self._waiting: dict[tuple[int, str], deque[tuple[Granted, float]]] = {}
        self._waited = waited
        self._now_s = monotonic_s
        self._asking = False
        self._opening: set[int] = set()
        self._granting: set[int] = set()

    def limits(self, step_index: int) -> bool:
        return step_index in self._scopes

    def held(self, step_index: int) -> int:
        """Slots of the step that are held now."""
        scope = self._scopes.get(step_index)
        return 0 if scope is None else scope.held

    def concerns(self, execution_id: str) -> bool:
        """Whether the execution holds a slot or waits for one."""
        return any(scope.held_by(execution_id) or scope.wanted_by(execution_id) for scope in self._scopes.values())

    def begin_opening(self, partition: int) -> None:
        """No slot is granted until every task of the process has brought in what it holds."""
        self._opening.add(partition)
        for scope in self._scopes.values():
            scope.hold()

    def end_opening(self, partition: int) -> None:
        self._opening.discard(partition)
        if not self._opening:
            for index, scope in self._scopes.items():
                scope.resume()
                self._grant(index)

    def adopt(self, step_index: int, execution_id: str) -> None:
        """Bring in a slot that an open interaction holds already."""
        scope = self._scopes.get(step_index)
        if scope is not None:
            scope.adopt(execution_id, 1)

    def request(self, step_index: int, execution_id: str, granted: Granted, count: int = 1) -> None:
        """Ask for `count` slots. Calls `granted` for each once it is held: at once, or when one comes back; first
        come, first served."""
        scope = self._scopes.get(step_index)
        if scope is None:
            for _ in range(count):
                granted()
            return
        waiting = self._waiting.setdefault((step_index, execution_id), deque())
        waiting.extend([(granted, self._now_s())] * count)
        scope.request(execution_id, count)
        self._asking, before = True, self._asking
        try:
            self._grant(step_index)
        finally:
            self._asking = before

    def release(self, step_index: int, execution_id: str) -> None:
        scope = self._scopes.get(step_index)
        if scope is not None:
            scope.release(execution_id, 1)
            self._grant(step_index)

    def withdraw(self, execution_id: str) -> None:
        """The execution has ended: it waits for nothing any more."""
        for index, scope in self._scopes.items():
            scope.withdraw(execution_id)
            self._waiting.pop((index, execution_id), None)

    def drop(self, execution_id: str) -> None:
        """The execution's task was closed: what it held and waited for is brought in again at its next opening."""
        self.withdraw(execution_id)
        for index, scope in self._scopes.items():
            scope.drop(execution_id)
            self._grant(index)

    def _grant(self, step_index: int) -> None:
        """Hand out what is free. Who is told may give the slot back at once: a loop, so that no stack grows with it."""
        if step_index in self._granting or not self._scopes[step_index].waiting:
            return
        self._granting.add(step_index)
        try:
            while granted := self._scopes[step_index].grant():
                for execution_id, count in granted:
                    self._tell((step_index, execution_id), count)
        finally:
            self._granting.discard(step_index)

    def _tell(self, key: tuple[int, str], count: int) -> None:
        waiting = self._waiting[key]
        for _ in range(count):
            granted, since_s = waiting.popleft()
            if not self._asking:  # what is free is granted to whoever asks: this one has waited
                self._waited(key[0], self._now_s() - since_s)
            granted()
        if not waiting:
            self._waiting.pop(key, None)

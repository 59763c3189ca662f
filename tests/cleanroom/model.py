"""A clean-room model of the await boundary, written from the contract alone.

It says, in the plainest data there is, what an outsider sees of one partition: which outcome a completion gets
(contract 0.3, 0.4, 0.8, 0.11), how many items are out at once and which come next (0.17, 0.20, sections 5 and 6), when
the durable path lets continuations go (section 6 and the gate list of the operations page) and who holds a slot of the
admission budget (0.17, section 8). Its first version was written before its author had read `tpf_streams.core`, and it
imports nothing of that: a rule misread there is not misread here by the same person. Where the text is silent the
docstring says "Silent" and what is assumed; a number stands for a difference that README of this folder settles.

Times are epoch milliseconds; a payload is any JSON value; an id is a string.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

FINAL = frozenset({"COMPLETED", "FAILED", "TIMED_OUT", "CANCELLED"})
#: Outcomes that are no drop (0.4, last paragraph): every other one counts as dropped, with itself as the reason.
KEPT = frozenset({"admitted", "duplicate", "held"})


@dataclass
class Token:
    """What a resume token claims, and whether its signature holds; that of a malformed token does not."""

    tenant: str
    interaction: str
    correlation: str
    execution: str
    step: str
    deadline: int
    genuine: bool = True


@dataclass
class Completion:
    """What a provider sent, after the envelope was read; `readable` is false when it was no envelope at all."""

    tenant: str
    payload: Any
    arrived: int
    interaction: str | None = None
    correlation: str | None = None
    token: Token | None = None
    size: int = 0
    readable: bool = True
    converts: bool = True


@dataclass
class Row:
    """One interaction. OPEN stands for WAITING, DISPATCHING and DISPATCHED: no rule of admission tells them apart."""

    tenant: str
    execution: str
    step: str
    index: int
    interaction: str
    correlation: str
    deadline: int
    status: str = "OPEN"
    payload: Any = None
    delivered: bool = False


@dataclass
class Rules:
    """The settings that the rules below read."""

    token_required: bool = True
    payload_bytes_max: int = 256 * 1024
    aggregate_bytes_max: int = 3 * 1024 * 1024
    """What bounds an envelope that cannot be read: of which step it is, nobody knows (README, difference 2)."""
    early_max: int = 10_000
    early_of_one_max: int = 4
    """Completions kept for one row that is not there yet. Silent in the contract (difference 1)."""
    on_item_timeout: str = "FAIL_UNIT"


@dataclass
class Admission:
    """The rows of one partition and the completions that meet them (0.4: the first rule that matches wins)."""

    rules: Rules
    rows: dict[str, Row] = field(default_factory=dict)
    early: list[Completion] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def complete(self, completion: Completion) -> str:
        """The one outcome of `completion`; `full` when there is no room for it, so that it has to come again."""
        outcome = self._judge(completion)
        if outcome == "held" and not self._hold(completion):
            return "full"
        self._record(completion, outcome)
        return outcome

    def _hold(self, completion: Completion) -> bool:
        """One early row an interaction, of what was sent for it in different words, within a bound (difference 1)."""
        mine = [one for one in self.early if _names(one) == _names(completion)]
        if not mine and self.early_rows >= self.rules.early_max:
            return False
        said = {canonical(one.payload) for one in mine}
        if len(mine) < self.rules.early_of_one_max and canonical(completion.payload) not in said:
            self.early.append(completion)
        return True

    @property
    def early_rows(self) -> int:
        return len({_names(one) for one in self.early})

    def appear(self, row: Row) -> list[str]:
        """A row is created: what was held for it is decided now, in the order it came, each by its own arrival."""
        self.rows[row.interaction] = row
        mine = [one for one in self.early if _names(one) == row.interaction]
        self.early = [one for one in self.early if _names(one) != row.interaction]
        return [self.complete(one) for one in mine]

    def expire(self, now: int) -> None:
        """Held completions whose row never came. Silent on the moment: the deadline of the first one's token is past.

        What is counted is the row (difference 1).
        """
        firsts = {_names(one): one for one in reversed(self.early)}
        for name, first in firsts.items():
            if first.token is not None and first.token.deadline < now:
                self.early = [one for one in self.early if _names(one) != name]
                self._record(first, "not_found")

    def overdue(self, now: int) -> list[Row]:
        """Rows the sweep takes: open ones past their deadline, in its order (README, difference 3)."""
        due = [row for row in self.rows.values() if row.status == "OPEN" and row.deadline < now]
        return sorted(due, key=lambda row: (row.deadline, row.tenant, row.interaction))

    def _judge(self, completion: Completion) -> str:
        if completion.size > (self.rules.payload_bytes_max if completion.readable else self.rules.aggregate_bytes_max):
            return "payload_too_large"
        if not completion.readable:
            return "invalid_envelope"
        row = self._row(completion)
        if row is None:
            return self._without_row(completion)
        if completion.tenant != row.tenant:
            return "tenant_mismatch"
        if not self._ids_agree(completion, row):
            return "identity_mismatch"
        if not self._token_passes(completion.token, row):
            return "resume_token_rejected"
        if not completion.converts:
            return "invalid_payload"
        return self._by_status(completion, row)

    def _row(self, completion: Completion) -> Row | None:
        """The one row: by interaction id, else by correlation id, else by what a genuine token names."""
        if completion.interaction in self.rows:
            return self.rows[completion.interaction]
        by_correlation = [row for row in self.rows.values() if row.correlation == completion.correlation]
        if by_correlation:
            return by_correlation[0]
        if completion.interaction is None and completion.correlation is None and completion.token is not None:
            return self.rows.get(completion.token.interaction)
        return None

    @staticmethod
    def _ids_agree(completion: Completion, row: Row) -> bool:
        """0.3: every id present agrees with the one row; an id that names nothing agrees with none."""
        return completion.interaction in (None, row.interaction) and completion.correlation in (None, row.correlation)

    def _token_passes(self, token: Token | None, row: Row) -> bool:
        """0.2: the deadline and the expiry of the token are not looked at: the row decides."""
        if token is None:
            return not self.rules.token_required
        claims = (token.tenant, token.interaction, token.correlation, token.execution, token.step)
        return token.genuine and claims == (row.tenant, row.interaction, row.correlation, row.execution, row.step)

    def _without_row(self, completion: Completion) -> str:
        """0.11. Silent on a genuine token that contradicts its envelope: it vouches for nothing, hence not_found."""
        token = completion.token
        if token is None or not token.genuine or token.tenant != completion.tenant:
            return "not_found"
        if completion.interaction not in (None, token.interaction) or completion.correlation not in (
            None,
            token.correlation,
        ):
            return "not_found"
        return "held" if completion.arrived <= token.deadline else "terminal"

    @staticmethod
    def _by_status(completion: Completion, row: Row) -> str:
        if row.status == "COMPLETED":
            return "duplicate" if canonical(row.payload) == canonical(completion.payload) else "conflict"
        if row.status in ("CANCELLED", "FAILED"):
            return "terminal"
        if completion.arrived > row.deadline:
            return "late"
        return "terminal" if row.status == "TIMED_OUT" else "admitted"

    def _record(self, completion: Completion, outcome: str) -> None:
        row = self._row(completion)
        if outcome == "admitted" and row is not None:
            row.status, row.payload = "COMPLETED", completion.payload
        if outcome == "late" and row is not None:
            row.status = "TIMED_OUT"
        self.counts[outcome] = self.counts.get(outcome, 0) + 1


def canonical(payload: Any) -> str:
    """Payloads are the same when their JSON with sorted keys is (0.4)."""
    return json.dumps(payload, sort_keys=True, separators=(",", ":"))


def _names(completion: Completion) -> str:
    assert completion.token is not None, "only a verified token is held"
    return completion.token.interaction


@dataclass
class Budget:
    """Slots of one scope (0.17): first come first served within an execution, round robin between executions."""

    capacity: int
    holders: set[tuple[str, int]] = field(default_factory=set)
    waiting: dict[str, deque[int]] = field(default_factory=dict)
    restored: bool = True

    def ask(self, execution: str, index: int) -> None:
        """An item wants a slot. Who holds one already keeps that one, and who waits already keeps his place."""
        if (execution, index) not in self.holders and index not in self.waiting.get(execution, ()):
            self.waiting.setdefault(execution, deque()).append(index)

    def bring_in(self, holders: Iterable[tuple[str, int]]) -> None:
        """Open interactions of a task that opens: they hold their slots whether or not the budget has room for them."""
        self.holders.update(holders)

    def give_back(self, execution: str, index: int) -> None:
        """The slot is free; to give it back twice, or without holding it, frees nothing."""
        self.holders.discard((execution, index))

    def withdraw(self, execution: str) -> None:
        """An execution that has ended waits for nothing."""
        self.waiting.pop(execution, None)

    def grant(self) -> list[tuple[str, int]]:
        """Slots given now: nobody before every task is restored, nobody while the count is at or over the budget."""
        given = []
        while self.restored and len(self.holders) < max(1, self.capacity) and self.waiting:
            execution = next(iter(self.waiting))
            queue = self.waiting.pop(execution)
            owner = (execution, queue.popleft())
            if queue:
                self.waiting[execution] = queue  # to the end of the round; who wants nothing has no place in it (4)
            self.holders.add(owner)
            given.append(owner)
        return given


@dataclass
class Unit:
    """One itemized boundary of one execution: its source, its window and its gates.

    Live (0.20): an item leaves the window when it is delivered downstream, not when its answer is admitted (section 6).
    Durable: nothing is delivered before the gates are open, and they open only after the last item is dispatched, so
    the window cannot hold the source back there; a slot goes back at the completion (section 8, "release").
    """

    tenant: str
    execution: str
    items: int
    window: int
    live: bool = True
    dispatched: int = 0
    rows: dict[int, Row] = field(default_factory=dict)
    queue: deque[int] = field(default_factory=deque)  # answers in the order they were admitted, not delivered yet
    accepted: set[int] = field(
        default_factory=set
    )  # by the live session: no gate holds these, even when it is gone (8)
    released: set[int] = field(default_factory=set)
    answers: int = 0
    delivered: list[int] = field(default_factory=list)
    dispatch_complete: bool = False
    parent_waiting_on: str | None = None
    early_held: int = 0
    rejected: int = 0
    status: str = "WAITING_EXTERNAL"
    execution_status: str = "RUNNING"

    @property
    def in_flight(self) -> int:
        """Items whose permit is out: dispatched, not delivered, not given up."""
        gone = [row for row in self.rows.values() if row.delivered or row.status in FINAL - {"COMPLETED"}]
        return self.dispatched - len(gone)

    @property
    def wants(self) -> int | None:
        """The index of the next item that may be dispatched as far as the window goes; None when there is none."""
        if self.status in FINAL or self.dispatched >= self.items:
            return None
        return self.dispatched if not self.live or self.in_flight < max(1, self.window) else None

    @property
    def gates_open(self) -> bool:
        """Dispatch is complete, the parent waits, and it waits for this very unit."""
        return (
            self.dispatch_complete
            and self.execution_status == "WAITING_EXTERNAL"
            and self.parent_waiting_on == self.execution
        )

    def dispatch(self, row: Row) -> None:
        """The next item goes out as `row`; the last one says that dispatch is complete."""
        assert row.index == self.dispatched, "items go out in source order, each once"
        self.rows[row.index] = row
        self.dispatched += 1

    def source_ended(self) -> None:
        """Everything is dispatched. On the durable path the parent is parked in the same breath.

        That a source has ended is known when it is asked for one more: live, when the window has room (README, 6).
        """
        asked = not self.live or self.in_flight < max(1, self.window)
        if self.dispatched == self.items and asked and self.status not in FINAL:
            self.dispatch_complete = True
            if not self.live and self.execution_status == "RUNNING":
                self.execution_status, self.parent_waiting_on = "WAITING_EXTERNAL", self.execution
            self._release()
            self._end_if_all_is_in()

    def answered(self, index: int) -> None:
        """An answer was admitted: it waits for demand, or for the gates, and is counted while they are shut."""
        if self.status in FINAL:
            return
        self.queue.append(index)
        self.answers += 1
        if self.live:
            self.accepted.add(index)
        elif not self.gates_open:
            self.early_held += 1
        self._release()
        self._end_if_all_is_in()

    def may_go(self, index: int) -> bool:
        """Whether an answer may go downstream as far as the gates go."""
        running = self.execution_status not in ("SUCCEEDED", "FAILED")
        return index in self.queue and running and (index in self.accepted or self.gates_open)

    def deliver(self, index: int) -> None:
        """Downstream has taken the answer of an item: its outputs are committed."""
        assert self.may_go(index), "nothing passes a gate that is shut"
        self.queue.remove(index)
        self.rows[index].delivered = True
        self.delivered.append(index)
        self._end_if_all_is_in()

    def ended(self, status: str, on_item_timeout: str) -> None:
        """One item ends without an answer: the whole unit with it, or this item only (0.9).

        `status` of the row: a unit of which an operator cancelled an item is FAILED, not timed out (README, 7).
        """
        if self.status in FINAL:
            return
        if on_item_timeout == "REJECT_ITEM":
            self.rejected += 1
            self._end_if_all_is_in()
            return
        self.status, self.execution_status = "TIMED_OUT" if status == "TIMED_OUT" else "FAILED", "FAILED"

    def cancelled(self) -> None:
        """An operator ends the execution; a unit that is complete stays so."""
        if self.execution_status not in ("SUCCEEDED", "FAILED"):
            self.status = "COMPLETED" if self.status == "COMPLETED" else "FAILED"
            self.execution_status = "FAILED"

    def park(self) -> None:
        """The live session is cancelled: what it has not accepted goes on by the durable path, gates and all."""
        if self.live and self.execution_status not in ("SUCCEEDED", "FAILED"):
            self.live = False
            self.source_ended()

    def _release(self) -> None:
        """Behind open gates every answer may go, whether or not downstream asks for it now."""
        if self.gates_open:
            self.released.update(index for index in self.queue if index not in self.accepted)

    def _end_if_all_is_in(self) -> None:
        """Live, the last delivery completes the unit (0.20); durable, the last answer does (4.1, difference 9)."""
        if not self.dispatch_complete or self.execution_status in ("SUCCEEDED", "FAILED"):
            return
        over = len(self.delivered) + self.rejected >= self.items
        if over or (not self.live and self.answers + self.rejected >= self.items):
            self.status = "COMPLETED"
        if over:
            self.execution_status = "SUCCEEDED"

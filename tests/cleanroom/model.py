"""A clean-room model of the await boundary, written from the contract alone.

It says, in the plainest data there is, what an outsider sees of one partition: which outcome a completion gets (contract
0.3, 0.4, 0.8, 0.11), how many items are out at once and which come next (0.17, 0.20, sections 5 and 6), when the durable path
lets continuations go (section 6 and the gate list of the operations page) and who holds a slot of the admission budget (0.17,
section 8). It was written before its author had read `tpf_streams.core`, and imports nothing of it: a rule misread there by the
one who wrote it is not misread here by the same person. Where the text is silent the docstring says "Silent" and what is assumed.

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
    """What a resume token claims, and whether its signature holds. A malformed token is one whose signature does not."""

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
    """One interaction. OPEN stands for WAITING, DISPATCHING and DISPATCHED: they are told apart by no rule of admission."""

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
    early_max: int = 10_000
    on_item_timeout: str = "FAIL_UNIT"


@dataclass
class Admission:
    """The rows of one partition and the completions that meet them (0.4: the first rule that matches wins)."""

    rules: Rules
    rows: dict[str, Row] = field(default_factory=dict)
    early: list[Completion] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def complete(self, completion: Completion) -> str:
        """The one outcome of `completion`; `full` when the early rows are at their limit, so that it has to come again."""
        outcome = self._judge(completion)
        if outcome == "held" and len(self.early) >= self.rules.early_max:
            return "full"
        if outcome == "held":
            self.early.append(completion)
        self._record(completion, outcome)
        return outcome

    def appear(self, row: Row) -> list[str]:
        """A row is created: what was held for it is decided now, in the order it came, each by its own arrival."""
        self.rows[row.interaction] = row
        mine = [one for one in self.early if _names(one) == row.interaction]
        self.early = [one for one in self.early if _names(one) != row.interaction]
        return [self.complete(one) for one in mine]

    def expire(self, now: int) -> list[str]:
        """Held completions whose row never came. Silent on the moment: the deadline of their token is past."""
        gone = [one for one in self.early if one.token is not None and one.token.deadline < now]
        self.early = [one for one in self.early if one not in gone]
        for one in gone:
            self._record(one, "not_found")
        return ["not_found" for _ in gone]

    def overdue(self, now: int) -> list[Row]:
        """Rows the sweep takes: open ones at or past their deadline (section 7), in deadline order."""
        due = [row for row in self.rows.values() if row.status == "OPEN" and row.deadline <= now]
        return sorted(due, key=lambda row: (row.deadline, row.tenant, row.interaction))

    def _judge(self, completion: Completion) -> str:
        if completion.size > self.rules.payload_bytes_max:
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
        """0.11. Silent on a genuine token that contradicts its own envelope: it vouches for nothing, hence not_found."""
        token = completion.token
        if token is None or not token.genuine or token.tenant != completion.tenant:
            return "not_found"
        if completion.interaction not in (None, token.interaction) or completion.correlation not in (None, token.correlation):
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
        queue = self.waiting.setdefault(execution, deque())
        if (execution, index) not in self.holders and index not in queue:
            queue.append(index)

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
        while self.restored and len(self.holders) < max(1, self.capacity) and any(self.waiting.values()):
            execution = next(name for name, queue in self.waiting.items() if queue)
            queue = self.waiting.pop(execution)
            owner = (execution, queue.popleft())
            self.waiting[execution] = queue  # to the end of the round
            self.holders.add(owner)
            given.append(owner)
        return given


@dataclass
class Unit:
    """One itemized boundary of one execution: its source, its window and its gates.

    Live (0.20): an item leaves the window when it is delivered downstream, not when its answer is admitted (section 6).
    Durable: nothing is delivered before the gates are open, and they open only after the last item is dispatched, so the
    window cannot hold the source back there; a slot of the budget goes back at the completion (section 8, "release").
    """

    tenant: str
    execution: str
    items: int
    window: int
    live: bool = True
    dispatched: int = 0
    rows: dict[int, Row] = field(default_factory=dict)
    demand: int | None = None  # None: as much as comes (an ordinary downstream); a number: what Reactive Streams asked for
    queue: deque[int] = field(default_factory=deque)  # answers in the order they were admitted, not delivered yet
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
        return self.dispatch_complete and self.execution_status == "WAITING_EXTERNAL" and self.parent_waiting_on == self.execution

    def dispatch(self, row: Row) -> None:
        """The next item goes out as `row`; the last one says that dispatch is complete."""
        assert row.index == self.dispatched, "items go out in source order, each once"
        self.rows[row.index] = row
        self.dispatched += 1

    def source_ended(self) -> None:
        """Everything is dispatched. On the durable path the parent is parked in the same breath."""
        if self.dispatched == self.items and self.status not in FINAL:
            self.dispatch_complete = True
            if not self.live and self.execution_status == "RUNNING":
                self.execution_status, self.parent_waiting_on = "WAITING_EXTERNAL", self.execution
            self._end_if_all_is_in()

    def answered(self, index: int) -> None:
        """An answer was admitted: it waits for demand (live) or for the gates (durable, counted while they are shut)."""
        if self.status in FINAL:
            return
        self.queue.append(index)
        if not self.live and not self.gates_open:
            self.early_held += 1

    def deliver(self) -> list[int]:
        """What goes downstream now, in the order of admission."""
        if self.status in FINAL or (not self.live and not self.gates_open):
            return []
        count = len(self.queue) if self.demand is None or not self.live else min(self.demand, len(self.queue))
        out = [self.queue.popleft() for _ in range(count)]
        if self.demand is not None:
            self.demand -= count
        for index in out:
            self.rows[index].delivered = True
        self.delivered.extend(out)
        self._end_if_all_is_in()
        return out

    def timed_out(self, on_item_timeout: str) -> None:
        """One item is late: the whole unit with it, or this item only (0.9)."""
        if self.status in FINAL:
            return
        if on_item_timeout == "REJECT_ITEM":
            self.rejected += 1
            self._end_if_all_is_in()
            return
        self.status, self.execution_status = "TIMED_OUT", "FAILED"

    def park(self) -> None:
        """The live session is cancelled: what was not delivered is delivered by the durable path, gates and all."""
        if self.live and self.status not in FINAL:
            self.live = False
            self.early_held += len(self.queue)
            self.source_ended()

    def _end_if_all_is_in(self) -> None:
        if self.dispatch_complete and len(self.delivered) + self.rejected >= self.items and self.status not in FINAL:
            self.status, self.execution_status = "COMPLETED", "SUCCEEDED"

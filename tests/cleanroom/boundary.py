"""Random lives of a stream over an await boundary before both: the engine under `TopologyTestDriver`, and the model.

A few executions share one partition and one budget. Providers answer, answer again, or stay silent until the deadline
is past; downstream asks for items one by one; sessions are parked, items and executions cancelled, processes lost. Of
two executions that come to a slot at one moment the text does not say which is first, so what goes out next is read
from core and judged by the model: whether the window has room, a slot is free and the item is the next one, and at the
end whether anything was left that could have gone out.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.cleanroom.histories import History
from tests.cleanroom.model import Admission, Budget, Completion, Row, Rules, Token, Unit
from tests.field.pipelines import MINUTE_MS, STREAM, Steps, open_driver
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.unit import AwaitUnitRecord

AWAIT = 1
STEPS = 25
ITEMS = [0, 1, 2, 3, 5]
PAYLOADS: list[dict[str, Any]] = [{"status": "ok"}, {"status": "no"}]


class Both:
    """One history. `requests`: every request that went out, by execution and item."""

    def __init__(self, seed: int, folder: Path) -> None:
        one = self.history = History(seed)
        self.width, self.on_timeout = one.one([1, 2, 3]), one.one(["FAIL_UNIT", "REJECT_ITEM"])
        self.window = one.often(self.width, [1], 0.7)
        settings = {
            "pipeline.max-concurrency": str(self.width),
            "pipeline.parallelism": "SEQUENTIAL" if self.window < self.width else "AUTO",
            "await.onItemTimeout": self.on_timeout,
        }
        self.steps = Steps()
        self.driver = open_driver(folder, STREAM, self.steps, settings=settings)
        self.admission = Admission(Rules())
        self.budget = Budget(self.width)
        self.units: dict[str, Unit] = {}
        self.seen = 0
        self.requests: dict[tuple[str, int], dict[str, Any]] = {}
        self.order: list[tuple[str, int]] = []
        self.outputs = self.crashes = 0
        self.demand: int | None = None
        self.note_settings()

    def note_settings(self) -> None:
        self.history.note(f"width {self.width}, window {self.window}, {self.on_timeout}")

    def run(self) -> None:
        moves = (
            [self.answer] * 10 + [self.submit] * 4 + [self.want] * 3
            + [self.pass_time, self.park, self.park, self.park, self.cancel_one, self.cancel_all, self.crash, self.hold]
        )  # fmt: skip
        with self.driver:
            self.submit()
            self.follow()
            for _ in range(STEPS):
                self.history.one(moves)()
                self.follow()
                self.compare()

    # What happens, to both

    def submit(self) -> None:
        if len(self.units) == 3:
            return
        items, tenant = self.history.one(ITEMS), self.history.one(["tenant-1", "tenant-2"])
        execution = self.driver.submit({"count": str(items)}, key=f"key-{len(self.units)}", tenant=tenant)
        self.history.note(f"submit {self.name(execution)} of {items}")
        self.units[execution] = Unit(tenant, execution, items, self.window)

    def answer(self) -> None:
        if not self.requests:
            return
        owner = self.history.one(self.open_ones() or list(self.requests))
        owner = self.history.often(owner, list(self.requests), 0.85)
        request, payload = self.requests[owner], self.history.often(PAYLOADS[0], PAYLOADS)
        token = self.claims(request)
        completion = Completion(
            request["tenantId"],
            payload,
            self.driver.clock.now_ms(),
            request["interactionId"],
            request["correlationId"],
            token,
        )
        outcome = self.driver.answer(request, payload)
        self.history.note(f"answer {self.name(owner[0])}/{owner[1]}: {outcome}")
        expected = self.admission.complete(completion)
        self.history.same("the outcome", outcome, expected)
        if expected == "admitted":
            self.admitted(owner)

    def want(self) -> None:
        if self.demand is not None:
            count = self.history.one([1, 2])
            self.history.note(f"downstream asks for {count}")
            self.demand += count
            self.driver.request(count)

    def hold(self) -> None:
        if self.demand is None:
            self.history.note("downstream asks for nothing")
            self.demand = 0
            self.driver.hold_demand()
        else:
            self.history.note("downstream takes everything")
            self.demand = None
            self.driver.request(float("inf"))

    def pass_time(self) -> None:
        ms = self.history.one([1, MINUTE_MS // 2, MINUTE_MS, MINUTE_MS + 1])
        self.history.note(f"{ms} ms go by")
        self.driver.advance(ms)
        for row in self.admission.overdue(self.driver.clock.now_ms()):
            if row.status == "OPEN":
                row.status = "TIMED_OUT"
                self.ended(row)

    def park(self) -> None:
        execution = self.history.one(list(self.units))
        self.history.note(f"park {self.name(execution)}")
        self.driver.cancel_session(execution)
        self.units[execution].park()

    def cancel_one(self) -> None:
        for owner in self.open_ones()[:1]:
            self.history.note(f"cancel {self.name(owner[0])}/{owner[1]}")
            self.driver.cancel_interaction(self.requests[owner]["interactionId"])
            self.row(owner).status = "CANCELLED"
            self.ended(self.row(owner))

    def cancel_all(self) -> None:
        execution = self.history.one(list(self.units))
        self.history.note(f"cancel {self.name(execution)}")
        self.driver.cancel_execution(execution)
        if self.units[execution].execution_status != "SUCCEEDED":
            self.units[execution].cancelled()
            self.close(execution)

    def crash(self) -> None:
        self.history.note("crash")
        self.driver.crash()
        if self.demand is not None:
            self.demand = 0
        self.crashes += 1
        self.order.sort()

    # What follows, by the model

    def admitted(self, owner: tuple[str, int]) -> None:
        unit = self.units[owner[0]]
        unit.answered(owner[1])
        if owner[1] in unit.accepted:
            self.order.append(owner)
        else:
            self.budget.give_back(*owner)

    def ended(self, row: Row) -> None:
        """An item ends without an answer."""
        self.budget.give_back(row.execution, row.index)
        unit = self.units[row.execution]
        unit.ended(row.status, self.on_timeout)
        if unit.execution_status == "FAILED":
            self.close(row.execution)

    def close(self, execution: str) -> None:
        """What is open of an execution that failed is cancelled, and its slots go back."""
        for index, row in self.units[execution].rows.items():
            self.budget.give_back(execution, index)
            if row.status == "OPEN":
                row.status = "CANCELLED"

    def follow(self) -> None:
        """Deliver and dispatch until nothing moves."""
        requests = self.driver.requests()
        outputs = [(it["executionId"], it["itemIndex"]) for it in self.driver.outputs()]
        fresh, out = requests[self.seen :], outputs[self.outputs :]
        self.seen, self.outputs = len(requests), len(outputs)
        moved = True
        while moved:
            moved = bool(self.delivered(out))
            fresh, before = self.dispatched(fresh), fresh
            moved = moved or len(fresh) < len(before)
        self.history.same("outputs that the model does not expect", [self.shown(it) for it in out], [])
        self.history.same("requests that the model does not allow", len(fresh), 0)
        for unit in self.units.values():
            full = len(self.budget.holders) >= self.width
            self.history.same("whether something could go out", unit.wants is not None and not full, False)

    def delivered(self, out: list[tuple[str, int]]) -> bool:
        moved = False
        for unit in self.units.values():
            unit.source_ended()
            # What the gates have held comes in order of its items (README, difference 13).
            behind = [(unit.execution, index) for index in sorted(unit.released)]
            self.order += [owner for owner in behind if owner[1] in unit.queue and owner not in self.order]
        for owner in list(self.order):
            unit = self.units[owner[0]]
            if self.demand == 0 or not unit.may_go(owner[1]):
                continue
            unit.deliver(owner[1])
            self.demand = None if self.demand is None else self.demand - 1
            self.budget.give_back(*owner)
            self.order.remove(owner)
            self.history.same("what goes downstream", owner in out, True)
            out.remove(owner)
            moved = True
        return moved

    def dispatched(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Requests of core that the model allows now are taken; the others are left."""
        left = []
        for request in requests:
            unit = self.units[request["executionId"]]
            index = int(request["requestPayload"]["orderId"].removeprefix("o-"))
            if unit.wants != index or len(self.budget.holders) >= self.width:
                left.append(request)
                continue
            self.budget.holders.add((unit.execution, index))
            row = Row(
                unit.tenant, unit.execution, request["stepId"], index,
                request["interactionId"], request["correlationId"], request["deadlineEpochMs"],
            )  # fmt: skip
            self.admission.appear(row)
            unit.dispatch(row)
            self.requests[unit.execution, index] = request
        return left

    # Both say the same

    def compare(self) -> None:
        same = self.history.same
        for execution, unit in self.units.items():
            name = self.name(execution)
            same(f"{name}, the execution", self.driver.execution(execution).status.value, unit.execution_status)
            core = self.driver.unit(execution, AWAIT)
            session = self.driver.session(execution)
            if session is not None:
                same(f"{name}, in flight", session.in_flight, unit.in_flight)
                same(f"{name}, live", session.live, unit.live)
            if core is not None:
                self.compare_unit(name, core, unit)
        same("the rows", self.rows_of_core(), {it.interaction: it.status for it in self.admission.rows.values()})
        same("slots held", self.driver.application.environment.budgets.held(AWAIT), len(self.budget.holders))
        same(
            "early held",
            self.driver.metric("completion.early_held.total"),
            sum(it.early_held for it in self.units.values()),
        )
        same("live", self.driver.metric("live.handoff.total"), sum(len(it.accepted) for it in self.units.values()))
        same(
            "released", self.driver.metric("resume.released.total"), sum(len(it.released) for it in self.units.values())
        )
        same("dispatched", self.driver.metric("interaction.dispatched.total"), len(self.requests))
        if not self.crashes:  # every life reads its sources again
            same("read further ahead than one", self.steps.read > len(self.requests) + len(self.units), False)
        same("admitted", self.driver.metric("completion.admitted.total"), self.admission.counts.get("admitted", 0))

    def compare_unit(self, name: str, core: AwaitUnitRecord, unit: Unit) -> None:
        self.history.same(f"{name}, the unit", core.status.value, unit.status)
        self.history.same(f"{name}, dispatch complete", core.dispatch_complete, unit.dispatch_complete)

    def rows_of_core(self) -> dict[str, str]:
        return {ident: self.status(self.driver.interaction(ident)) for ident in self.admission.rows}

    @staticmethod
    def status(row: InteractionRecord) -> str:
        return row.status.value if row.status.terminal else "OPEN"

    # Names

    def open_ones(self) -> list[tuple[str, int]]:
        return [owner for owner in self.requests if self.row(owner).status == "OPEN"]

    def row(self, owner: tuple[str, int]) -> Row:
        return self.admission.rows[self.requests[owner]["interactionId"]]

    def name(self, execution: str) -> str:
        return "ABC"[list(self.units).index(execution)] if execution in self.units else "ABC"[len(self.units)]

    def shown(self, owner: tuple[str, int]) -> str:
        return f"{self.name(owner[0])}/{owner[1]}"

    @staticmethod
    def claims(request: dict[str, Any]) -> Token:
        return Token(
            request["tenantId"], request["interactionId"], request["correlationId"], request["executionId"],
            request["stepId"], request["deadlineEpochMs"],
        )  # fmt: skip


def history(seed: int) -> Both:
    with TemporaryDirectory() as folder:
        both = Both(seed, Path(folder))
        both.run()
    return both

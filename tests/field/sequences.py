"""`fc-seq/1`: the sequences of the field cases, played on a TopologyTestDriver.

The machine takes several of a sequence's steps in one turn: dispatching, marking and parking a scalar boundary are one
commit. An op that names such a step therefore checks that it has happened, and binds the case's names to the ids that
the product made. What a case does to a machine built otherwise (claims, sweeps, lost sends) its test plays itself, in a
subclass.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Self

from tests.field.pipelines import DATA, MINUTE_MS
from tpf_streams.core.events import Event, OwedDue
from tpf_streams.core.execution import OwedKind, OwedRecord
from tpf_streams.core.step import Json
from tpf_streams.core.token import TokenClaims, TokenSigner
from tpf_streams.testing import TopologyTestDriver
from tpf_streams.testing.driver import SECRET

HOUR_MS = 3_600_000
_TOKEN = re.compile(r"\$\{(\w+):([\w-]+)\}")
_NAME = re.compile(r"\b(int|cor)-(\w+)\b")


class Names:
    """The ids behind a case's names: `int-1` and `cor-1` are those of the request bound to `int-1`."""

    def __init__(self) -> None:
        self.requests: dict[str, Mapping[str, Any]] = {}

    def fill(self, text: str) -> str:
        """`text` with genuine tokens and ids in place of names; a name nobody bound stays as it is."""
        return _NAME.sub(self._id, _TOKEN.sub(lambda match: self._token(match[1], match[2]), text))

    def _token(self, kind: str, name: str) -> str:
        payload, _, signature = str(self.requests[name]["resumeToken"]).partition(".")
        parts = {
            "TOKEN": f"{payload}.{signature}",
            "TOKEN_PAYLOAD": payload,
            "TOKEN_SIGNATURE": signature,
            "TOKEN_PAYLOAD_DEADLINE_PLUS_1H": _one_hour_later(payload),
        }
        return parts[kind]

    def _id(self, match: re.Match[str]) -> str:
        request = self.requests.get(f"int-{match[2]}")
        if request is None:
            return match[0]
        return str(request["interactionId" if match[1] == "int" else "correlationId"])


def _one_hour_later(payload: str) -> str:
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    claims["deadlineEpochMs"] += HOUR_MS
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")


def completion(request: Mapping[str, Any], payload: Json) -> bytes:
    """A record of the response topic: the answer of an honest provider."""
    fields = {name: request[name] for name in ("tenantId", "interactionId", "correlationId", "resumeToken")}
    return json.dumps({**fields, "responsePayload": payload}).encode()


def foreseen(driver: TopologyTestDriver, payload: dict[str, Any], tenant: str) -> dict[str, Any]:
    """The request that submitting `payload` will make: ids are functions of their inputs (contract 0.1)."""
    ids, step, now = driver.application.ids, driver.definition.steps[0], driver.clock.now_ms()
    key = json.dumps(payload, separators=(",", ":"))
    execution_id = ids.execution_id(tenant, driver.definition.pipeline_id, key, 0)
    unit = ids.unit(tenant, execution_id, step.step_id, 0, 0)
    names = (tenant, unit.interaction_id(None), unit.correlation_id(None), execution_id, step.step_id)
    token = TokenSigner((SECRET,)).sign(TokenClaims(*names, now + MINUTE_MS, now))
    fields = ("tenantId", "interactionId", "correlationId", "executionId", "stepId")
    return {**dict(zip(fields, names, strict=True)), "resumeToken": token}


def deliver(driver: TopologyTestDriver, execution_id: str, event: Event) -> None:
    """Hand a local event to the task of an execution, as a result that comes late or twice does."""
    next(task for task in driver.tasks() if task.execution(execution_id) is not None).deliver(event)
    driver.run()


class Player:
    """Plays one case. `replies`: the outcome of each completion. `executions`, `units`: ids by the case's names."""

    tenant = "tenant-red"

    def __init__(self, driver: TopologyTestDriver, case: str) -> None:
        self.driver = driver
        self.case: dict[str, Any] = json.loads((DATA / f"{case}.sequence.json").read_text(encoding="utf-8"))
        self.names = Names()
        self.executions: dict[str, str] = {}
        self.units: dict[str, str] = {}
        self.replies: list[str] = []
        self._began_ms = driver.clock.now_ms()
        self._left: list[dict[str, Any]] = list(self.case["events"])

    @property
    def expect(self) -> dict[str, Any]:
        found: dict[str, Any] = self.case["expect"]
        return found

    def play(self, count: int | None = None) -> Self:
        """The next `count` events, or all that are left."""
        count = len(self._left) if count is None else count
        played, self._left = self._left[:count], self._left[count:]
        for event in played:
            self._advance_to(event["at"])
            getattr(self, event["op"])(event)
        return self

    def then(self) -> Self:
        """The events that a case plays after its first expectations."""
        for event in self.expect["then"]:
            getattr(self, event["op"])(event)
        return self

    @property
    def execution_id(self) -> str:
        """Of a case with one execution."""
        (found,) = self.executions.values()
        return found

    def envelope(self, event: Mapping[str, Any]) -> dict[str, Json]:
        found: dict[str, Json] = json.loads(self.names.fill(json.dumps(event["envelope"])))
        return found

    # Ops

    def start_execution(self, event: Mapping[str, Any]) -> None:
        items = self.case["given"].get("items") or self.case["given"].get("source_items")
        payload = {"count": str(items)} if items else {"orderId": event["execution"]}
        self.executions[event["execution"]] = self.driver.submit(payload, tenant=event.get("tenant", self.tenant))

    def create_interaction(self, event: Mapping[str, Any]) -> None:
        """The next request of the execution is the interaction."""
        execution_id = self.executions[event["execution"]] if "execution" in event else self.execution_id
        self.bind(event, execution_id)

    def create_item(self, event: Mapping[str, Any]) -> None:
        self.bind(event, self.execution_id)
        found = self.driver.interaction(self.names.requests[event["interaction"]]["interactionId"])
        assert found.item_index == event["index"]

    def dispatch_ok(self, event: Mapping[str, Any]) -> None:
        found = self.driver.interaction(self.names.requests[event["interaction"]]["interactionId"])
        assert found.status in ("DISPATCHED", "COMPLETED")

    def mark_dispatch_complete(self, event: Mapping[str, Any]) -> None:
        unit = self.driver.unit(self.execution_id, self._step_of(event["unit"]))
        assert unit is not None
        assert (unit.dispatch_complete, unit.expected_item_count) == (True, event["count"])

    def park(self, event: Mapping[str, Any]) -> None:
        found = self.driver.execution(self.executions[event["execution"]])
        assert (found.status, found.await_unit_id) == ("WAITING_EXTERNAL", self.units[event["unit"]])

    def run_until_parked(self, event: Mapping[str, Any]) -> None:
        self.bind(event, self.execution_id)
        self.park({"execution": next(iter(self.executions)), "unit": event["unit"]})

    def deliver_completion(self, event: Mapping[str, Any]) -> None:
        self.replies.append(self.driver.complete(self.envelope(event)))

    def release_resume(self, event: Mapping[str, Any]) -> None:
        """A release of the unit comes again though nothing of it is owed."""
        step = self._step_of(event["unit"])
        owed = OwedRecord(self.execution_id, OwedKind.RELEASE, step, step, unit_id=self.units[event["unit"]])
        deliver(self.driver, self.execution_id, OwedDue(owed))

    # Inside

    def bind(self, event: Mapping[str, Any], execution_id: str) -> None:
        """Bind the event's names to the oldest request of the execution that has no name yet."""
        bound = {str(request["interactionId"]) for request in self.names.requests.values()}
        free = (it for it in self.open_requests() if it["executionId"] == execution_id)
        request = next(it for it in free if it["interactionId"] not in bound)
        self.names.requests[event["interaction"]] = request
        self.units[event["unit"]] = self.driver.interaction(request["interactionId"]).unit_id

    def open_requests(self) -> Iterable[Mapping[str, Any]]:
        return self.driver.requests()

    def _step_of(self, unit: str) -> int:
        unit_id = self.units[unit]
        found = (self.driver.interaction(it["interactionId"]) for it in self.names.requests.values())
        return next(it.step_index for it in found if it.unit_id == unit_id)

    def _advance_to(self, at_ms: int) -> None:
        left = self._began_ms + at_ms - self.driver.clock.now_ms()
        if left > 0:
            self.driver.advance(left)

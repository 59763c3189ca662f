"""Random completions before both: `decide` over a store in memory, and the model (contract 0.3, 0.4, 0.8, 0.11).

One partition, a scalar boundary, a few executions of two tenants. Each completion is a good one with some of its parts
changed: another row's id, an id that is nobody's, another tenant, another's token, a forged one, a payload too large.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from tests.cleanroom.histories import History
from tests.cleanroom.model import Admission, Completion, Row, Rules, Token
from tests.unit.core.machine import SECRET, START_MS, TIMEOUT_MS, pipeline
from tpf_streams.core import effects as fx
from tpf_streams.core import events as ev
from tpf_streams.core.decide import decide
from tpf_streams.core.envelope import EnvelopeRefusedError, parse_completion
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.state import Decision, State
from tpf_streams.core.step import AwaitDefinition, Json
from tpf_streams.core.token import TokenClaims, TokenSigner
from tpf_streams.errors import BackPressureError, PayloadError
from tpf_streams.stores.memory import MemoryStateStore

PAYLOAD_BYTES = 200
EARLY_MAX = 3
STEPS = 40
PLACES = [(tenant, key) for tenant in ("tenant-1", "tenant-2") for key in ("a", "b")]
PAYLOADS: list[Json] = [{"n": 1, "m": [1]}, {"m": [1], "n": 1}, {"n": 2}, {"bad": 1}, {"n": "x" * 300}, False, []]
NOBODY = "00000000-0000-8000-8000-000000000000"
STATUSES = {"WAITING": "OPEN", "DISPATCHING": "OPEN", "DISPATCHED": "OPEN"}


def convert(payload: Json) -> object:
    if isinstance(payload, dict) and "bad" in payload:
        raise PayloadError("bad is not allowed")
    return payload


class Both:
    """One history. `tokens`: what each execution's request carries, or will carry once it is submitted."""

    def __init__(self, seed: int) -> None:
        self.history = History(seed)
        required = self.history.one([True, True, False])
        self.definition = pipeline(
            "is", convert=convert, require_token=required, max_payload_bytes=PAYLOAD_BYTES, early_rows_max=EARLY_MAX,
            max_aggregate_bytes=4 * PAYLOAD_BYTES,
        )  # fmt: skip
        self.state = State(MemoryStateStore(), 0, self.definition)
        self.model = Admission(Rules(required, PAYLOAD_BYTES, 4 * PAYLOAD_BYTES, EARLY_MAX))
        self.now = START_MS
        self.facts: Counter[str] = Counter()
        self.segments: list[fx.RunSegment] = []
        self.tokens = {place: self.token_of(*place) for place in PLACES}
        self.rows: dict[tuple[str, str], InteractionRecord] = {}

    def run(self) -> None:
        moves = [self.complete] * 8 + [self.submit] * 2 + [self.pass_time, self.cancel_one, self.cancel_all, self.go_on]
        for _ in range(STEPS):
            self.history.one(moves)()
            self.compare()

    # What happens, to both

    def submit(self) -> None:
        place = self.history.one([it for it in PLACES if it not in self.rows] or [PLACES[0]])
        if place in self.rows:
            return
        self.history.note(f"submit {place}")
        decision = self.decide(ev.ExecutionSubmitted(place[0], place[1], {"n": 0}))
        row = self.rows[place] = self.interaction(self.tokens[place].interaction)
        early = [
            self.decide(ev.EarlyDue(it.interaction_id)) for it in decision.effects if isinstance(it, fx.AdmitEarly)
        ]
        outcomes = self.model.appear(
            Row(row.tenant_id, row.execution_id, row.step_id, 0, row.interaction_id, row.correlation_id,
                row.deadline_epoch_ms)
        )  # fmt: skip
        # Of several for one row the last outcome is told; the rows and the counts tell of the others.
        self.history.same("what was held", [it.outcome for it in early], outcomes[-1:])

    def complete(self) -> None:
        place = self.history.one(PLACES)
        fields, completion = self.changed(place, self.tokens[place])
        self.history.note(f"complete {place} at {completion.arrived - START_MS}: {completion}")
        self.history.same("the outcome", self.decided(fields, completion), self.model.complete(completion))

    def pass_time(self) -> None:
        self.now += self.history.one([0, 1, TIMEOUT_MS // 2, TIMEOUT_MS - 1, TIMEOUT_MS, TIMEOUT_MS + 1])
        self.history.note(f"it is {self.now - START_MS}")
        self.decide(ev.DeadlinesReached(100))
        for row in self.model.overdue(self.now):
            row.status = "TIMED_OUT"
        self.model.expire(self.now)

    def cancel_one(self) -> None:
        for place in self.some_row():
            interaction = self.rows[place].interaction_id
            self.decide(ev.InteractionCancelled(interaction, "an operator"))
            self.close(place)

    def cancel_all(self) -> None:
        for place in self.some_row():
            self.decide(ev.ExecutionCancelled(self.rows[place].execution_id, "an operator"))
            self.close(place)

    def go_on(self) -> None:
        """What is behind the boundary runs, so that rows of ended executions are met too."""
        self.history.note("segments run")
        for work in self.segments:
            self.decide(ev.SegmentCompleted(work.owed, [{"n": 1}]))
        self.segments.clear()

    def close(self, place: tuple[str, str]) -> None:
        self.history.note(f"cancel {place}")
        row = self.model.rows[self.rows[place].interaction_id]
        if row.status == "OPEN":
            row.status = "CANCELLED"

    def some_row(self) -> list[tuple[str, str]]:
        return [self.history.one(list(self.rows))] if self.rows else []

    # A completion, with parts changed

    def changed(self, place: tuple[str, str], token: Token) -> tuple[dict[str, Json], Completion]:
        one = self.history
        other = self.tokens[one.one(PLACES)]
        tenant = one.often(token.tenant, ["tenant-1", "tenant-2", "tenant-3"])
        interaction = one.often(token.interaction, [None, other.interaction, NOBODY, "no id"])
        correlation = one.often(token.correlation, [None, other.correlation, NOBODY, "no id"])
        if interaction is None and correlation is None:
            interaction = token.interaction
        sent, claims = self.some_token(token, other)
        payload = one.often(PAYLOADS[0], PAYLOADS, 0.3)
        row = self.rows.get(place)
        deadline = token.deadline if row is None else row.deadline_epoch_ms
        arrived = one.often(
            min(self.now, deadline), [self.now, deadline, deadline + 1, token.deadline, token.deadline + 1]
        )
        upper = one.often(False, [True], 0.9)
        fields: dict[str, Json] = {
            "tenantId": tenant,
            "interactionId": interaction.upper() if upper and interaction else interaction,
            "correlationId": correlation,
            "resumeToken": sent,
            "responsePayload": payload,
        }
        readable = one.often(True, [False], 0.97)
        if not readable:
            fields.pop(one.one(["tenantId", "responsePayload"]))
        converts = not (isinstance(payload, dict) and "bad" in payload)
        size = len(json.dumps(payload, separators=(",", ":")))
        completion = Completion(tenant, payload, arrived, interaction, correlation, claims, size, readable, converts)
        return fields, completion

    def some_token(self, token: Token, other: Token) -> tuple[str | None, Token | None]:
        """-> what is sent, and what the model has to know of it."""
        kind = self.history.often("own", ["none", "none", "other", "forged", "broken", "another deadline"], 0.6)
        if kind == "none":
            return None, None
        if kind == "other":
            return self.signed(other, SECRET), other
        if kind == "another deadline":
            later = Token(**{**vars(token), "deadline": token.deadline + self.history.one([-TIMEOUT_MS, TIMEOUT_MS])})
            return self.signed(later, SECRET), later
        if kind == "own":
            return self.signed(token, SECRET), token
        sent = "not.a-token" if kind == "broken" else self.signed(token, "another secret")
        return sent, Token(**{**vars(token), "genuine": False})

    def signed(self, token: Token, secret: str) -> str:
        claims = TokenClaims(
            token.tenant, token.interaction, token.correlation, token.execution, token.step, token.deadline, START_MS
        )
        return TokenSigner((secret,)).sign(claims)

    def token_of(self, tenant: str, key: str) -> Token:
        execution = self.state.ids.execution_id(tenant, self.definition.pipeline_id, key, 0)
        step = self.definition.steps[0]
        assert isinstance(step, AwaitDefinition)
        ids = self.state.ids.unit(tenant, execution, step.step_id, 0, 0)
        interaction, correlation = ids.interaction_id(None), ids.correlation_id(None)
        return Token(tenant, interaction, correlation, execution, step.step_id, START_MS + TIMEOUT_MS)

    # Core

    def decided(self, fields: dict[str, Json], completion: Completion) -> str | None:
        try:
            envelope = parse_completion(
                json.dumps(fields).encode(), max_bytes=self.definition.limits.max_aggregate_bytes
            )
        except EnvelopeRefusedError as error:
            return error.outcome
        try:
            return self.decide(ev.CompletionReceived(envelope, completion.arrived)).outcome
        except BackPressureError:
            return "full"

    def decide(self, event: ev.Event) -> Decision:
        self.state.now_ms = self.now
        decision = decide(self.state, event)
        self.state.apply(decision)
        self.state._store.write(self.state.seal())  # type: ignore[attr-defined]
        self.state.committed()
        self.segments += [it for it in decision.effects if isinstance(it, fx.RunSegment)]
        for fact in decision.facts:
            dropped = fact.name == "completion.dropped.total"
            self.facts[fact.labels["reason"] if dropped else fact.name] += fact.count
        return decision

    def interaction(self, interaction_id: str) -> InteractionRecord:
        found = self.state.get(self.state.keys.interaction(interaction_id), InteractionRecord)
        assert found is not None
        return found

    # Both say the same

    def compare(self) -> None:
        core: dict[str, Any] = {it.interaction_id: self.interaction(it.interaction_id) for it in self.rows.values()}
        self.history.same(
            "the rows",
            {ident: (STATUSES.get(row.status, row.status), row.response_payload) for ident, row in core.items()},
            {ident: (row.status, row.payload) for ident, row in self.model.rows.items()},
        )
        self.history.same("early rows", self.state.early_rows, self.model.early_rows)
        counted = {**self.model.counts}
        for name in ("held", "invalid_envelope"):  # not in the facts of a decision
            counted.pop(name, None)
        names = {"completion.admitted.total": "admitted", "completion.duplicate.total": "duplicate"}
        facts = {names.get(name, name): count for name, count in self.facts.items()}
        self.history.same("the counts", {name: facts.get(name, 0) for name in counted}, counted)


def history(seed: int) -> Both:
    both = Both(seed)
    both.run()
    return both

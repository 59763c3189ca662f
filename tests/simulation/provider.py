"""The external actor of the simulation: honest, slow, silent, repeating itself, or a forger. It keeps a ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

import orjson

from tests.simulation.forgery import forge
from tests.simulation.log import GroupCommitLostError, SimLog
from tests.simulation.pipelines import APPLICATION, SECRET, Pipeline
from tests.simulation.steps import seal
from tests.simulation.words import Fault
from tpf_streams.core.identity import partition_of, route_of
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.step import Json
from tpf_streams.core.token import TokenClaims, TokenSigner
from tpf_streams.engine.wire import completion_record
from tpf_streams.ports import Clock, Record, RecordReader

DIRECT = "direct"
"""Origin of completions that come by HTTP and not by a response topic."""


FORGERIES = (Fault.BAD_TOKEN, Fault.OTHER_TENANT, Fault.MIXED_IDS, Fault.BAD_PAYLOAD)


@dataclass(frozen=True, slots=True)
class Answer:
    """One completion in the ledger. `arrived_ms` and the place are the log's; `place` is (topic, partition, offset).

    `until_ms`: the deadline in its token; where no row has come by then, it is forgotten (contract 0.11).
    """

    interaction_id: str
    payload: Json
    honest: bool
    arrived_ms: int
    place: tuple[str, int, int]
    until_ms: int


@dataclass(frozen=True, slots=True)
class Question:
    """A completion whose outcome somebody waits for, as over HTTP."""

    interaction_id: str
    payload: Json
    fault: Fault | None
    home: int


@dataclass(frozen=True, slots=True)
class Due:
    """An answer that will be given, at an elapsed time: a jump of the wall clock does not move it."""

    at_ms: int
    request: dict[str, Json]
    payload: Json
    fault: Fault | None = None


@dataclass(slots=True)
class Habits:
    """What this provider does; probabilities."""

    silent: float = 0.0
    slow: float = 0.0
    duplicate: float = 0.0
    conflict: float = 0.0
    forge: float = 0.0
    delay_ms: int = 500

    @classmethod
    def draw(cls, rng: Random) -> Habits:
        """A provider with some of the vices."""
        busy = rng.choice((0.0, 0.25, 0.4))
        return cls(
            silent=rng.choice((0.0, busy / 2, busy / 2)),
            slow=rng.choice((0.0, busy / 2)),
            duplicate=rng.choice((0.1, busy)),
            conflict=rng.choice((0.1, busy)),
            forge=rng.choice((0.1, busy)),
            delay_ms=rng.choice((100, 1_000, 8_000)),
        )


@dataclass(slots=True)
class Ledger:
    """What the provider has seen and said."""

    requests: dict[str, dict[bytes, int]] = field(default_factory=lambda: defaultdict(dict))
    uncommitted: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    answers: dict[str, list[Answer]] = field(default_factory=lambda: defaultdict(list))
    silent: set[str] = field(default_factory=set)
    repeats: int = 0


class Provider:
    """Reads the request topics, is called by pushing transports, looks into the inbox; answers when the world says."""

    def __init__(self, pipeline: Pipeline, log: SimLog, clock: Clock, rng: Random, habits: Habits) -> None:
        self.ledger = Ledger()
        self.habits = habits
        self.due: list[Due] = []
        self.asked: Callable[[str, Question], None] = lambda origin, question: None
        self._questions = 0
        self.silenced: Callable[[], None] = lambda: None
        self._pipeline = pipeline
        self._log = log
        self._clock = clock
        self._rng = rng
        self._signer = TokenSigner((SECRET,))
        self._nonce = 0
        self._reader: RecordReader | None = None
        self._by_step = {step.step_id: step for step in pipeline.awaits}
        self._last: list[dict[str, Json]] = []
        self._plans: dict[str, Json] = {}
        self._known: dict[str, dict[str, Json]] = {}

    async def open(self) -> None:
        """Begin, or begin again behind the last committed position: what was read since then is read again."""
        if self._reader is not None:
            await self._reader.close()
        self._reader = await self._log.open_reader("provider", self._pipeline.request_topics)

    async def read(self, limit: int, *, commit: bool) -> bool:
        assert self._reader is not None
        found = await self._reader.poll(limit)
        for record in found:
            self.receive(record.value or b"")
        if commit and found:
            try:
                await self._reader.commit()
            except GroupCommitLostError:
                await self.open()
        return bool(found)

    def receive(self, request: bytes, *, committed: bool = True) -> None:
        """One request, seen for the first time or again; an uncommitted one may never become true."""
        body = orjson.loads(request)
        ident = body["interactionId"]
        if committed:
            seen = self.ledger.requests[ident]
            self.ledger.repeats += request in seen
            seen[request] = seen.get(request, 0) + 1
        else:
            self.ledger.uncommitted[ident].add(request)
        self._plan(body, early=not committed)

    def look(self, interaction: InteractionRecord, asked: Json) -> None:
        """An inbox entry: the waiting row is the request, `asked` what it asks."""
        token = self._signer.sign(
            TokenClaims(
                tenant_id=interaction.tenant_id,
                interaction_id=interaction.interaction_id,
                correlation_id=interaction.correlation_id,
                execution_id=interaction.execution_id,
                step_id=interaction.step_id,
                deadline_epoch_ms=interaction.deadline_epoch_ms,
                issued_at_epoch_ms=interaction.issued_at_epoch_ms,
            )
        )
        body = {
            "tenantId": interaction.tenant_id,
            "interactionId": interaction.interaction_id,
            "correlationId": interaction.correlation_id,
            "executionId": interaction.execution_id,
            "stepId": interaction.step_id,
            "deadlineEpochMs": interaction.deadline_epoch_ms,
            "resumeToken": token,
            "requestPayload": asked,
        }
        self._plan(body)

    def hush(self) -> None:
        """From now on every request is answered, once, in time; what is silent stays silent."""
        self.habits = Habits(delay_ms=self.habits.delay_ms)

    @property
    def next_ms(self) -> int | None:
        """When the next answer is due."""
        return min((due.at_ms for due in self.due), default=None)

    async def answer(self) -> Due | None:
        """Give one of the answers that are due, any of them: providers do not keep order."""
        now = self._elapsed_ms
        ready = [place for place, due in enumerate(self.due) if due.at_ms <= now]
        if not ready:
            return None
        place = self._rng.choice(ready)
        due = self.due.pop(place)
        if place != ready[0] and due.fault is None:
            due = replace(due, fault=Fault.REORDERED)
        await self._send(due)
        return due

    @property
    def _elapsed_ms(self) -> int:
        return round(self._clock.monotonic_s() * 1000)

    async def poke(self, interaction_id: str, fault: Fault) -> bool:
        """Say something about a request seen before, out of turn; whether it was said."""
        request = self._known.get(interaction_id)
        if request is None or (fault not in FORGERIES and interaction_id in self.ledger.silent):
            return False
        if fault is Fault.LATE and self._clock.now_ms() <= request["deadlineEpochMs"]:
            return False
        planned = self._plans.setdefault(interaction_id, self._payload(request))
        payload = self._payload(request) if fault is Fault.CONFLICT else planned
        await self._send(Due(0, request, payload, fault))
        return True

    def _plan(self, request: dict[str, Json], *, early: bool = False) -> None:
        rng, habits, ident = self._rng, self.habits, request["interactionId"]
        now = self._elapsed_ms
        self._last = [*self._last[-3:], request]
        self._known[ident] = request
        if ident in self.ledger.silent:
            return
        if not early and ident not in self._plans and rng.random() < habits.silent:
            self.ledger.silent.add(ident)
            self.silenced()
            return
        if not early and ident in self._plans and ident in self.ledger.uncommitted and rng.random() < 0.6:
            return  # answered before, when it read the request of a turn that did not hold
        payload = self._plans.setdefault(ident, self._payload(request))
        at = now if early else now + rng.randrange(habits.delay_ms + 1)
        fault = Fault.EARLY if early else None
        if rng.random() < habits.slow:
            left = request["deadlineEpochMs"] - self._clock.now_ms()
            at, fault = max(at, now + left + rng.randrange(1, 3_000)), Fault.LATE
        self.due.append(Due(at, request, payload, fault))
        if rng.random() < habits.duplicate:
            self.due.append(Due(at + rng.randrange(4 * habits.delay_ms + 1), request, payload, Fault.DUPLICATE))
        if rng.random() < habits.conflict:
            again = at + rng.randrange(-habits.delay_ms, 4 * habits.delay_ms)
            self.due.append(Due(max(now, again), request, self._payload(request), Fault.CONFLICT))
        if rng.random() < habits.forge:
            forgery = rng.choice(FORGERIES)
            self.due.append(Due(now + rng.randrange(2 * habits.delay_ms + 1), request, payload, forgery))

    def _payload(self, request: dict[str, Json]) -> Json:
        self._nonce += 1
        step, asked = self._by_step[request["stepId"]], request["requestPayload"]
        of = seal(asked) if step.joins else asked
        if not step.expands:
            return {self._rng.choice(("yes", "no")): {"of": of, "nonce": self._nonce}}
        most = min(3, self._pipeline.definition.limits.max_aggregate_output_items or 3)
        return [
            {self._rng.choice(("yes", "no")): {"of": of, "nonce": self._nonce, "i": place}}
            for place in range(self._rng.randrange(most + 1))
        ]

    async def _send(self, due: Due) -> None:
        envelope = {
            "tenantId": due.request["tenantId"],
            "interactionId": due.request["interactionId"],
            "correlationId": due.request["correlationId"],
            "resumeToken": due.request["resumeToken"],
            "responsePayload": due.payload,
            "actor": "provider",
        }
        honest = due.fault not in FORGERIES
        if honest and self._rng.random() < 0.2:
            del envelope[self._rng.choice(("interactionId", "correlationId"))]
        if not honest:
            assert due.fault is not None
            forge(due.fault, envelope, self._last, self._rng, listed=self._by_step[due.request["stepId"]].expands)
        await self._append(due, envelope, honest)

    async def _append(self, due: Due, envelope: dict[str, Json], honest: bool) -> None:
        ident = due.request["interactionId"]
        step = self._by_step[due.request["stepId"]]
        value = orjson.dumps(envelope)
        if step.transport.type == "kafka":
            topic = step.transport.options["response"]["topic"]
            record = Record(topic, due.request["correlationId"].encode(), value)
        else:
            name = str(envelope.get("interactionId") or envelope["correlationId"])
            home = partition_of(route_of(name) or 0, self._log.partitions)
            topic = f"{APPLICATION}-events"
            self._questions += 1
            origin = f"{DIRECT}-{self._questions}"
            self.asked(origin, Question(ident, due.payload, due.fault, home))
            record = completion_record(topic, home, name, value, self._clock.now_ms(), origin)
        place = await self._log.append_one(record)
        direct = step.transport.type != "kafka"
        arrived = self._clock.now_ms() if direct else self._log.record(*place).timestamp_ms
        self.ledger.answers[ident].append(
            Answer(ident, due.payload, honest, arrived, place, due.request["deadlineEpochMs"])
        )

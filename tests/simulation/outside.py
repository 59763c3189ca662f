"""What stands around the engine: transports that push, a publisher in memory. They fail as told, and are witnesses."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import orjson

from tests.simulation.shadow import Violation
from tpf_streams.core.execution import ExecutionRecord, OutputRecord, RejectRecord
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.step import AwaitDefinition
from tpf_streams.core.token import TokenSigner
from tpf_streams.errors import PublishError, RetryableError, TerminalError, TpfError
from tpf_streams.ports import Clock, Record
from tpf_streams.transports.kafka import KafkaTransport


@dataclass(slots=True)
class Sending:
    """What the next dispatches meet: so many refused, so many done without the sender learning of it."""

    refused: int = 0
    unheard: int = 0
    slow: int = 0
    """Dispatches that are done at once and acknowledged late."""
    doom_next: bool = False
    for_good: set[str] = field(default_factory=set)
    """Interactions that cannot be dispatched at all."""
    troubled: set[str] = field(default_factory=set)
    """Interactions whose dispatch has failed at least once."""


class PushTransport:
    """Dispatches outside the log, to the provider: SQS and webhooks. The bytes are those of the kafka envelope."""

    def __init__(
        self,
        kind: str,
        signer: TokenSigner,
        sending: Sending,
        clock: Clock,
        deliver: Callable[[bytes], None],
        told: Callable[[str], None],
        ran: Callable[[], None],
    ) -> None:
        self.type = kind
        self._envelopes = KafkaTransport(signer)
        self._sending = sending
        self._clock = clock
        self._deliver = deliver
        self._told = told
        self._ran = ran

    def request_record(self, step: AwaitDefinition, interaction: InteractionRecord) -> Record | None:
        return None

    async def send(self, step: AwaitDefinition, interaction: InteractionRecord) -> Mapping[str, object]:
        await asyncio.sleep(0)
        sending = self._sending
        if sending.doom_next:
            sending.doom_next = False
            sending.for_good.add(interaction.interaction_id)
        if interaction.interaction_id in sending.for_good:
            raise self._fails(interaction, TerminalError("the other side does not take it"))
        if sending.refused > 0:
            sending.refused -= 1
            raise self._fails(interaction, RetryableError("the other side is not there"))
        self._deliver(self._bytes(step, interaction))
        self._ran()
        if sending.slow > 0:
            sending.slow -= 1
            await self._clock.sleep(40)
        await asyncio.sleep(0)
        if sending.unheard > 0:
            sending.unheard -= 1
            raise self._fails(interaction, RetryableError("the connection broke after the request"))
        return {"adapter": self.type}

    def _fails(self, interaction: InteractionRecord, error: TpfError) -> TpfError:
        self._sending.troubled.add(interaction.interaction_id)
        self._told(interaction.execution_id)
        return error

    def _bytes(self, step: AwaitDefinition, interaction: InteractionRecord) -> bytes:
        return self._envelopes.request_record(step, interaction).value or b""


@dataclass(slots=True)
class Bookshelf:
    """Published files by name: one for all processes."""

    lossy: bool
    """Whether rows may be lost, so that what was published may not be what comes out in the end."""
    files: dict[str, bytes] = field(default_factory=dict)
    generations: dict[str, int] = field(default_factory=dict)
    writes: Counter[str] = field(default_factory=Counter)
    breaks: Counter[str] = field(default_factory=Counter)
    """Times that publishing still fails, by execution key."""

    def put(self, name: str, content: bytes, generation: int) -> None:
        """A repeat must write the same bytes, whoever writes them; a redriven execution may have more."""
        before = self.generations.get(name, 0)
        if not self.lossy and generation <= before and self.files.get(name, content) != content:
            raise Violation(f"{name} was written twice, with different bytes")
        self.files[name] = content
        self.generations[name] = max(generation, before)
        self.writes[name] += 1


@dataclass(frozen=True, slots=True)
class Publisher:
    """`ObjectPublisher` of one process."""

    shelf: Bookshelf
    told: Callable[[], None]
    ran: Callable[[], None]

    def publish(
        self,
        execution: ExecutionRecord,
        incarnation: int,
        outputs: Iterator[OutputRecord],
        rejects: Iterator[RejectRecord],
    ) -> str:
        key = execution.execution_key
        if self.shelf.breaks[key] > 0:
            self.shelf.breaks[key] -= 1
            self.told()
            raise PublishError("the disk is not there")
        lines = [orjson.dumps([row.item_index, payload]) for row in outputs for payload in row.payloads]
        refused = [orjson.dumps([row.ordinal, row.item_index, row.reason]) for row in rejects]
        name = f"{key}.out"
        self.shelf.put(name, b"\n".join([*lines, b"--", *refused]), execution.generation)
        self.ran()
        return name

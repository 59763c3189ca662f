"""A provider that is not there: it reads requests and answers them, through the real topics and envelopes only.

What it answers is a function `answer(request, options)` beside the pipeline's steps; this module is the machinery:
reading, delay, permits, repeats, keys. Everything it does is a function of the request, the options and the seed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import orjson

from tpf_streams.core.step import Json
from tpf_streams.dsl.outgoing import outgoing
from tpf_streams.engine.clock import first_of, until_stopped
from tpf_streams.ports import Clock, InputRecord, ReaderSource, Record, RecordReader, TopicPartition
from tpf_streams.testing.provider_options import ProviderOptions, load_answer, parse_provider_spec
from tpf_streams.testing.provider_schedule import AnswerSchedule

__all__ = ["Answer", "ProviderOptions", "SimulatedProvider", "echo", "load_answer", "parse_provider_spec"]

log = logging.getLogger(__name__)

Answer: TypeAlias = Callable[[dict[str, Any], ProviderOptions], Json | None]
"""Request envelope (contract 1.1) -> response payload, or None: no answer ever comes."""

BATCH_MAX = 1_000
OPEN_MAX = 50_000
"""Requests read and not answered; behind these, reading waits."""
IDLE_WAIT_S = 1.0
BACKOFF_S = 0.5
ENDING_S = 1.5
"""A batch under way is waited for this long at the end: the broker of a run may hang."""


def echo(request: dict[str, Any], options: ProviderOptions) -> Json | None:
    """The request payload as the answer."""
    return request["requestPayload"]


class SimulatedProvider:
    """Answers the requests of one topic on another; the keywords from `reject` on are those of `ProviderOptions`.

    An answer leaves `delay_ms` after its request was read, and no faster than the permits allow. The reader's position
    moves with the answers, not with the reading: a crash loses no request, and may repeat a few answers.
    Figures: `open_count` and `open_max` (requests read and not yet answered), `answered`, `repeated` (answers sent
    twice), `unanswered` (on purpose), `skipped` (records that are no requests), and `busy_s`, from the first request
    read to the last answer sent.
    """

    def __init__(
        self,
        log: ReaderSource,
        request_topic: str,
        response_topic: str,
        *,
        clock: Clock,
        builder: Answer = echo,
        actor: str = "simulated-provider",
        group: str | None = None,
        reject: float = 0.0,
        timeout: float = 0.0,
        delay_ms: int = 0,
        permits_per_second: float | None = None,
        duplicates: float = 0.0,
        key: str = "correlation",
        seed: int = 0,
        burst: int = 1,
    ) -> None:
        self.options = ProviderOptions(reject, timeout, delay_ms, permits_per_second, duplicates, key, seed, burst)
        self.open_count = self.open_max = 0
        self.answered = self.repeated = self.unanswered = self.skipped = 0
        self.busy_s = 0.0
        self._began_s: float | None = None
        self._log = log
        self.request_topic, self.response_topic = request_topic, response_topic
        self._clock = clock
        self._builder = builder
        self._actor = actor
        self.group = group or f"{request_topic}-provider"
        self._reader: RecordReader | None = None
        self._schedule = AnswerSchedule(self.options, clock)

    async def open(self) -> None:
        """Begin behind the last request known answered. Raises LogError."""
        await self.close()
        self._reader = await self._log.open_reader(self.group, [self.request_topic])

    async def step(self) -> bool:
        """Read at most one batch and send the answers that are due; whether anything was read or sent."""
        read = await self._read()
        return await self._send() or read

    async def run(self, stop: asyncio.Event) -> None:
        """Answer until `stop` is set; a failing log is opened again."""
        try:
            await until_stopped(stop, self._keep_on(stop), ENDING_S)
        finally:
            await self.close()

    async def _keep_on(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                if self._reader is None:
                    await self.open()
                if not await self.step():
                    await self._idle(stop)
            except Exception:
                log.exception("the simulated provider lost its log and opens it again in %.1f s", BACKOFF_S)
                await self.close()
                await first_of(stop, self._clock.sleep(BACKOFF_S))

    async def close(self) -> None:
        """Stop answering; what is open is read again by the next. Idempotent."""
        reader, self._reader = self._reader, None
        self._schedule.clear()
        self.open_count = 0
        if reader is not None:
            await reader.close()

    @property
    def next_answer_ms(self) -> int | None:
        """How far time must move for the next answer to leave, rounded up; None when nothing is open."""
        return self._schedule.next_ms

    @property
    def _full(self) -> bool:
        return self.open_count >= OPEN_MAX

    async def _read(self) -> bool:
        if self._reader is None or self._full:
            return False
        found = await self._reader.poll(BATCH_MAX)
        if not found:
            return False
        if self._began_s is None:
            self._began_s = self._clock.monotonic_s()
        answers, behind = self._answers(found)
        self.open_count += len(answers)
        self.open_max = max(self.open_max, self.open_count)
        self._schedule.add(answers, behind)
        return True

    def _answers(self, found: Sequence[InputRecord]) -> tuple[list[Record], list[dict[TopicPartition, int]]]:
        """The answers to what was read, and to each the positions that are done when it has left."""
        answers: list[Record] = []
        behind: list[dict[TopicPartition, int]] = []
        moved: dict[TopicPartition, int] = {}
        for record in found:
            moved[TopicPartition(record.topic, record.partition)] = record.offset + 1
            answer = self._answer(record)
            if answer is not None:
                answers.append(answer)
                behind.append(moved)
                moved = {}
        # What gets no answer behind the last one is done with it.
        behind[-1:] = [{**(behind[-1] if behind else {}), **moved}]
        return answers, behind

    async def _send(self) -> bool:
        due = self._schedule.take()
        if not due or self._reader is None:
            return False
        positions: dict[TopicPartition, int] = {}
        for entry in due:
            positions.update(entry.positions)
        answers = [record for entry in due for record in entry.answers]
        await self._reader.commit(answers, positions)
        self._count(sum(entry.requests for entry in due), len(answers))
        return True

    def _count(self, requests: int, sent: int) -> None:
        self.open_count -= requests
        self.answered += requests
        self.repeated += sent - requests
        self.busy_s = self._clock.monotonic_s() - (self._began_s or 0.0)

    def _answer(self, record: InputRecord) -> Record | None:
        try:
            request = orjson.loads(record.value or b"")
            payload = self._builder(request, self.options)
            if payload is not None:
                return Record(self.response_topic, self._key(request), self._envelope(request, payload))
        except Exception as error:
            log.warning("skipped %s/%d/%d: %s", record.topic, record.partition, record.offset, type(error).__name__)
            self.skipped += 1
            return None
        self.unanswered += 1
        return None

    def _envelope(self, request: dict[str, Any], payload: Json) -> bytes:
        """The completion (contract 1.2): the token goes back as it came. The payload may be a message or a model."""
        return orjson.dumps(
            {
                "tenantId": request["tenantId"],
                "interactionId": request["interactionId"],
                "correlationId": request["correlationId"],
                "resumeToken": request.get("resumeToken"),
                "idempotencyKey": request["interactionId"],
                "responsePayload": payload,
                "actor": self._actor,
            },
            default=outgoing,
        )

    def _key(self, request: dict[str, Any]) -> bytes | None:
        if self.options.key == "correlation":
            key: str = request["correlationId"]
            return key.encode()
        return b"constant" if self.options.key == "constant" else None

    async def _idle(self, stop: asyncio.Event) -> None:
        due_ms = self.next_answer_ms
        wait_s = IDLE_WAIT_S if due_ms is None else min(IDLE_WAIT_S, due_ms / 1000)
        if self._reader is None or self._full:
            await first_of(stop, self._clock.sleep(wait_s))
        else:
            await first_of(stop, self._reader.wait(wait_s))

"""What can be seen in a log without taking part: executions, open interactions, counts. Plain JSON, for any reader.

Only committed rows are read, so the answer is the same from inside the owner and from a log that nobody runs.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator
from itertools import islice
from typing import Any, TypeVar

from tpf_streams.core.execution import ExecutionRecord, OutputRecord, TombstoneRecord
from tpf_streams.core.identity import partition_of, route_of
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.parts import Parts
from tpf_streams.core.rows import Keys, deadline_of, decode, decode_bytes, execution_of, text_id
from tpf_streams.core.step import Json, PipelineDefinition
from tpf_streams.core.unit import AwaitUnitRecord, SessionRecord
from tpf_streams.ports import ReadableStore
from tpf_streams.runtime.cursor import Place
from tpf_streams.runtime.inputs import input_place
from tpf_streams.runtime.open_log import ViewableLog

KINDS = {
    "executions": b"e",
    "live sessions": b"s",
    "await units": b"u",
    "interactions": b"i",
    "correlations": b"c",
    "deadlines": b"d",
    "early completions": b"y",
    "retries": b"t",
    "reject places": b"j",
    "owed work": b"w",
    "outputs": b"o",
    "rejects": b"r",
    "list items": b"a",
    "retention": b"g",
    "tombstones": b"x",
}
"""Kinds of rows by the byte that tells them apart (core.rows)."""

AT_ONCE = 2_000
"""Rows read before others get their turn: the owner's loop must not stand still for an operator's question."""

DEADLINES = 64
"""Read at once of each partition: a page of the usual length needs no second look."""
OUTPUTS, OUTPUT_BYTES = 500, 1024 * 1024
"""Rows of a result read at once, and about how large they may be together."""

Answer = dict[str, Any]
R = TypeVar("R")


class LogViews:
    """Views of the rows of one application."""

    def __init__(self, log: ViewableLog, definition: PipelineDefinition) -> None:
        self._log = log
        self._definition = definition
        self._keys = [Keys(number) for number in range(log.partitions)]

    # Executions

    def executions(self) -> Iterator[ExecutionRecord]:
        """Every execution that is kept, partition by partition."""
        return self.records("executions", ExecutionRecord)

    def execution(self, execution_id: str) -> ExecutionRecord | None:
        found = self._part_of(execution_id)
        value = None if found is None else found[0].get(found[1].execution(execution_id))
        return None if value is None else decode(ExecutionRecord, value)

    def tombstone(self, execution_id: str) -> TombstoneRecord | None:
        """What remembers a deleted execution; by the id of a key's first life also which life is the last one."""
        found = self._part_of(execution_id)
        value = None if found is None else found[0].get(found[1].tombstone(execution_id))
        return None if value is None else decode(TombstoneRecord, value)

    def session(self, execution_id: str) -> SessionRecord | None:
        found = self._part_of(execution_id)
        value = None if found is None else found[0].get(found[1].session(execution_id))
        return None if value is None else decode(SessionRecord, value)

    def interaction(self, interaction_id: str) -> InteractionRecord | None:
        found = self._part_of(interaction_id)
        value = None if found is None else found[0].get(found[1].interaction(interaction_id))
        return None if value is None else decode(InteractionRecord, value)

    def interaction_by(self, ident: str) -> InteractionRecord | None:
        """By its own id, or by its correlation id."""
        found = self._part_of(ident)
        own = None if found is None else found[0].get(found[1].correlation(ident))
        return self.interaction(ident) if own is None else self.interaction(text_id(decode_bytes(own)))

    def request_payload(self, interaction: InteractionRecord) -> Json:
        """What was asked; the request of an aggregate step is a list in rows of its own."""
        found = self._part_of(interaction.interaction_id)
        steps = self._definition.steps
        if found is None or interaction.step_index >= len(steps) or not steps[interaction.step_index].joins:
            return interaction.request_payload
        return list(Parts(found[0], found[1].parts_of(interaction.execution_id, interaction.step_index)))

    def unit(self, unit_id: str) -> AwaitUnitRecord | None:
        found = self._part_of(unit_id)
        value = None if found is None else found[0].get(found[1].unit(unit_id))
        return None if value is None else decode(AwaitUnitRecord, value)

    def records(self, kind: str, cls: type[R]) -> Iterator[R]:
        """Every row of a kind (`KINDS`), partition by partition."""
        for store, keys in self._parts():
            start, end = keys.prefix + KINDS[kind], keys.prefix + bytes([KINDS[kind][0] + 1])
            for _, value in store.scan(start, end):
                yield decode(cls, value)

    async def every(self, kind: str, cls: type[R]) -> AsyncIterator[R]:
        """As `records`, for the owner's own loop: others get their turn in between."""
        async for value in self._values(kind):
            yield decode(cls, value)

    async def status(self, limit: int) -> Answer:
        """How many executions stand where, and the newest `limit` of them."""
        counts: Counter[str] = Counter()
        newest: list[tuple[int, str, ExecutionRecord]] = []
        async for execution in self.every("executions", ExecutionRecord):
            counts[execution.status.value] += 1
            entry = (execution.created_at_epoch_ms, execution.execution_id, execution)
            if len(newest) < limit:
                heapq.heappush(newest, entry)
            elif newest:
                heapq.heappushpop(newest, entry)
        shown = [self.summary(execution) for _, _, execution in sorted(newest, reverse=True)]
        return {"counts": dict(sorted(counts.items())), "executions": shown}

    def summary(self, execution: ExecutionRecord) -> Answer:
        """One execution as an operator wants to see it; without payloads and traceback."""
        return {
            "executionId": execution.execution_id,
            "executionKey": execution.execution_key,
            "tenantId": execution.tenant_id,
            "source": source_name(execution),
            "status": execution.status.value,
            "step": self._step_name(execution.current_step_index),
            "stepIndex": execution.current_step_index,
            **self._counts(execution),
            "published": execution.published,
            "version": execution.version,
            "generation": execution.generation,
            "attempt": execution.attempt,
            "nextDueAtEpochMs": execution.next_due_epoch_ms,
            "errorCode": execution.error_code,
            "errorMessage": execution.error_message,
            "createdAtEpochMs": execution.created_at_epoch_ms,
            "updatedAtEpochMs": execution.updated_at_epoch_ms,
        }

    def detail(self, execution_id: str) -> Answer | None:
        """One execution with the output of a scalar one, and its traceback, if it has one."""
        execution = self.execution(execution_id)
        if execution is None:
            return None
        output = self._scalar_output(execution)
        payloads = None if output is None else output.payloads
        return {**self.summary(execution), "output": payloads, "errorDetail": execution.error_detail}

    def _counts(self, execution: ExecutionRecord) -> Answer:
        """Items so far: of the live session while there is one, then of the execution's own summary."""
        session, summary = self.session(execution.execution_id), execution.summary
        if session is not None:
            return {
                "items": session.next_item_index,
                "inFlight": session.in_flight,
                "outputs": session.outputs,
                "rejectedRows": session.rejected_rows,
                "rejectedItems": session.rejected_items,
                "byArm": dict(session.by_arm),
                "live": session.live,
            }
        return {
            "items": summary.items if summary else 1,
            "inFlight": int(execution.await_unit_id is not None),
            "outputs": summary.outputs if summary else 0,
            "rejectedRows": summary.rejected_rows if summary else 0,
            "rejectedItems": summary.rejected_items if summary else 0,
            "byArm": self._arms(execution),
            "live": False,
        }

    def _arms(self, execution: ExecutionRecord) -> dict[str, int]:
        """A scalar execution has one arm, if any, and only its output says which."""
        summary = execution.summary
        if summary is None or summary.by_arm or summary.outputs != 1:
            return dict(summary.by_arm) if summary else {}
        output = self._scalar_output(execution)
        return {} if output is None or output.arm is None else {output.arm: 1}

    def _scalar_output(self, execution: ExecutionRecord) -> OutputRecord | None:
        found = self._part_of(execution.execution_id)
        value = None if found is None else found[0].get(found[1].output(execution.execution_id, None))
        return None if value is None else decode(OutputRecord, value)

    def outputs(self, execution_id: str, start: int = 0) -> tuple[list[Json], int | None]:
        """What its items gave, from item `start` on in their order: some of it, and the item to go on from, if any."""
        found = self._part_of(execution_id)
        if found is None:
            return [], None
        store, keys = found
        payloads: list[Json] = []
        size, rows = 0, 0
        for _, value in store.scan(keys.output(execution_id, start), keys.outputs_of(execution_id)[1], OUTPUTS + 1):
            output = decode(OutputRecord, value)
            if rows == OUTPUTS or size > OUTPUT_BYTES:
                return payloads, output.item_index
            payloads += output.payloads
            size, rows = size + len(value), rows + 1
        return payloads, None

    # Interactions

    def pending(self, limit: int) -> Iterator[InteractionRecord]:
        """Open interactions by deadline, at most `limit`."""
        for place in islice(self.waiting(), limit):
            interaction = self.interaction(place.interaction_id)
            if interaction is not None and not interaction.status.terminal:
                yield interaction

    def waiting(self, after: Place | None = None, partitions: Collection[int] | None = None) -> Iterator[Place]:
        """Where open interactions stand, in their order over all partitions or over these, behind `after`; read as it
        is asked."""
        return heapq.merge(*(self._waiting(store, keys, after) for store, keys in self._parts(partitions)))

    def _waiting(self, store: ReadableStore, keys: Keys, after: Place | None) -> Iterator[Place]:
        start, end = keys.all_deadlines()
        start = start if after is None else keys.deadline(*after) + b"\0"
        while True:
            found = [key for key, _ in store.scan(start, end, DEADLINES)]
            yield from (Place(*deadline_of(key)) for key in found)
            if len(found) < DEADLINES:
                return
            start = found[-1] + b"\0"

    def pending_count(self) -> int:
        return sum(1 for store, keys in self._parts() for _ in store.scan(*keys.all_deadlines()))

    def owed_count(self) -> int:
        return sum(1 for store, keys in self._parts() for _ in store.scan(*keys.all_owed()))

    def owing(self) -> set[str]:
        """Executions that owe something still: an effect, or the end of what they have open."""
        return {execution_of(key) for store, keys in self._parts() for key, _ in store.scan(*keys.all_owed())}

    # Everything

    async def row_counts(self) -> dict[str, int]:
        """How many rows of each kind there are."""
        counts: dict[str, int] = {}
        for kind in KINDS:
            counts[kind] = 0
            async for _ in self._values(kind):
                counts[kind] += 1
        return counts

    async def interaction_statuses(self) -> dict[str, int]:
        counts: Counter[str] = Counter()
        async for interaction in self.every("interactions", InteractionRecord):
            counts[interaction.status.value] += 1
        return dict(sorted(counts.items()))

    async def _values(self, kind: str) -> AsyncIterator[bytes]:
        for store, keys in self._parts():
            start, end = keys.prefix + KINDS[kind], keys.prefix + bytes([KINDS[kind][0] + 1])
            while True:
                found = list(store.scan(start, end, AT_ONCE))
                for _, value in found:
                    yield value
                if len(found) < AT_ONCE:
                    break
                start = found[-1][0] + b"\0"
                await asyncio.sleep(0)

    def _parts(self, partitions: Collection[int] | None = None) -> Iterator[tuple[ReadableStore, Keys]]:
        for number, keys in enumerate(self._keys):
            if partitions is None or number in partitions:
                yield self._log.store(number), keys

    def _part_of(self, route_id: str) -> tuple[ReadableStore, Keys] | None:
        route = route_of(route_id)
        if route is None:
            return None
        number = partition_of(route, len(self._keys))
        return self._log.store(number), self._keys[number]

    def _step_name(self, index: int) -> str:
        steps = self._definition.steps
        return steps[index].name if index < len(steps) else "published"


def source_name(execution: ExecutionRecord) -> str | None:
    """What a person calls the input: the object's name, or file and line of a JSON input; None for any other."""
    return (execution.source or {}).get("key") or input_place(execution.execution_key)

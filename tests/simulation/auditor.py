"""The checker of turns: sees every turn that holds, as rows and records, and knows nothing of how it was decided."""

from __future__ import annotations

from dataclasses import replace

import orjson

from tests.simulation.ends import ends_told, rejects_told, retries_kept
from tests.simulation.log import SimLog
from tests.simulation.pipelines import OUTPUTS, Pipeline, kept
from tests.simulation.provider import DIRECT, Ledger
from tests.simulation.shadow import Change, Shadow, Violation
from tpf_streams.core.execution import ExecutionRecord, ExecutionStatus, OwedKind
from tpf_streams.core.interaction import InteractionRecord, InteractionStatus
from tpf_streams.core.rows import text_id
from tpf_streams.core.step import AwaitDefinition, Parallelism
from tpf_streams.core.unit import SessionRecord
from tpf_streams.engine.wire import SOURCE_HEADER
from tpf_streams.ports import TopicPartition, Turn

_OPEN = (InteractionStatus.WAITING, InteractionStatus.DISPATCHING, InteractionStatus.DISPATCHED)
EXCUSED = 10**9


_PINNED = ("tpf.await.completion.type", "tpf.await.completion.projector")


class Auditor:
    """Raises Violation at the first turn that breaks an invariant of `tpf_streams.core`."""

    def __init__(self, pipeline: Pipeline, log: SimLog, ledger: Ledger) -> None:
        self.shadow = Shadow()
        self.turns = 0
        self.noted: dict[int, dict[TopicPartition, int]] = {}
        """What the last opening of a partition found: the ends of everything that carries answers."""
        self.grace_until_ms: dict[int, int] = {}
        self._on_their_way: set[tuple[str, int, int | None]] = set()
        self.cancelled: set[str] = set()
        self.redriven: set[str] = set()
        """Executions for which an operator has asked for a redrive; whether they had failed then, nobody knows yet."""
        self.session_cancels: list[tuple[int, int, str]] = []
        """Partition, offset, execution: behind that event its session is not live."""
        self.undeliverable: set[str] = set()
        self.lossy = False
        self.lenient = False
        """Whether an answer may have been set aside, because deciding it raised."""
        self.alone = True
        """Whether one process has all partitions: then the budget bounds what is open at the provider."""
        self._pipeline = pipeline
        self._log = log
        self._ledger = ledger
        definition = pipeline.definition
        sequential = definition.parallelism is Parallelism.SEQUENTIAL
        self._window = 1 if sequential else definition.limits.max_concurrency
        self._positions: dict[TopicPartition, int] = {}
        self._timeouts = {step.index: step.timeout_ms for step in pipeline.awaits}

    def resync(self) -> Shadow:
        """The log lost its tail: go on from what is left; -> what there was."""
        before, self.shadow = self.shadow, Shadow.of(self._log)
        self._positions.clear()
        self.session_cancels.clear()
        for partition in range(self._log.partitions):
            self._positions.update(self._log.task_positions(partition))
        return before

    def committed(self, partition: int, turn: Turn) -> None:
        """One turn that holds."""
        self.turns += 1
        before = dict(self.shadow.tables[b"s"])
        changes = self.shadow.apply(turn.rows)
        touched = dict.fromkeys(c.new.execution_id for c in changes if c.kind in b"aeiosuw" and c.new is not None)
        self._moves_on(partition, turn, changes)
        for change in changes:
            self._row(partition, turn, change)
        now_ms = int.from_bytes(self.shadow.tables[b"n"][partition.to_bytes(2, "big") + b"n"], "big")
        ends_told(self._pipeline, turn, changes, self.redriven)
        retries_kept(self.shadow, changes, now_ms)
        rejects_told(self._pipeline, turn, changes, self.redriven)
        self._outputs_join(turn, changes)
        self._requests_join(turn, changes)
        self._deadlines()
        self._budget_kept()
        for execution_id in touched:
            self._window_kept(execution_id)
            self._ended_owes_nothing(execution_id)
        self._sessions_end(partition, {row.execution_id: row.stream for row in before.values()})
        self._gates(changes, {row.execution_id: row for row in before.values()})

    # --- single rows --------------------------------------------------------------------------------------------

    def _row(self, partition: int, turn: Turn, change: Change) -> None:
        old, new = change.old, change.new
        match change.kind:
            case b"i":
                if new is None:
                    raise Violation(f"interaction {old.interaction_id} was deleted")
                if old is None or old.status is not new.status or old.response_payload != new.response_payload:
                    self._interaction(partition, turn, old, new)
                elif old.status.terminal and old != new:
                    raise Violation(f"ended interaction {old.interaction_id} was written again: {old} -> {new}")
            case b"a" | b"o" if old is not None or new is None:
                again = old is not None and not old.payloads and old.execution_id in self.redriven
                if not again:
                    raise Violation(f"an item was settled twice: {old} -> {new}")
            case b"e" if old is not None and old.status.terminal and old != new:
                self._redriven(old, new)

    def _redriven(self, old: ExecutionRecord, new: ExecutionRecord) -> None:
        """An ended execution changes by a redrive only, and only where it had failed."""
        failed = old.status is ExecutionStatus.FAILED and old.execution_id in self.redriven
        # A turn may hold its second failure and its second redrive too.
        redrives = new.attempt - old.attempt
        if not failed or redrives < 1 or not 0 <= new.generation - old.generation <= redrives:
            raise Violation(f"ended execution changed: {old} -> {new}")

    def _interaction(self, partition: int, turn: Turn, old: InteractionRecord | None, new: InteractionRecord) -> None:
        if old is not None:
            if old.status.terminal:
                raise Violation(f"interaction came back or was answered twice: {old} -> {new}")
            if _lasting(old) != _lasting(new) or new.version <= old.version:
                raise Violation(f"interaction changed what must stay: {old} -> {new}")
        honest = [answer for answer in self._ledger.answers[new.interaction_id] if answer.honest]
        in_time = [answer for answer in honest if answer.arrived_ms <= new.deadline_epoch_ms]
        match new.status:
            case InteractionStatus.COMPLETED:
                step = self._pipeline.definition.steps[new.step_index]
                assert isinstance(step, AwaitDefinition)
                said = [kept(step, new.request_payload, answer.payload) for answer in in_time]
                if self.shadow.answer(self._pipeline, new) not in said:
                    raise Violation(f"admitted without an honest answer in time: {new}, said {honest}")
            case InteractionStatus.TIMED_OUT:
                self._timed_out(partition, turn, new)
            case InteractionStatus.CANCELLED:
                ended = self.shadow.execution(new.execution_id).status.terminal or new.execution_id in self.redriven
                if not ended and new.interaction_id not in self.cancelled:
                    raise Violation(f"cancelled by nobody: {new}")
            case InteractionStatus.FAILED if new.interaction_id not in self.undeliverable:
                raise Violation(f"failed though its dispatch was possible: {new}")
            case _:
                pass

    def _timed_out(self, partition: int, turn: Turn, row: InteractionRecord) -> None:
        """Late means arrived late: no answer that came in time was read before, or was there when the task opened."""
        now = int.from_bytes(self.shadow.tables[b"n"][partition.to_bytes(2, "big") + b"n"], "big")
        honest = [answer for answer in self._ledger.answers[row.interaction_id] if answer.honest]
        if now <= row.deadline_epoch_ms and all(a.arrived_ms <= row.deadline_epoch_ms for a in honest):
            raise Violation(f"timed out at {now}, before its deadline: {row}")
        if self.lossy or self.lenient:
            return
        events = TopicPartition(self._log.events_topic, partition)
        read = {**self._log.task_positions(partition), **turn.positions}.get(events, 0)
        noted = self.noted.get(partition, {}) if now <= self.grace_until_ms.get(partition, 0) else {}
        if now <= row.deadline_epoch_ms:
            # A completion that came late ended it, in its turn in the log; what came in time by a clock that had jumped
            # back meanwhile stands behind it.
            noted = {}
        forwarded = self._forwarded(partition)
        for answer in honest:
            # Without a row an answer is held until the deadline in its token, and then forgotten (contract 0.11).
            held = row.created_at_epoch_ms <= answer.until_ms and answer.arrived_ms <= answer.until_ms
            if answer.arrived_ms > row.deadline_epoch_ms or not held:
                continue
            topic, part, offset = answer.place
            if forwarded.get(answer.place, EXCUSED) < read:
                raise Violation(f"timed out though {answer} was read before: {row}")
            if offset < noted.get(TopicPartition(topic, part), 0):
                raise Violation(f"timed out though {answer} had come before the task opened: {row}")

    def _forwarded(self, partition: int) -> dict[tuple[str, int, int], int]:
        """Where each answer stands in the events of a partition."""
        found = {}
        for record in self._log.committed(self._log.events_topic, partition):
            source = dict(record.headers).get(SOURCE_HEADER, b"").decode()
            if source.startswith(DIRECT):
                found[record.topic, record.partition, record.offset] = record.offset
            elif source.count("/") == 2:
                topic, part, offset = source.rsplit("/", 2)
                found[topic, int(part), int(offset)] = record.offset
        return found

    # --- a whole turn -------------------------------------------------------------------------------------------

    def _moves_on(self, partition: int, turn: Turn, changes: list[Change]) -> None:
        """Positions and time never go back, and the items of a stream are dispatched in their order."""
        for part, position in turn.positions.items():
            if position <= self._positions.get(part, 0):
                raise Violation(f"{part} went from {self._positions[part]} to {position}")
            self._positions[part] = position
        for change in changes:
            if change.kind == b"n" and change.old is not None and change.new < change.old:
                raise Violation(f"the time of partition {partition} went back")
        fresh = [c.new for c in changes if c.kind == b"i" and c.old is None]
        for row in fresh:
            if row.deadline_epoch_ms != row.created_at_epoch_ms + self._timeouts[row.step_index]:
                raise Violation(f"a deadline that is not the step's: {row}")
        for execution_id in dict.fromkeys(row.execution_id for row in fresh if row.item_index is not None):
            session = next(iter(self.shadow.of_execution(b"s", execution_id)), None)
            found = set() if session is None else self._dispatched(session)
            if found != set(range(len(found))):
                raise Violation(f"items were dispatched out of order: {sorted(found, key=repr)}")

    def _outputs_join(self, turn: Turn, changes: list[Change]) -> None:
        """Outputs leave with the turn that settles their items, all of them and no others."""
        told = [orjson.loads(record.value or b"") for record in turn.records if record.topic == OUTPUTS]
        sent = sorted(repr((body["executionId"], body["itemIndex"], body["payload"])) for body in told)
        rows = [change.new for change in changes if change.kind == b"o" and change.new is not None]
        written = sorted(repr((row.execution_id, row.item_index, payload)) for row in rows for payload in row.payloads)
        if sent != written:
            raise Violation(f"outputs and output rows of one turn differ: {sent} and {written}")

    def _requests_join(self, turn: Turn, changes: list[Change]) -> None:
        topics = set(self._pipeline.request_topics)
        told = [orjson.loads(record.value or b"") for record in turn.records if record.topic in topics]
        created = [c.new for c in changes if c.kind == b"i" and c.old is None and c.new.transport_type == "kafka"]
        if sorted(body["interactionId"] for body in told) != sorted(row.interaction_id for row in created):
            raise Violation(f"requests and new interactions of one turn differ: {told} and {created}")

    def _deadlines(self) -> None:
        noted = {text_id(key[11:27]) for key in self.shadow.tables[b"d"]}
        opened = {row.interaction_id for row in self.shadow.interactions if row.status in _OPEN}
        if noted != opened:
            raise Violation(f"deadlines without open interactions, or the other way: {noted ^ opened}")
        # An execution that has ended is closed in bounded turns: in the middle of that it may hold either alone.
        ending = {row.execution_id for row in self.shadow.executions if row.status.terminal}
        owed = [row for row in self.shadow.tables[b"w"].values() if row.execution_id not in ending]
        sending = {row.interaction_id for row in owed if row.kind is OwedKind.SEND}
        going = [row for row in self.shadow.interactions if row.execution_id not in ending]
        waiting = {row.interaction_id for row in going if row.status is InteractionStatus.WAITING}
        if waiting - sending or (sending - waiting) & opened:
            raise Violation(f"waiting for a dispatch that nobody owes, or the other way: {waiting ^ sending}")

    def _budget_kept(self) -> None:
        definition = self._pipeline.definition
        if not self.alone or not definition.budget_enabled:
            return
        for step in self._pipeline.awaits:
            opened = [row for row in self.shadow.interactions if row.step_index == step.index and row.status in _OPEN]
            if step.transport.endpoint is not None and len(opened) > definition.limits.max_concurrency:
                raise Violation(f"{len(opened)} open at step {step.index}, {definition.limits.max_concurrency} allowed")

    def _first_of(self, stream: int) -> int | None:
        """The await step that the items of a stream are dispatched to."""
        return self._pipeline.definition.course.streams[stream].awaited

    def _settled(self, session: SessionRecord) -> set[int | None]:
        return {row.item_index for row in self.shadow.settled(self._pipeline, session.execution_id, session.stream)}

    def _dispatched(self, session: SessionRecord) -> set[int | None]:
        """Items that were taken from the source; one that could not be dispatched was rejected on the spot."""
        rows, first = self.shadow.of_execution(b"i", session.execution_id), self._first_of(session.stream)
        return self._settled(session) | {row.item_index for row in rows if row.step_index == first}

    def _window_kept(self, execution_id: str) -> None:
        sessions = self.shadow.of_execution(b"s", execution_id)
        if not sessions or not sessions[0].live:
            return
        if self._first_of(sessions[0].stream) is None:
            return
        # What a redriven stream has not taken up yet is neither in flight nor settled.
        dispatched = self._dispatched(sessions[0])
        taken = {item for item in dispatched if item is None or item < sessions[0].next_item_index}
        in_flight = len(taken - self._settled(sessions[0]))
        if not 0 <= in_flight <= self._window:
            raise Violation(f"{in_flight} items in flight, the window is {self._window}: {execution_id}")

    def _ended_owes_nothing(self, execution_id: str) -> None:
        execution = self.shadow.execution(execution_id)
        if not execution.status.terminal:
            self._parked(execution)
            return
        rows = self.shadow.of_execution(b"w", execution_id)
        # What a large execution owes is forgotten in bounded turns, and a CLOSE without an item says that more is left.
        more = any(row.kind is OwedKind.CLOSE and row.item_index is None for row in rows)
        owed = [row for row in rows if row.kind is not OwedKind.CLOSE and not more]
        opened = [row for row in self.shadow.of_execution(b"i", execution_id) if row.status in _OPEN]
        if opened and not any(row.kind is OwedKind.CLOSE for row in rows):
            raise Violation(f"an ended execution leaves {opened} open")
        if owed or self.shadow.of_execution(b"s", execution_id):
            raise Violation(f"an ended execution owes {owed} or keeps its session: {execution_id}")

    def _parked(self, execution: ExecutionRecord) -> None:
        """A scalar execution waits exactly while its interaction is open."""
        if self._pipeline.definition.course.streams:
            return
        rows = self.shadow.of_execution(b"i", execution.execution_id)
        opened = [(row.unit_id, row.step_index) for row in rows if row.status in _OPEN]
        waits = execution.status is ExecutionStatus.WAITING_EXTERNAL
        if [(execution.await_unit_id, execution.current_step_index)] * waits != opened:
            raise Violation(f"{execution} has {opened} open")

    def _sessions_end(self, partition: int, known: dict[str, int]) -> None:
        """A session that is cancelled goes on by the durable path; the next stream of its execution is another one."""
        read = self._log.task_positions(partition).get(TopicPartition(self._log.events_topic, partition), 0)
        for cancel in list(self.session_cancels):
            home, offset, execution_id = cancel
            if home != partition or offset >= read:
                continue
            self.session_cancels.remove(cancel)
            sessions = self.shadow.of_execution(b"s", execution_id)
            if execution_id in self.redriven:
                continue  # another session may have begun behind the one that was cancelled
            if sessions and sessions[0].live and known.get(execution_id) == sessions[0].stream:
                raise Violation(f"a cancelled session is live: {sessions[0]}")

    def _gates(self, changes: list[Change], before: dict[str, SessionRecord]) -> None:
        """On the durable path an item goes on only when its unit's dispatch is complete (contract 0.20).

        Items that a live session had handed on before it was cancelled are on their way.
        """
        for change in changes:
            row = change.new
            if row is None or change.kind not in (b"w", b"o", b"i", b"a") or row.item_index is None:
                continue
            now = self.shadow.of_execution(b"s", row.execution_id)
            # A turn may hold the last answer of a live session and its cancellation.
            session = before.get(row.execution_id) or (now[0] if now else None)
            if session is None or not self._goes_on(change, session):
                continue
            place = (row.execution_id, session.stream, row.item_index)
            if place in self._on_their_way:
                continue
            self._on_their_way.add(place)
            first = self._first_of(session.stream)
            units = [unit for unit in self.shadow.of_execution(b"u", row.execution_id) if unit.step_index == first]
            unit = max(units, key=lambda unit: unit.generation, default=None)
            if not session.live and (unit is None or not unit.dispatch_complete):
                raise Violation(f"the durable path went on before its gates: {row}, unit {units}")

    def _goes_on(self, change: Change, session: SessionRecord) -> bool:
        """Whether a change is the first trace of an answered item's continuation."""
        row, stream = change.new, self._pipeline.definition.course.streams[session.stream]
        if stream.awaited is None:
            return False
        if change.kind == b"a":
            return bool(row.payloads) and row.step_index == stream.end
        if change.kind == b"o":
            return bool(row.payloads)
        if change.kind == b"i":
            return bool(row.step_index > stream.awaited)
        return row.kind in (OwedKind.SEGMENT, OwedKind.SLOT) and row.step_index > stream.awaited


def _lasting(row: InteractionRecord) -> InteractionRecord:
    """The part of an interaction that never changes."""
    return replace(
        row,
        status=InteractionStatus.WAITING,
        version=0,
        response_payload=None,
        actor=None,
        updated_at_epoch_ms=0,
        transport_metadata={name: text for name, text in row.transport_metadata.items() if name in _PINNED},
    )

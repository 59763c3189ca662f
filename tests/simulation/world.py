"""One seed: a pipeline, processes, a log, a provider and a clock; and what moves next is drawn from the seed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from tests.simulation.application import new_process
from tests.simulation.auditor import Auditor
from tests.simulation.gate import Gate
from tests.simulation.log import GroupCommitLostError, OpeningFailedError, SimLog, draw_ways
from tests.simulation.outside import Bookshelf, Sending
from tests.simulation.pipelines import APPLICATION, SECRET, draw_pipeline
from tests.simulation.process import Process
from tests.simulation.provider import Habits, Provider, Question
from tests.simulation.shadow import Violation
from tests.simulation.steps import Failures, Sources
from tests.simulation.words import ABSENT, Fault, Table
from tpf_streams.core.effects import Fact
from tpf_streams.core.events import ExecutionSubmitted, RedriveRequested, SessionCancelled
from tpf_streams.core.execution import ExecutionRecord
from tpf_streams.core.identity import IdFactory, partition_of, route_hash, route_of
from tpf_streams.engine.wire import encode_cancel, encode_redrive, encode_submission
from tpf_streams.errors import TaskLostError
from tpf_streams.logs.memory import SyncMode
from tpf_streams.ports import Record, Turn
from tpf_streams.testing.clock import ManualClock
from tpf_streams.testing.faults import CommitFault, CommitUnknownError, FaultPlan

TENANT = "acme"
COMMIT_FAULTS = {
    (False, False): Fault.UNKNOWN_NOT_HELD,
    (True, False): Fault.UNKNOWN_HELD,
    (False, True): Fault.CRASH_BEFORE_COMMIT,
    (True, True): Fault.CRASH_AFTER_COMMIT,
}
"""By whether the turn holds, and whether the process dies of it."""


class World:
    """Everything of one seed. `trace` gets one line a move."""

    def __init__(self, seed: int, *, sync: SyncMode | None = None, trace: list[str] | None = None) -> None:
        self.seed = seed
        self.table: Table = Counter()
        self.violation: Violation | None = None
        self.facts: Counter[str] = Counter()
        self.poison: Counter[str] = Counter()
        """Records that are no completions, by where they stand."""
        self.blinks = False
        """Whether facts of turns that hold may have gone untold."""
        self._trace = trace
        rng = self.rng = Random(seed)
        self.pipeline = draw_pipeline(rng)
        self.clock = ManualClock()
        self.sync: SyncMode = sync or ("interval" if rng.random() < 0.08 else "commit")
        self.plan = FaultPlan()
        self.crashing: set[int] = set()
        self.gate = Gate(self.plan, self._struck, self.say)
        topics = {name: rng.choice((1, 2)) for name in self.pipeline.request_topics + self.pipeline.response_topics}
        self.log = SimLog(
            APPLICATION,
            rng.choice((1, 2, 2, 3)),
            topics,
            self.clock,
            self.gate,
            sync=self.sync,
            fence_at_commit_only=rng.random() < 0.5,
            ways=draw_ways(rng),
        )
        self.log.opened = self._opened
        self.provider = Provider(self.pipeline, self.log, self.clock, rng, Habits.draw(rng))
        self.auditor = self.gate.auditor = Auditor(self.pipeline, self.log, self.provider.ledger)
        self.provider.silenced = lambda: self.count_all(Fault.SILENT)
        self.provider.asked = self._asked
        self.questions: list[tuple[Question, asyncio.Future[str]]] = []
        self.auditor.lossy = self.sync == "interval"
        self.sources, self.failures, self.sending = Sources(), Failures(), Sending()
        self.auditor.undeliverable = self.sending.troubled
        self.failures.raised.append(lambda: self.count_all(Fault.STEP_RAISED))
        self.bookshelf = Bookshelf(lossy=self.sync == "interval")
        self.lose_result = False
        self.decisions_left: int | None = None
        self.lists_checked = 0
        """Executions that were held against the model of lists."""
        self.redrives = 0
        """How often an operator has asked for one."""
        self.bugs = 0
        """Decisions that have raised."""
        self.retries = rng.randrange(3)
        self.grace_ms = rng.choice((300_000, 300_000, 3_600_000))
        self.batch_max = rng.choice((1, 2, 5, 500))
        self.judged: list[ExecutionRecord] = []
        """The executions as they ended, before retention took them."""
        self.processes: list[Process] = []
        self.zombies: list[Process] = []
        self.looked: set[str] = set()
        self.ids = IdFactory(SECRET)

    # --- moving --------------------------------------------------------------------------------------------------

    async def submit(self, key: str) -> None:
        """Ask for an execution, at least once."""
        if key not in self.sources.counts:
            items = self.rng.choice((0, 1, 2, 3, 5, 8, 12))
            self.sources.submit(key, items, self.rng)
        name, value, headers = encode_submission(
            ExecutionSubmitted(TENANT, key, self.sources.input(key, listed=self.pipeline.listed))
        )
        home = partition_of(route_hash(TENANT, APPLICATION, key, 0), self.log.partitions)
        await self.log.append([Record(self.log.events_topic, name, value, headers, home)])

    def execution_id(self, key: str) -> str:
        return self.life(key, 0)

    def life(self, key: str, life: int) -> str:
        """The id of one life of a key."""
        return self.ids.execution_id(TENANT, APPLICATION, key, life)

    async def turn(self, process: Process, partition: int) -> bool:
        """One turn of one task; what is expected to raise is met as the worker's loop would."""
        stale = partition in process.stale
        if stale and partition not in process.worker.tasks:
            await process.give_up(partition)
            return False
        try:
            moved = await process.worker.advance(partition)
        except CommitUnknownError:
            if partition in self.crashing:
                self.crashing.discard(partition)
                await self.kill(process)
            elif stale:
                await process.give_up(partition)
            return True
        except OpeningFailedError:
            return True
        except TaskLostError:
            if not stale:
                raise
            await process.give_up(partition)
            return True
        if not stale and process in self.processes:
            process.check_slots(self.auditor.shadow)
        return moved

    async def route(self, process: Process) -> bool:
        try:
            return await process.route()
        except (GroupCommitLostError, TaskLostError):
            return True

    async def kill(self, process: Process) -> None:
        """The process dies; where it is still needed, another takes its place."""
        self.say(f"process {process.number} dies")
        self.blinks = self.blinks or process.committing
        await process.die()
        if process in self.zombies:
            self.zombies.remove(process)
            return
        place = self.processes.index(process)
        mine = [partition for partition in process.mine if partition not in process.stale]
        self.processes[place] = new_process(self, process.number, mine)

    async def spin(self, times: int) -> None:
        for _ in range(times):
            await asyncio.sleep(0)

    async def cancel_session(self, execution_id: str) -> None:
        """An operator ends the live session of an execution."""
        key, value, headers = encode_cancel(SessionCancelled(execution_id))
        home = self.home(execution_id)
        record = Record(self.log.events_topic, key, value, headers, home)
        _, partition, offset = await self.log.append_one(record)
        self.auditor.session_cancels.append((partition, offset, execution_id))

    async def redrive(self, row: ExecutionRecord, *, version: int | None) -> None:
        """An operator wants a failed execution to go on."""
        event = RedriveRequested(row.execution_id, version, self.rng.random() < 0.95, "operator")
        key, value, headers = encode_redrive(event)
        self.auditor.redriven.add(row.execution_id)
        self.redrives += 1
        await self.log.append([Record(self.log.events_topic, key, value, headers, self.home(row.execution_id))])

    async def answer(self) -> bool:
        """The provider gives one of the answers that are due, if there is one."""
        due = await self.provider.answer()
        if due is None:
            return False
        row = self.auditor.shadow.interaction(due.request["interactionId"])
        if due.fault is Fault.EARLY and row is not None:
            return True  # the turn has been done again, so the answer is not early any more
        if due.fault is not None:
            self.count(due.fault, [] if row is None else [row.status.value])
        return True

    def look_into_inbox(self) -> None:
        """Whoever works the inbox of the interaction-api finds the waiting rows."""
        for row in self.auditor.shadow.interactions:
            waiting = row.transport_type == "interaction-api" and not row.status.terminal
            if waiting and row.interaction_id not in self.looked:
                self.looked.add(row.interaction_id)
                self.provider.look(row, self.auditor.shadow.request(self.pipeline, row))

    def unheard(self, context: dict[str, Any]) -> None:
        """The loop reports what nobody has caught."""
        self.violation = self.violation or Violation(
            f"nobody caught {context.get('exception')!r}: {context['message']}"
        )

    def check(self) -> None:
        """Raise what was found where it could not be raised."""
        if self.violation or self.gate.violation:
            raise self.violation or self.gate.violation or AssertionError

    # --- telling -------------------------------------------------------------------------------------------------

    def say(self, line: str) -> None:
        if self._trace is not None:
            self._trace.append(line)

    def count(self, fault: Fault, statuses: Iterable[str]) -> None:
        """The fault met interactions in these statuses."""
        found = sorted(set(statuses)) or [ABSENT]
        self.say(f"fault: {fault.value} ({', '.join(found)})")
        for status in found:
            self.table[fault, status] += 1

    def count_all(self, fault: Fault) -> None:
        self.count(fault, [row.status.value for row in self.auditor.shadow.interactions])

    def count_partition(self, fault: Fault, partition: int) -> None:
        self.count(fault, [row.status.value for row in self.auditor.shadow.of_partition(b"i", partition)])

    def count_execution(self, fault: Fault, execution_id: str) -> None:
        self.count_partition(fault, self.home(execution_id))

    def count_interaction(self, fault: Fault, interaction_id: str) -> None:
        row = self.auditor.shadow.interaction(interaction_id)
        self.count(fault, [] if row is None else [row.status.value])

    def home(self, ident: str) -> int:
        return partition_of(route_of(ident) or 0, self.log.partitions)

    def _asked(self, origin: str, question: Question) -> None:
        """The owner of the partition is asked for the outcome; a process that dies never answers."""
        for process in self.processes:
            if question.home in process.mine and question.home not in process.stale:
                self.questions.append((question, process.environment.answers.expect(origin)))

    def observe(self, facts: Sequence[Fact]) -> None:
        """`ports.Observer` of all processes."""
        for fact in facts:
            self.facts[fact.name] += fact.count

    # --- what the world around is told -----------------------------------------------------------------------------

    def _struck(self, error: CommitUnknownError, turn: Turn) -> None:
        """A commit was lost from sight. Whoever reads uncommitted has seen requests of a turn that does not hold."""
        held = error.fault is CommitFault.HELD
        self.count_partition(COMMIT_FAULTS[held, error.partition in self.crashing], error.partition)
        if held:
            self.blinks = True
            return
        topics = set(self.pipeline.request_topics)
        for record in turn.records:
            if record.topic in topics and self.rng.random() < 0.7:
                self.provider.receive(record.value or b"", committed=False)

    def _opened(self, partition: int) -> None:
        topics = [*self.pipeline.response_topics, self.log.events_topic]
        parts = [part for topic in topics for part in self.log.ends(topic)]
        own = {part: end for part, end in parts if part.topic != self.log.events_topic or part.partition == partition}
        self.auditor.noted[partition] = dict(own)
        # A little less than the task's own grace: its time may be ahead of the wall.
        self.auditor.grace_until_ms[partition] = self.clock.now_ms() + self.grace_ms

    def pulled(self, key: str, place: int) -> None:
        """The source is read no further than the window and one element ahead."""
        execution_id = self.execution_id(key)
        sessions = self.auditor.shadow.of_execution(b"s", execution_id)
        read = sum(1 for before in range(place + 1) if before not in self.sources.rejects[key])
        settled = len(self.auditor.shadow.settled(self.pipeline, execution_id, 0))
        if sessions and sessions[0].live and read > settled + self.pipeline.definition.window + 1:
            self.violation = Violation(f"{read} items of {key} were read: {sessions[0]}")

    def send_failed(self, execution_id: str) -> None:
        self.count_execution(Fault.SEND_FAILED, execution_id)

    def publish_failed(self) -> None:
        self.count_all(Fault.PUBLISH_FAILED)

    async def crash_machine(self) -> None:
        """All processes stop, and what was not synced is gone, but for some of the oldest."""
        for process in [*self.zombies, *self.processes]:
            await self.kill(process)
        self.log.crash(self.rng.randrange(self.log.unsynced + 1))
        before = self.auditor.resync()
        if self.sync == "commit" and before.tables != self.auditor.shadow.tables:
            raise Violation("rows of acknowledged turns were lost")
        await self.provider.open()

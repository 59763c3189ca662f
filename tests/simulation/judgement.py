"""The checkers of the end: topics, rows, files and ledgers are compared; nothing here knows how decisions are made."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import orjson

from tests.simulation.counts import dead_letters, facts_count, summary_counts, units_count
from tests.simulation.lifecycle import lifecycle_holds
from tests.simulation.lists import lists_hold
from tests.simulation.outcomes import outcomes_hold
from tests.simulation.pipelines import FORGED, OUTPUTS
from tests.simulation.reasons import explained
from tests.simulation.shadow import Violation
from tests.simulation.steps import origin, takes
from tests.simulation.world import World
from tpf_streams.core.execution import ExecutionRecord, ExecutionStatus, OutputRecord
from tpf_streams.core.interaction import InteractionRecord, InteractionStatus
from tpf_streams.core.step import AwaitDefinition, Cardinality, Json
from tpf_streams.ports import InputRecord


@dataclass(slots=True)
class Judgement:
    """What one world came to; `judge` raises the first Violation."""

    world: World
    outputs: dict[tuple[str, int | None], list[Json]] = field(default_factory=lambda: defaultdict(list))

    def judge(self) -> None:
        for record in self.world.log.read(OUTPUTS):
            body = orjson.loads(record.value or b"")
            self.outputs[body["executionId"], body["itemIndex"]].append(body["payload"])
        for key in self.world.sources.counts:
            self._execution(key)
        self._slots()
        self._requests()
        self._nothing_forged()
        facts_count(self.world)
        dead_letters(self.world)
        outcomes_hold(self.world)
        lifecycle_holds(self.world)

    def _execution(self, key: str) -> None:
        shadow = self.world.auditor.shadow
        execution = next((row for row in shadow.executions if row.execution_key == key), None)
        if execution is None or not execution.status.terminal:
            raise Violation(f"{key} was submitted and has not ended: {execution}")
        outcomes: dict[int | None, OutputRecord] = {
            row.item_index: row for row in shadow.of_execution(b"o", execution.execution_id)
        }
        for place, told in self.outputs.items():
            if place[0] == execution.execution_id and place[1] not in outcomes:
                raise Violation(f"an output without a row: {place} {told}")
        for row in outcomes.values():
            if self.outputs[execution.execution_id, row.item_index] != row.payloads:
                raise Violation(f"output topic and row differ: {self.outputs[execution.execution_id, row.item_index]}")
            if not self.world.pipeline.shaped:
                self._custody(execution, row)
        if self.world.pipeline.shaped:
            lists_hold(self.world, execution)
        else:
            self._rejects(execution, outcomes)
        if execution.status is not ExecutionStatus.SUCCEEDED:
            explained(self.world, execution)
        elif not self.world.pipeline.shaped:
            self._complete(execution, outcomes)
        self._published(execution, outcomes)
        self._one_source(execution)
        units_count(self.world, execution)
        summary_counts(self.world, execution)

    def _complete(self, execution: ExecutionRecord, outcomes: dict[int | None, OutputRecord]) -> None:
        """Every item has one outcome, and none is missing."""
        world, key = self.world, execution.execution_key
        if not world.pipeline.streams:
            wanted: set[int | None] = {None}
        else:
            wanted = set(range(world.sources.counts[key] - len(world.sources.rejects[key])))
        if set(outcomes) != wanted:
            raise Violation(f"{key} ended with {sorted(outcomes, key=repr)}, expected {sorted(wanted, key=repr)}")
        rows = world.auditor.shadow.of_execution(b"i", execution.execution_id)
        answered = Counter((it.step_index, it.item_index) for it in rows if it.status is InteractionStatus.COMPLETED)
        if any(count > 1 for count in answered.values()):
            raise Violation(f"asked again in spite of an answer: {answered}")
        for row in rows:
            if not answered[row.step_index, row.item_index] and outcomes[row.item_index].payloads:
                raise Violation(f"an output without an answer: {row}")
        keys: dict[tuple[int, int | None], set[str]] = defaultdict(set)
        for row in rows:
            keys[row.step_index, row.item_index].add(row.idempotency_key)
        if any(len(found) > 1 for found in keys.values()):
            raise Violation(f"asked again under another idempotency key: {keys}")

    def _custody(self, execution: ExecutionRecord, row: OutputRecord) -> None:
        """An output holds the answers that hold the requests that hold the source item: nothing swapped or made up."""
        interactions: dict[tuple[int, int | None], InteractionRecord] = {
            (i.step_index, i.item_index): i
            for i in self.world.auditor.shadow.of_execution(b"i", execution.execution_id)
            if i.status is InteractionStatus.COMPLETED
        }
        calls = self.world.pipeline.calls
        for payload in row.payloads:
            value = payload
            for step in reversed(self.world.pipeline.definition.steps):
                if isinstance(step, AwaitDefinition):
                    interaction = interactions[step.index, row.item_index]
                    if interaction.response_payload != value:
                        raise Violation(f"an output that its answer did not give: {value}, {interaction}")
                    value = next(iter(value.values()))["of"]
                    if interaction.request_payload != value and not self._seen_early(interaction):
                        raise Violation(f"an answer to another request: {value}, {interaction}")
                    value = interaction.request_payload
                elif step.cardinality is not Cardinality.ONE_TO_MANY and takes(calls[step.index].selective, value):
                    if value.get("s") != step.index:
                        raise Violation(f"step {step.index} did not run, or not once: {payload}")
                    value = value["in"]
            self._origin(execution, row, value)

    def _seen_early(self, interaction: InteractionRecord) -> bool:
        """A provider that reads uncommitted may have answered what the source no longer gives."""
        return interaction.interaction_id in self.world.provider.ledger.uncommitted or self.world.sync == "interval"

    def _origin(self, execution: ExecutionRecord, row: OutputRecord, value: Json) -> None:
        key, sources = execution.execution_key, self.world.sources
        item = origin(value)
        if item != value or item["k"] != key:
            raise Violation(f"an output of another source: {value} in {key}")
        if row.item_index is not None:
            items = [place for place in range(sources.counts[key]) if place not in sources.rejects[key]]
            if item["n"] != items[row.item_index] or item["v"] > sources.versions[key]:
                raise Violation(f"item {row.item_index} of {key} is {item}")

    def _one_source(self, execution: ExecutionRecord) -> None:
        """All items are of one and the same source, whenever they were pulled: else it is SOURCE_CHANGED."""
        key, sources = execution.execution_key, self.world.sources
        if not self.world.pipeline.streams or not self.world.pipeline.awaits or self.world.pipeline.shaped:
            return
        rows = self.world.auditor.shadow.of_execution(b"i", execution.execution_id)
        first = self.world.pipeline.awaits[0].index
        items = [origin(row.request_payload) for row in rows if row.step_index == first]
        runs = range(sources.versions[key] + 1)
        if not any(all(sources.version_of(key, item["n"], run) == item["v"] for item in items) for run in runs):
            raise Violation(f"items of two sources in one execution: {items}")

    def _rejects(self, execution: ExecutionRecord, outcomes: dict[int | None, OutputRecord]) -> None:
        rows = self.world.auditor.shadow.of_execution(b"r", execution.execution_id)
        refused = Counter(row.item_index for row in rows if row.item_index is not None)
        empty = {index for index, row in outcomes.items() if not row.payloads}
        if set(refused) != empty or any(count > 1 for count in refused.values()):
            raise Violation(f"rejected items {refused} and items without output {empty}: {execution.execution_key}")
        read = [row.line - 1 for row in rows if row.item_index is None]
        if not set(read) <= self.world.sources.rejects[execution.execution_key] or len(set(read)) != len(read):
            raise Violation(f"rejected rows {read}: {execution.execution_key}")
        for row in rows:
            if row.item_index is not None:
                explained(self.world, execution, row)

    def _published(self, execution: ExecutionRecord, outcomes: dict[int | None, OutputRecord]) -> None:
        """The file holds the outputs in item order; it is there when the execution says so."""
        name = f"{execution.execution_key}.out"
        content = self.world.bookshelf.files.get(name)
        wanted = self.world.pipeline.definition.publishes and execution.status is ExecutionStatus.SUCCEEDED
        if wanted and execution.published != name:
            raise Violation(f"{name} was not published: {execution}")
        if execution.published is None:
            return
        if execution.status is ExecutionStatus.FAILED and execution.execution_id in self.world.auditor.redriven:
            return  # what was published before the redrive stands, until another is
        rows = [outcomes[index] for index in sorted(outcomes, key=lambda index: index or 0)]
        lines = [orjson.dumps([row.item_index, payload]) for row in rows for payload in row.payloads]
        if content is None or content.split(b"--")[0].split() != b"\n".join(lines).split():
            raise Violation(f"{name} is not what the rows say: {content!r} {lines}")

    def _slots(self) -> None:
        for process in self.world.processes:
            for step in self.world.pipeline.awaits:
                held = process.environment.budgets.held(step.index)
                if held:
                    raise Violation(f"process {process.number}: {held} slots of step {step.index} never came back")

    def _requests(self) -> None:
        """One request an interaction; repeats are the same bytes."""
        world = self.world
        topics: Counter[str] = Counter()
        for topic in world.pipeline.request_topics:
            topics.update(self._ident(record) for record in world.log.read(topic))
        rows = {row.interaction_id: row for row in world.auditor.shadow.interactions}
        if any(count > 1 for count in topics.values()) or not set(topics) <= set(rows):
            raise Violation(f"requests without a row, or twice in a topic: {topics}")
        if world.sync == "interval":
            return
        for ident, seen in world.provider.ledger.requests.items():
            if len(seen) > 1:
                raise Violation(f"a repeated request differs: {list(seen)}")
            if ident not in rows:
                raise Violation(f"a request without a row: {list(seen)}")

    def _ident(self, record: InputRecord) -> str:
        return str(orjson.loads(record.value or b"")["interactionId"])

    def _nothing_forged(self) -> None:
        shadow = self.world.auditor.shadow
        seen = [row.response_payload for row in shadow.interactions] + [
            row.payloads for kind in (b"o", b"a") for row in shadow.tables[kind].values()
        ]
        for found in [*seen, *self.outputs.values()]:
            if FORGED.encode() in orjson.dumps(found):
                raise Violation(f"a forged answer got in: {found}")

"""What an application is asked and told: the same behind the socket, behind HTTP, and on a log that nobody runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from tpf_streams.core.execution import ExecutionStatus
from tpf_streams.core.step import AwaitDefinition, PipelineDefinition
from tpf_streams.engine.lifecycle import lifecycle_topic
from tpf_streams.engine.wire import dead_letters_topic, events_topic
from tpf_streams.runtime.application import Application
from tpf_streams.runtime.asked import Arguments, Asked
from tpf_streams.runtime.asked_executions import ExecutionQuestions
from tpf_streams.runtime.asked_interactions import InteractionQuestions
from tpf_streams.runtime.asked_units import UnitQuestions
from tpf_streams.runtime.history import PAGE_BYTES, history_page
from tpf_streams.runtime.open_log import ViewableLog
from tpf_streams.runtime.refusals import OperatorError
from tpf_streams.runtime.replay import pipeline_part
from tpf_streams.runtime.topology import described
from tpf_streams.runtime.views import Answer, LogViews

SETTLE_S = 10.0
READS = {"execution": "executionId", "result": "executionId", "interaction": "interactionId"}
"""Commands that tell of one row as it is now, and the argument that names it."""


class Operator:
    """Answers by command name. `application`: a running one, which completions need."""

    def __init__(
        self,
        definition: PipelineDefinition,
        log: ViewableLog,
        application: Application | None = None,
        default_tenant: str = "default",
    ) -> None:
        self._asked = Asked(definition, log, application, default_tenant)
        self.views = self._asked.views
        self._definition = definition
        self._log = log
        interactions = InteractionQuestions(self._asked)
        self._commands: dict[str, Callable[[Arguments], Awaitable[Answer]]] = {
            **ExecutionQuestions(self._asked).commands,
            **interactions.commands,
            **UnitQuestions(self._asked, interactions).commands,
            "describe": self._describe,
            "lifecycle": self._lifecycle,
        }

    async def answer(self, command: str, arguments: Arguments) -> Answer:
        """The answer, with the partitions it knows little of. Raises OperatorError, and what the log raises.

        `owned` of any command: partition -> incarnation, as who asks for another worker knows them; where they are not
        here so, nothing is answered. A list is then of these alone.
        """
        found = self._commands.get(command)
        if found is None:
            raise OperatorError(f"unknown command; known are {', '.join(self._commands)}")
        owned = arguments.get("owned")
        if owned is not None:
            self._asked.whereabouts.confirm(owned)
        answer = await found(arguments)
        if command in READS:
            # Once more, behind the reading: a worker that was frozen in between has read what a successor may have
            # changed since.
            self._asked.whereabouts.check(str(arguments.get(READS[command]) or ""))
        if command == "lifecycle":
            return answer  # from the log itself, whoever has the partition
        return {**answer, "unseenPartitions": list(self._log.unseen)} if self._log.unseen else answer

    async def _lifecycle(self, arguments: Arguments) -> Answer:
        """One page of an execution's events; `known` says whether its row is here."""
        execution_id, start = str(arguments.get("executionId") or ""), arguments.get("start", 0)
        if not isinstance(start, int) or start < 0:
            raise OperatorError("start: an offset is wanted, 0 or more")
        size = int(arguments.get("pageBytes", PAGE_BYTES))
        page = await history_page(self._log, self._definition, execution_id, start, size)
        return {**page, "known": self.views.execution(execution_id) is not None, **pipeline_part(self._definition)}

    async def _describe(self, arguments: Arguments) -> Answer:
        status = await self.views.status(0)
        ends = await self._log.end_offsets(topics_of(self._definition))
        records: dict[str, int] = dict.fromkeys(topics_of(self._definition), 0)
        for part, offset in ends.items():
            records[part.topic] += offset
        return {
            "applicationId": self._definition.application_id,
            "partitions": self._log.partitions,
            "steps": [described(step, self._definition) for step in self._definition.steps],
            "topics": records,
            "rows": await self.views.row_counts(),
            "executions": status["counts"],
            "interactions": await self.views.interaction_statuses(),
        }


@asynccontextmanager
async def running(application: Application) -> AsyncIterator[None]:
    """The application at work, for the time of the block. Raises what stops it."""
    await application.open()
    stop = asyncio.Event()
    work = asyncio.ensure_future(application.run(stop))
    try:
        yield
    finally:
        stop.set()
        await work


async def settled(views: LogViews, execution_id: str) -> None:
    """Return when an execution waits or has ended, or after some seconds."""
    end_s = time.monotonic() + SETTLE_S
    while time.monotonic() < end_s:
        found = views.execution(execution_id)
        if found is None or found.status.terminal or found.status is ExecutionStatus.WAIT_RETRY:
            return
        if found.await_unit_id and not views.owed_count():
            return
        await asyncio.sleep(0.02)


def topics_of(definition: PipelineDefinition) -> list[str]:
    """The application's own topics and those of its await steps."""
    own = (events_topic, dead_letters_topic, lifecycle_topic)
    found = [topic(definition.application_id) for topic in own]
    for step in definition.steps:
        if isinstance(step, AwaitDefinition) and step.transport.type == "kafka":
            found += [step.transport.options[way]["topic"] for way in ("request", "response")]
    return list(dict.fromkeys([*found, definition.output_topic]))

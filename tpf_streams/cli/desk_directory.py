"""Asking about a data directory: its owner if one runs, else the log itself."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpf_streams.cli.console import Exit, fail, say
from tpf_streams.cli.options import check_texts
from tpf_streams.cli.run import run_loop
from tpf_streams.core.step import Json
from tpf_streams.dsl.load import LoadedPipeline, load_pipeline
from tpf_streams.engine.clock import SystemClock
from tpf_streams.errors import LogOwnedError
from tpf_streams.runtime.build import build
from tpf_streams.runtime.control import SOCKET_NAME, ask
from tpf_streams.runtime.open_log import RunNote, open_local_log, recall
from tpf_streams.runtime.operator import Operator, running, settled
from tpf_streams.runtime.views import Answer

RUNS = ("submit", "complete", "redrive", "cancel")
"""Commands that the pipeline itself has to carry out."""
MOVES = ("submitted", "admitted", "redriven", "cancelled")
"""Outcomes behind which an execution goes on."""
OWNER_STARTS_S = 3.0
"""An owner has the lock before it has the socket, and for a moment after."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of which data directory."""

    data_dir: Path
    pipeline: Path | None
    command: str
    arguments: Mapping[str, Any]


class DirectoryDesk:
    """`pipeline`: instead of the one that last ran there."""

    def __init__(self, data_dir: Path, pipeline: Path | None = None) -> None:
        self._data_dir = data_dir
        self._pipeline = pipeline
        self.goes_on = True

    def ask(self, command: str, arguments: Mapping[str, Any]) -> Answer:
        """The answer; what it does not cover is told. Raises TpfError, OSError."""
        check_texts(arguments)
        answer = self._answer(Question(self._data_dir, self._pipeline, command, arguments))
        unseen = answer.get("unseenPartitions")
        if unseen:
            numbers = ", ".join(map(str, unseen))
            say(f"partitions {numbers} are not open here: what waits there another worker knows, or this one soon")
        return answer

    def result(self, execution_id: str) -> Json:
        """What an execution gave, as a whole. Raises TpfError, OSError."""
        found: list[Json] = []
        start: int | None = 0
        listed = False
        while start is not None:
            page = self.ask("result", {"executionId": execution_id, "start": start})
            found += page["outputs"]
            start, listed = page["next"], page["listed"]
        return found if listed else (found or [None])[0]

    def _answer(self, question: Question) -> Answer:
        data_dir = _worker_of(question.data_dir)
        end_s = time.monotonic() + OWNER_STARTS_S
        while True:
            found = ask(data_dir, question.command, question.arguments)
            self.goes_on = found is not None
            if found is not None:
                return found
            try:
                return _without_owner(question)
            except LogOwnedError:
                if time.monotonic() > end_s:
                    raise
                time.sleep(0.1)


def _worker_of(data_dir: Path) -> Path:
    """The directory itself, or that of the one worker on Kafka that answers in it."""
    answering = sorted(path.parent for path in data_dir.glob(f"[0-9]*/{SOCKET_NAME}"))
    if len(answering) > 1:
        fail(f"several workers answer there: name one of {', '.join(map(str, answering))}", Exit.USAGE)
    return answering[0] if answering else data_dir


def _without_owner(question: Question) -> Answer:
    if not (question.data_dir / "journal.json").exists():
        if any((question.data_dir / lock).exists() for lock in ("lock", "0/lock")):
            fail(f"{question.data_dir} is of a log on Kafka, and no worker runs there that could answer", Exit.USAGE)
        fail(f"{question.data_dir} holds no log of a run", Exit.USAGE)
    note = recall(question.data_dir)
    if question.pipeline is not None:
        note = RunNote(str(question.pipeline), *((note.config, note.settings, note.output_dir) if note else ()))
    if note is None:
        fail(f"{question.data_dir} does not say which pipeline ran there: name it with --pipeline", Exit.USAGE)
    loaded = load_pipeline(
        Path(note.pipeline),
        settings_overrides=note.settings,
        config=Path(note.config) if note.config else None,
        require_secret=question.command in RUNS,
    )
    return run_loop(_opened(question, note, loaded))


async def _opened(question: Question, note: RunNote, loaded: LoadedPipeline) -> Answer:
    async with AsyncExitStack() as stack:
        log = open_local_log(loaded, question.data_dir)
        stack.push_async_callback(log.close)
        if question.command not in RUNS:
            return await Operator(loaded.definition, log).answer(question.command, question.arguments)
        output_dir = Path(note.output_dir) if note.output_dir else None
        application = build(loaded, log, SystemClock(), output_dir=output_dir)
        tenant = loaded.settings.required_text("pipeline.orchestrator.default-tenant")
        operator = Operator(loaded.definition, log, application, tenant)
        async with running(application):
            answer = await operator.answer(question.command, question.arguments)
            execution_id = _moved(operator, {**question.arguments, **answer})
            if answer["outcome"] in MOVES and execution_id is not None:
                await settled(operator.views, execution_id)
            return answer


def _moved(operator: Operator, arguments: Mapping[str, Any]) -> str | None:
    """The execution that a command has set in motion."""
    named = str(arguments.get("interactionId") or arguments.get("executionId") or arguments.get("id") or "")
    interaction = operator.views.interaction(named)
    return named if interaction is None else interaction.execution_id

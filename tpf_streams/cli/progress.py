"""What a command shows while it runs: a line that moves on a terminal, and one word when nobody answers a run."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tpf_streams.cli.console import err, say
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.step import AwaitDefinition
from tpf_streams.runtime.run_tally import RunTally
from tpf_streams.runtime.views import LogViews

TICK_S = 0.2
QUIET_S = 2.0
"""No answer for this long, with interactions open that nobody answers in this process: worth a word."""


async def show_line(text: Callable[[], str], stop: asyncio.Event) -> None:
    """Show `text()` on a terminal, and ask for it some times a second anywhere, until `stop`."""
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.fields[text]}", markup=False),
        TimeElapsedColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )
    with progress:
        line = progress.add_task("", total=None, text="")
        while not stop.is_set():
            progress.update(line, text=text())
            await _pause(stop, TICK_S)


class Watch:
    """Companion of a run. `unanswered`: await steps that nothing in this process answers."""

    def __init__(
        self, tally: RunTally, views: LogViews, unanswered: Sequence[AwaitDefinition], data_dir: Path | None
    ) -> None:
        self._tally = tally
        self._views = views
        self._unanswered = {step.index: step for step in unanswered}
        self._data_dir = data_dir
        self._told = not unanswered
        self._moves: tuple[int, int] = (-1, -1)
        self._moved_s = time.monotonic()

    async def run(self, stop: asyncio.Event) -> None:
        await show_line(self._tick, stop)

    def _tick(self) -> str:
        self._tell_if_quiet()
        return self._text()

    def _text(self) -> str:
        tally = self._tally
        return (
            f"{tally.settled:,} items done · {tally.in_flight:,} in flight · "
            f"{tally['row.rejected.total']:,} rows rejected · {len(tally.following):,} executions to go"
        )

    def _tell_if_quiet(self) -> None:
        """Once: how many wait, and the command that answers the first of them."""
        moves = (self._tally.settled, self._tally["interaction.created.total"])
        now_s = time.monotonic()
        if self._told or moves != self._moves:
            self._moves, self._moved_s = moves, now_s
        elif now_s - self._moved_s >= QUIET_S:
            first = next(iter(self._views.pending(1)), None)
            if first is not None and first.step_index in self._unanswered:
                self._told = True
                self._tell(first)

    def _tell(self, first: InteractionRecord) -> None:
        count = self._views.pending_count()
        left_s = max(0, first.deadline_epoch_ms - time.time_ns() // 1_000_000) // 1000
        say(
            f"{count} interaction{'' if count == 1 else 's'} wait{'s' if count == 1 else ''} for an answer that nobody "
            f"gives in this process; the first has {left_s} s left. Ctrl-C stops, the next run goes on."
        )
        if self._data_dir is None:
            say("without --data-dir they cannot be answered from outside")
            return
        for command in commands_to_answer(self._data_dir, self._unanswered[first.step_index], first):
            say(f"  {command}")


def commands_to_answer(data_dir: Path, step: AwaitDefinition, first: InteractionRecord) -> list[str]:
    """How an operator lists what waits, and answers the first of it."""
    folder = ["--data-dir", str(data_dir)]
    listing = ["tpf-streams", "pending", *folder, "--payload"]
    answer = ["tpf-streams", "complete", *folder, "--interaction-id", first.interaction_id]
    if first.tenant_id != "default":
        answer += ["--tenant", first.tenant_id]
    if step.require_token:
        listing.append("--token")
        answer += ["--token", "TOKEN"]
    payload = f'{{"{step.arms[0]}": {{...}}}}' if step.arms else "{...}"
    return [shlex.join(listing), f"{shlex.join(answer)} --payload {shlex.quote(payload)}"]


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return

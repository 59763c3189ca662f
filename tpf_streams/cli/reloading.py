"""A process that runs a pipeline, and another one in its place whenever a file that it was made of changes."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson
from watchfiles import Change, awatch

from tpf_streams.cli.console import Exit, say

WORKER = (sys.executable, "-m", "tpf_streams.cli.dev_worker")
FILES = "sources.json"
"""In the folder: the files of the modules that the pipeline brought in, as its process writes them."""
SUFFIXES = frozenset({".py", ".yaml", ".yml", ".properties"})
STOP_S = 8.0
"""For the turn under way, and a step that is being called; what is not done then is owed, and done by the next one."""


@dataclass(frozen=True, slots=True)
class WorkerCall:
    """What the process is told on its stdin, as one line; the end of it is the end of this process. Paths: absolute."""

    pipeline: str
    folder: str
    host: str
    port: int
    provider: str | None = None
    config: str | None = None
    overrides: dict[str, str] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    again: bool = False


class Reloading:
    """`environment`: of the process."""

    def __init__(self, call: WorkerCall, environment: Mapping[str, str]) -> None:
        self._call = call
        self._environment = environment
        self._folder = Path(call.folder)
        self._stop = asyncio.Event()
        self._stopped: list[signal.Signals] = []

    async def run(self) -> signal.Signals:
        """Until a signal; -> that one."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal, number)
        again = False
        while not self._stopped:
            changes = asyncio.ensure_future(self._changes())
            process = await self._start(again=again)
            await self._until(process, changes)
            if process.returncode is None:
                await _end(process)
            changes.cancel()
            with suppress(asyncio.CancelledError):
                await changes
            again = True
        return self._stopped[0]

    def _on_signal(self, number: signal.Signals) -> None:
        """The second one is the system's own again."""
        self._stopped.append(number)
        self._stop.set()
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(each)

    async def _start(self, *, again: bool) -> asyncio.subprocess.Process:
        """In a session of its own: a Ctrl-C comes here alone."""
        process = await asyncio.create_subprocess_exec(
            *WORKER, stdin=asyncio.subprocess.PIPE, env=self._environment, start_new_session=True
        )
        assert process.stdin is not None
        process.stdin.write(orjson.dumps({**asdict(self._call), "again": again}) + b"\n")
        with suppress(ConnectionError):
            await process.stdin.drain()
        return process

    async def _until(self, process: asyncio.subprocess.Process, changes: asyncio.Future[list[str]]) -> None:
        """Until a file changes or a signal comes; a process that ended on its own is told of, and is not the end."""
        stop, ended = asyncio.ensure_future(self._stop.wait()), asyncio.ensure_future(process.wait())
        enough: list[asyncio.Future[Any]] = [stop, changes]
        try:
            await asyncio.wait([*enough, ended], return_when=asyncio.FIRST_COMPLETED)
            if not stop.done() and not changes.done():
                wrong = "it does not run like this" if ended.result() == Exit.USAGE else f"it ended ({ended.result()})"
                say(f"{wrong}: the next edit starts it again, Ctrl-C ends")
                await asyncio.wait(enough, return_when=asyncio.FIRST_COMPLETED)
            if not stop.done():
                say(f"{', '.join(changes.result())} changed: starting again")
        finally:
            stop.cancel()
            ended.cancel()

    async def _changes(self) -> list[str]:
        """Names of files that changed. Which folders are looked at is known better once the process has loaded."""
        while True:
            folders = self._folders()
            # Each folder without what is below it: data, environments and caches change all the time.
            async for found in awatch(*folders, self._folder, recursive=False, watch_filter=self._concerns):
                names = sorted({Path(path).name for _, path in found})
                if names != [FILES]:
                    return [name for name in names if name != FILES]
                if self._folders() != folders:
                    break

    def _folders(self) -> set[Path]:
        """Of the pipeline, its settings and its modules."""
        files = [Path(self._call.pipeline), *([Path(self._call.config)] if self._call.config else [])]
        return {path.parent for path in (*files, *map(Path, self._sources())) if path.parent.is_dir()}

    def _sources(self) -> Iterable[str]:
        try:
            return list(orjson.loads((self._folder / FILES).read_bytes()))
        except (OSError, ValueError):
            return ()

    def _concerns(self, _: Change, path: str) -> bool:
        changed = Path(path)
        ours = changed == self._folder / FILES
        return ours or (changed.suffix in SUFFIXES and not changed.name.startswith("."))


async def _end(process: asyncio.subprocess.Process) -> None:
    """By SIGTERM, whatever came here: one that is still starting ends by it without a word."""
    with suppress(ProcessLookupError):
        process.terminate()
        try:
            async with asyncio.timeout(STOP_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

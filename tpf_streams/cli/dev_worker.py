"""The process behind `tpf-streams dev`: one run of the pipeline as its files are now."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import orjson
import typer

import tpf_streams
from tpf_streams.cli.console import say, told
from tpf_streams.cli.guide import guide
from tpf_streams.cli.logs import LogKind
from tpf_streams.cli.main import carry_out
from tpf_streams.cli.options import load_to_run
from tpf_streams.cli.providers import Simulation, simulated_steps
from tpf_streams.cli.reloading import FILES, WorkerCall
from tpf_streams.cli.run import RunOptions, execute, exit_code
from tpf_streams.dsl.load import LoadedPipeline
from tpf_streams.runtime.advertised import url_of


def work() -> None:
    """Until it is stopped. Raises SystemExit."""
    call = WorkerCall(**orjson.loads(sys.stdin.readline()))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        with told():
            _run(call)
    except typer.Exit as left:
        sys.exit(left.exit_code)


def _run(call: WorkerCall) -> None:
    folder, pipeline = Path(call.folder), Path(call.pipeline)
    config = None if call.config is None else Path(call.config)
    try:
        loaded = load_to_run(pipeline, config, call.overrides)
    finally:
        _note_sources(folder)
    provider = _provider(call, loaded)
    options = RunOptions(
        pipeline,
        call.inputs,
        None if loaded.publish is None else folder / "out",
        folder / "data",
        provider,
        config,
        call.overrides,
        park=False,
        http_at=(call.host, call.port),
    )
    if not call.again:
        for line in guide(loaded, url_of(call.host, call.port, call.host), folder / "data", simulated=bool(provider)):
            say(line)
    result, stopped = execute(options, LogKind.LOCAL, loaded)
    raise typer.Exit(exit_code(result, stopped, strict=False))


def _provider(call: WorkerCall, loaded: LoadedPipeline) -> str | None:
    """Answers, where there is something to answer and somebody who knows how."""
    if call.provider is None or not simulated_steps(loaded.definition):
        return None
    try:
        Simulation.of(loaded.definition)
    except ValueError as error:
        say(f"note: {error}: kafka requests wait for answers by hand")
        return None
    return call.provider


def _note_sources(folder: Path) -> None:
    """Files of the modules that are neither Python's, nor installed, nor ours. What broke a load may have stopped it
    before some of them, so those of the last one are kept."""
    file = folder / FILES
    others = (sys.prefix, sys.base_prefix, sys.exec_prefix, str(Path(tpf_streams.__file__).parent))
    loaded = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    found = {path for path in loaded if path and not path.startswith(tuple(f"{it}{os.sep}" for it in others))}
    known = set(orjson.loads(file.read_bytes())) if file.exists() else set()
    if not found <= known:
        part = file.with_suffix(".part")
        part.write_bytes(orjson.dumps(sorted(found | known)))
        part.replace(file)


def _end_with_parent() -> None:
    """Whatever ended it, the pipe closes. Not by sys.stdin: a thread inside it breaks the end of the interpreter."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    carry_out(work)

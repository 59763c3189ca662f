"""`tpf-streams dev`: a pipeline on an embedded log with everything beside it, started again whenever a file changes."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import signal
import socket
from pathlib import Path
from typing import Annotated

import typer

import tpf_streams
from tpf_streams.cli.console import Exit, fail, say, told
from tpf_streams.cli.options import Config, Overrides, overrides_of, pipeline_file
from tpf_streams.cli.reloading import Reloading, WorkerCall
from tpf_streams.cli.serving import LOOPBACK
from tpf_streams.logs.local.directory import DataDirectory

SAMPLE = Path("topologies/restaurant_approval/pipeline.yaml")
ROOT = Path(".tpf-dev")
SECRET_FILE = "resume-token.secret"
SECRET_VARIABLE = "PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET"
OFF = "off"


def dev(
    pipeline: Annotated[
        Path | None,
        typer.Argument(
            metavar="PIPELINE",
            parser=pipeline_file,
            help="The pipeline.yaml, or the name of a folder of topologies; default: restaurant-approval.",
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="For HTTP and the pages; 0: any free one.")] = 8080,
    host: Annotated[str, typer.Option(help="Where it listens; other machines reach any but the default.")] = LOOPBACK,
    inputs: Annotated[
        list[Path] | None, typer.Option("--input", exists=True, help="A file or a folder; give it again for more.")
    ] = None,
    simulate_provider: Annotated[
        str, typer.Option(metavar="SPEC", help="How kafka requests are answered, as in run; off: by hand.")
    ] = "delay-ms=100",
    data_dir: Annotated[
        Path | None, typer.Option(file_okay=False, help="Where everything lies; default: .tpf-dev/NAME.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin with nothing: delete what earlier ones left.")] = False,
    config: Config = None,
    overrides: Overrides = None,
) -> None:
    """Run a pipeline for development: embedded log, simulated providers, HTTP and pages on one port, until Ctrl-C.

    It starts again when the pipeline, its settings or its Python modules change. An edit that does not hold is told as
    validate tells it, and the next one is waited for. What is stored survives a restart, and the next dev goes on.

    A secret for resume tokens is made in its folder, for development only.

    [bold]Examples[/bold]

        tpf-streams dev

        tpf-streams dev pipeline.yaml --port 9000 --fresh

        tpf-streams dev csv-payments --input topologies/csv_payments/data/payments_12.csv
    """
    given = overrides_of(overrides)
    found = (_sample() if pipeline is None else pipeline).absolute()
    folder = (data_dir or ROOT / _name(found)).absolute()
    with told():
        _prepare(folder, fresh=fresh, ours=data_dir is None)
        call = WorkerCall(
            pipeline=str(found),
            folder=str(folder),
            host=host,
            port=_free_port(host, port),
            provider=None if simulate_provider == OFF else simulate_provider,
            config=None if config is None else str(config.absolute()),
            overrides=given,
            inputs=[str(path.absolute()) for path in inputs or ()],
        )
        say(f"{found}; what it keeps is in {folder}")
        stopped = asyncio.run(Reloading(call, _environment(folder)).run())
    raise typer.Exit(Exit.INTERRUPTED if stopped is signal.SIGINT else Exit.TERMINATED)


def _sample() -> Path:
    """That of the working directory, or of the checkout that this package is installed from."""
    roots = (Path(), Path(tpf_streams.__file__).parents[1])
    found = next((root / SAMPLE for root in roots if (root / SAMPLE).is_file()), None)
    if found is None:
        fail("name a pipeline.yaml: the sample comes with the source of tpf_streams, not with the package", Exit.USAGE)
    return found


def _name(pipeline: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", pipeline.parent.name).strip("-") or "pipeline"


def _prepare(folder: Path, *, fresh: bool, ours: bool) -> None:
    """Nobody else reads it, and no repository takes it in. Raises LogOwnedError, OSError."""
    if fresh and folder.exists():
        if any(folder.iterdir()) and not (folder / SECRET_FILE).exists():
            fail(f"--fresh: {folder} was not made by tpf-streams dev, and is not deleted", Exit.USAGE)
        if (folder / "data").exists():
            DataDirectory(folder / "data").release()  # one that runs there keeps its files
        shutil.rmtree(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if ours:
        (folder.parent / ".gitignore").write_text("*\n")


def _environment(folder: Path) -> dict[str, str]:
    """With a secret, unless there is one. Without compiled modules: two edits within one second look alike to them."""
    found = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    if not found.get(SECRET_VARIABLE, "").strip():
        found[SECRET_VARIABLE] = _secret(folder / SECRET_FILE)
    return found


def _secret(file: Path) -> str:
    """The same at every start: tokens that are out were signed with it. Raises OSError."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return file.read_text()
    secret = secrets.token_urlsafe(32)
    with os.fdopen(descriptor, "w") as out:
        out.write(secret)
    return secret


def _free_port(host: str, port: int) -> int:
    """The one that is wanted, or any that every restart can have again."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            fail(f"--port: {host}:{port} cannot be had ({error.strerror}): choose another, or 0 for any", Exit.USAGE)
        return int(trial.getsockname()[1])

"""`tpf-streams`: the commands, put together."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, NoReturn

import typer

from tpf_streams.cli.cancel import cancel
from tpf_streams.cli.complete import complete
from tpf_streams.cli.console import INTERNAL, Exit, JsonAwareCommand, log_to_stderr, refuse
from tpf_streams.cli.describe import describe
from tpf_streams.cli.dev import dev
from tpf_streams.cli.pending import pending
from tpf_streams.cli.provider import provider
from tpf_streams.cli.redrive import redrive
from tpf_streams.cli.replay import replay
from tpf_streams.cli.run import STEP_THREADS, run
from tpf_streams.cli.schema import schema
from tpf_streams.cli.show import show
from tpf_streams.cli.status import status
from tpf_streams.cli.submit import submit
from tpf_streams.cli.validate import validate

TRACEBACK = "TPF_STREAMS_TRACEBACK"
"""A traceback may end in words that hold a payload: it is shown on demand only."""

app = typer.Typer(
    help="Durable pipelines with await boundaries: a request goes out, and the same execution goes on when its answer "
    "comes, exactly once, whatever crashes in between.",
    epilog="Exit codes: 0 done · 1 an execution FAILED, a completion was refused, or the log failed · 2 invalid "
    "pipeline, setting or call, or a data directory in use · 3 rejected rows with --strict · 130 interrupted · "
    "143 terminated.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    validate, run, dev, submit, status, show, pending, complete, redrive, cancel, replay, describe, provider, schema
)  # fmt: skip
for command in COMMANDS:
    app.command(cls=JsonAwareCommand)(command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tpf-streams {version('tpf_streams')}")
        raise typer.Exit(Exit.OK)


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """What stands before every command."""


def main() -> None:
    """The console script."""
    carry_out(app)


def carry_out(work: Callable[[], object]) -> None:
    """Do `work`, and end the process as it ended. Raises SystemExit."""
    log_to_stderr()
    try:
        work()
    except SystemExit as left:
        leave(left.code if isinstance(left.code, int) else Exit.OK)
    except KeyboardInterrupt:
        # Before a run has handlers of its own, or after its second Ctrl-C: what is stored is stored.
        leave(Exit.INTERRUPTED)
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} in {where.filename}:{where.lineno}"
        message = f"internal error, {place}; {TRACEBACK}=1 shows the traceback"
        typer.echo(f"tpf-streams: {message}", err=True)
        refuse(INTERNAL, message, Exit.FAILED)
        leave(Exit.FAILED)


def leave(code: int) -> NoReturn:
    """End the process with all that was written. A step that still runs in a thread is not waited for: it is owed, and
    the next run does it again."""
    if any(thread.name.startswith(STEP_THREADS) for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
    sys.exit(code)

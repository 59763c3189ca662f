"""`tpf-streams`: the commands, put together."""

from __future__ import annotations

import sys

import typer

from tpf_streams.cli.complete import complete
from tpf_streams.cli.console import Exit, log_to_stderr
from tpf_streams.cli.describe import describe
from tpf_streams.cli.pending import pending
from tpf_streams.cli.run import run
from tpf_streams.cli.status import status
from tpf_streams.cli.validate import validate

app = typer.Typer(
    help="Durable pipelines with await boundaries: a request goes out, and the same execution goes on when its answer "
    "comes, exactly once, whatever crashes in between.",
    epilog="Exit codes: 0 done · 1 an execution FAILED, a completion was refused, or the log failed · 2 invalid "
    "pipeline, setting or call, or a data directory in use · 3 rejected rows with --strict · 130 interrupted · "
    "143 terminated.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (validate, run, status, pending, complete, describe):
    app.command()(command)


def main() -> None:
    """The console script."""
    try:
        log_to_stderr()
        app()
    except KeyboardInterrupt:
        # Before a run has handlers of its own, or after its second Ctrl-C: what is stored is stored.
        sys.exit(Exit.INTERRUPTED)

"""Where the commands write: results to stdout, everything else to stderr; and how they end."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, NoReturn

import orjson
import typer
from rich.console import Console

from tpf_streams.errors import DefinitionError, LogMismatchError, LogOwnedError, TpfError

out = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
err = Console(stderr=True, highlight=False)


class Exit(IntEnum):
    """Exit codes."""

    OK = 0
    FAILED = 1
    """An execution FAILED, a completion was refused, or the log failed: corrupt journal, full disk."""
    USAGE = 2
    """Invalid pipeline, setting or call, or a data directory that belongs to somebody else: nothing was done."""
    REJECTED_ROWS = 3
    INTERRUPTED = 130
    TERMINATED = 143


def fail(message: str, code: Exit) -> NoReturn:
    """Say what is wrong, unwrapped and without markup, and leave."""
    typer.echo(f"tpf-streams: {message}", err=True)
    raise typer.Exit(code)


def say(message: str) -> None:
    """A line for the person at the terminal."""
    err.print(message, markup=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """One JSON object, on one line, to stdout."""
    sys.stdout.write(orjson.dumps(value).decode() + "\n")
    sys.stdout.flush()


@contextmanager
def told() -> Iterator[None]:
    """Errors that have words of their own become these words and an exit code."""
    try:
        yield
    except DefinitionError as error:
        for problem in error.problems:
            typer.echo(str(problem), err=True)
        raise typer.Exit(Exit.USAGE) from None
    except (LogOwnedError, LogMismatchError) as error:
        fail(str(error), Exit.USAGE)
    except TpfError as error:
        fail(str(error), Exit.FAILED)
    except OSError as error:
        fail(f"{error.filename or 'input or output'}: {error.strerror or error}", Exit.FAILED)


class TerseFormatter(logging.Formatter):
    """One line a record. Of an exception only its type, and its words where they are ours: a traceback, or what a step
    raised, may hold a payload, and its place is the record of the execution."""

    def format(self, record: logging.LogRecord) -> str:
        words, _, _ = record.getMessage().partition("\n")
        line = f"{record.levelname.lower()}: {words}"
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return line
        ours = isinstance(error, TpfError) and error.code.startswith(("LOG", "TASK"))
        return f"{line} ({type(error).__name__}{f': {error}' if ours else ''})"


class ConsoleHandler(logging.Handler):
    """Through the console, so that a line never breaks a progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            err.print(self.format(record), markup=False, soft_wrap=True, style="yellow")
        except Exception:
            self.handleError(record)


def log_to_stderr() -> None:
    """Warnings and errors of every library, one line each."""
    handler = ConsoleHandler(logging.WARNING)
    handler.setFormatter(TerseFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)

"""Where the commands write: results to stdout, everything else to stderr; and how they end."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from enum import IntEnum
from typing import Any, NoReturn

import orjson
import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperCommand

from tpf_streams.errors import DefinitionError, LogMismatchError, LogOwnedError, Problem, TpfError

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


IO = "IO"
INTERNAL = "INTERNAL_ERROR"
_json_wanted = ContextVar("json_wanted", default=False)


class JsonAwareCommand(TyperCommand):
    """A command that leaves one JSON object on stdout however it ends, where --json was given: also when the call
    itself is wrong, which nobody but its parser learns."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        _json_wanted.set("--json" in args)
        try:
            return super().make_context(info_name, args, parent, **extra)
        except Exception as error:
            words = getattr(error, "format_message", None)  # of a wrong call; --help leaves by an exception without it
            if words is not None:
                refuse(Exit.USAGE.name, words(), Exit.USAGE)
            raise


def refuse(code: str, message: str, leave: Exit, problems: list[Problem] | None = None) -> None:
    """Where --json was given, say on stdout what stands against the call. `code`: as `TpfError.code`, USAGE for a call
    that cannot be, IO for a file that cannot be used."""
    if _json_wanted.get():
        error: dict[str, Any] = {"code": code, "message": message, "exitCode": int(leave)}
        if problems is not None:
            error["problems"] = [asdict(problem) for problem in problems]
        print_json({"error": error})


def fail(message: str, leave: Exit, code: str | None = None) -> NoReturn:
    """Say what is wrong, unwrapped and without markup, and leave. `code`: default, the name of the exit code."""
    typer.echo(f"tpf-streams: {message}", err=True)
    refuse(code or leave.name, message, leave)
    raise typer.Exit(leave)


def cell(text: str) -> str:
    """A text of somebody else in a table: brackets are no markup."""
    return escape(text)


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
        refuse(error.code, str(error), Exit.USAGE, error.problems)
        raise typer.Exit(Exit.USAGE) from None
    except (LogOwnedError, LogMismatchError) as error:
        fail(str(error), Exit.USAGE, error.code)
    except TpfError as error:
        fail(str(error), Exit.FAILED, error.code)
    except OSError as error:
        fail(f"{error.filename or 'input or output'}: {error.strerror or error}", Exit.FAILED, IO)


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

"""Where messages go, what they may hold, and which exit code an error is."""

from __future__ import annotations

import logging

import pytest
import typer

from tpf_streams.cli.console import Exit, TerseFormatter, told
from tpf_streams.errors import (
    DefinitionError,
    LogCorruptError,
    LogFailedError,
    LogMismatchError,
    LogOwnedError,
    PayloadError,
    Problem,
)


def record(error: BaseException | None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord("tpf", logging.WARNING, __file__, 1, "partition %d lost its turn", (3,), info)


def test_a_line_says_its_level_and_its_words():
    assert TerseFormatter().format(record(None)) == "warning: partition 3 lost its turn"


def test_of_an_exception_only_the_type_is_told():
    """Its words may hold a payload, and its place is the record of the execution."""
    line = TerseFormatter().format(record(PayloadError("card 4111 1111 1111 1111")))
    assert line == "warning: partition 3 lost its turn (PayloadError)"


def test_the_words_of_the_log_are_told():
    line = TerseFormatter().format(record(LogFailedError("no space left")))
    assert line == "warning: partition 3 lost its turn (LogFailedError: no space left)"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DefinitionError([Problem("p.yaml", 3, "steps", "wrong")]), Exit.USAGE),
        (LogOwnedError("in use"), Exit.USAGE),
        (LogMismatchError("of another"), Exit.USAGE),
        (LogCorruptError("damaged"), Exit.FAILED),
        (LogFailedError("full"), Exit.FAILED),
        (OSError(28, "No space left on device", "data"), Exit.FAILED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_an_error_becomes_words_and_a_code(capsys, error, code):
    with pytest.raises(typer.Exit) as left, told():
        raise error
    assert left.value.exit_code == code
    words = {"DefinitionError": "p.yaml:3: steps: wrong", "OSError": "No space left"}.get(
        type(error).__name__, str(error)
    )
    shown = capsys.readouterr()
    assert words in shown.err
    assert shown.out == ""


def test_an_error_of_ours_stays_an_error():
    with pytest.raises(ZeroDivisionError), told():
        raise ZeroDivisionError

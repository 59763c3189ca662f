"""When outside work is tried again, and when trying again cannot help."""

from __future__ import annotations

import pytest

from tpf_streams.engine.retry import RetryPolicy, is_terminal
from tpf_streams.errors import PayloadError, RetryableError, TerminalError


def raised(error: BaseException, *, cause: BaseException | None = None) -> BaseException:
    error.__cause__ = cause
    return error


ITSELF = ValueError("a cause of itself")
ITSELF.__cause__ = ITSELF


def while_handling() -> BaseException:
    try:
        try:
            raise TerminalError("first")
        except TerminalError:
            raise OSError("second")  # noqa: B904
    except OSError as error:
        return error


@pytest.mark.parametrize(
    ("error", "terminal"),
    [
        (TerminalError("no"), True),
        (PayloadError("no"), True),
        (raised(ValueError("shown"), cause=TerminalError("no")), True),
        (raised(ValueError("a"), cause=raised(KeyError("b"), cause=TerminalError("no"))), True),
        (ExceptionGroup("several", [OSError("x"), ExceptionGroup("more", [TerminalError("no")])]), True),
        (ITSELF, False),
        (while_handling(), False),
        (RetryableError("later"), False),
        (ValueError("x"), False),
        (raised(ValueError("shown"), cause=OSError("x")), False),
    ],
)
def test_the_cause_graph_decides(error, terminal):
    """Contract section 14: not retryable where a NonRetryable is anywhere among the causes."""
    assert is_terminal(error) is terminal
    assert (RetryPolicy(limit=5).pause_s(1, error) is None) is terminal


def test_jitter_spreads_the_pauses_below_their_bound():
    policy = RetryPolicy(limit=100, wait_ms=1_000, max_backoff_ms=8_000, jitter=True)
    pauses = {policy.pause_s(5, OSError()) for _ in range(50)}
    assert len(pauses) > 10
    assert all(pause is not None and 4.0 <= pause <= 8.0 for pause in pauses)

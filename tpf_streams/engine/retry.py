"""How often, and after what pause, outside work is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import uniform

from tpf_streams.errors import TerminalError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`limit`: tries after the first. The n-th pause is `wait_ms * 2**(n-1)`, at most `max_backoff_ms`.

    `jitter` takes up to half of a pause away, by chance, so that what failed together does not come back together.
    """

    limit: int = 3
    wait_ms: int = 500
    max_backoff_ms: int = 30_000
    jitter: bool = False
    retried: Callable[[], None] = lambda: None
    """Called for each pause."""

    def pause_s(self, attempt: int, error: BaseException) -> float | None:
        """Seconds to wait after try number `attempt` (from 1) failed with `error`; None: it ends here."""
        if is_terminal(error) or attempt > self.limit:
            return None
        self.retried()
        pause = float(min(self.wait_ms * 2 ** (attempt - 1), self.max_backoff_ms)) / 1000
        return pause * uniform(0.5, 1.0) if self.jitter else pause


def is_terminal(error: BaseException) -> bool:
    """Whether trying again cannot help: a TerminalError, raised or declared as a cause (contract section 14).

    `raise Shown(...) from refused` keeps what `refused` was; an error that merely came while another was handled does
    not. An error of a group counts too.
    """
    return any(isinstance(it, TerminalError) for it in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        current = waiting.pop()
        if id(current) in seen:  # a cause may, by hand, be its own
            continue
        seen.add(id(current))
        yield current
        if current.__cause__ is not None:
            waiting.append(current.__cause__)
        if isinstance(current, BaseExceptionGroup):
            waiting.extend(current.exceptions)


def is_control(error: BaseException) -> bool:
    """Whether the work itself is to stop: it was cancelled, or somebody interrupts the process.

    A step may meet the cancellation of something else that it waits for. That is a failure like any other: taken for
    ours, the work would end without a word, and its item would wait for ever. So is a `sys.exit(0)` of some library:
    the process would end in the middle as if all had succeeded.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt)


def code_of(error: BaseException) -> str:
    """The stable name of a failure: its own code, else its class. Other libraries' codes are numbers, or methods, or
    raise when they are asked: then their step would fail, and its task with it, again and again."""
    try:
        code = getattr(error, "code", None)
    except Exception:
        code = None
    return code if isinstance(code, str) and code else type(error).__name__


def message_of(error: BaseException) -> str:
    """What a failure says, else its class; never raises, whatever a user's exception does when it is asked."""
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__

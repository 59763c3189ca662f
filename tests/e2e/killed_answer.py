"""`tpf-streams` that dies between a decision and its answer: the outcome holds, and whoever asked never hears of it."""

from __future__ import annotations

import os
import signal

from tpf_streams.cli.main import main
from tpf_streams.core.outcome import Outcome
from tpf_streams.engine.answers import Answers

_resolve = Answers.resolve


def resolve(self: Answers, origin: str, outcome: str) -> None:
    """Called behind the commit that made the outcome true."""
    if outcome == Outcome.ADMITTED:
        os.kill(os.getpid(), signal.SIGKILL)
    _resolve(self, origin, outcome)


if __name__ == "__main__":
    Answers.resolve = resolve  # type: ignore[method-assign]
    main()

"""Between the engine and the log: every commit passes here, is audited when it holds, and may be lost from sight."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol

from tests.simulation.shadow import Violation
from tpf_streams.ports import Turn
from tpf_streams.testing.faults import CommitUnknownError, FaultPlan


class TurnChecker(Protocol):
    """Sees every turn that holds; raises Violation."""

    def committed(self, partition: int, turn: Turn) -> None: ...


class Gate:
    """`CommitFaults` of the simulated log."""

    def __init__(
        self,
        plan: FaultPlan,
        struck: Callable[[CommitUnknownError, Turn], None],
        trace: Callable[[str], None],
    ) -> None:
        self.auditor: TurnChecker | None = None
        self.violation: Violation | None = None
        """Kept, because whoever commits may swallow what is raised here."""
        self._plan = plan
        self._struck = struck
        self._trace = trace

    def before(self, partition: int, turn: Turn) -> None:
        try:
            self._plan.before(partition, turn)
        except CommitUnknownError as error:
            self._trace(f"p{partition} not held {_digest(turn)}")
            self._struck(error, turn)
            raise

    def after(self, partition: int, turn: Turn) -> None:
        self._trace(f"p{partition} held {_digest(turn)}")
        assert self.auditor is not None
        try:
            self.auditor.committed(partition, turn)
        except Violation as violation:
            self.violation = self.violation or violation
            raise
        try:
            self._plan.after(partition, turn)
        except CommitUnknownError as error:
            self._struck(error, turn)
            raise


def _digest(turn: Turn) -> str:
    digest = hashlib.sha256()
    for key, value in turn.rows.items():
        digest.update(key + b"=" + (value or b""))
    for record in turn.records:
        digest.update(record.topic.encode() + (record.key or b"") + (record.value or b""))
    return f"{len(turn.rows)} rows, {len(turn.records)} records {digest.hexdigest()[:12]}"

"""What a run learns of executions in partitions that other workers of its application have."""

from __future__ import annotations

from collections.abc import Mapping

from tpf_streams.core.execution import ExecutionRecord
from tpf_streams.core.rows import decode, execution_of, is_execution, tells_of_execution
from tpf_streams.logs.kafka import KafkaLog
from tpf_streams.runtime.run_tally import RunTally


class Elsewhere:
    """Facts stay with the worker that made them true, so the end of such an execution is seen by its row."""

    def __init__(self, log: KafkaLog, tally: RunTally) -> None:
        self._log = log
        self._tally = tally

    async def open(self) -> None:
        """Return when the executions of now can be seen. Raises LogError."""
        await self._log.follow(tells_of_execution, self._moved)

    async def known(self) -> None:
        """Return when what can be seen is as of now. Raises LogError."""
        await self._log.known()

    def _moved(self, rows: Mapping[bytes, bytes | None]) -> None:
        for key, value in rows.items():
            if value is None or not is_execution(key) or execution_of(key) not in self._tally.following:
                continue
            if decode(ExecutionRecord, value).status.terminal:
                self._tally.ended(execution_of(key))

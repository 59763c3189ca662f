"""`faust … worker` that notes when its commits returned: `-m tests.benchmarks.kafka.noted_worker NOTES ARGUMENTS`.

A note is (partition of events, position behind the turn, epoch seconds); the other side knows which answer lies where.
Costs a clock reading and an append a turn.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import orjson
from faust.cli.faust import cli

from tpf_streams.logs.kafka.task import KafkaTaskLog
from tpf_streams.ports import Turn

notes: list[tuple[int, int, float]] = []
_commit = KafkaTaskLog.commit


async def _noted(self: KafkaTaskLog, turn: Turn) -> None:
    await _commit(self, turn)
    position = max(turn.positions.values(), default=0)
    notes.append((self.partition, position, time.time()))


def main() -> None:
    target = Path(sys.argv[1])
    KafkaTaskLog.commit = _noted  # type: ignore[method-assign]
    sys.argv[1:] = sys.argv[2:]
    try:
        cli()
    finally:
        target.write_bytes(orjson.dumps(notes))


if __name__ == "__main__":
    main()

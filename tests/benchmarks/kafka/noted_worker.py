"""`faust … worker` that notes when its commits returned: `-m tests.benchmarks.kafka.noted_worker NOTES ARGUMENTS`.

A note is (partition of events, position behind the turn, records in it, epoch seconds when its commit began, and when
it returned); the other side knows which answer lies where. Costs two clock readings and an append a turn.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import orjson
from faust.cli.faust import cli

from tpf_streams.logs.kafka.task import KafkaTaskLog
from tpf_streams.ports import Turn

notes: list[tuple[int, int, int, float, float]] = []
_commit = KafkaTaskLog.commit


async def _noted(self: KafkaTaskLog, turn: Turn) -> None:
    began_s = time.time()
    await _commit(self, turn)
    notes.append((self.partition, max(turn.positions.values(), default=0), len(turn.records), began_s, time.time()))


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

"""A store under a stream of short executions: `python -m tests.benchmarks.retention`. Ends with 1 unless it stays flat.

Executions of one await step are submitted, answered and done on the local log; a clock by hand lets each be kept, and
then remembered, for as long as a few thousand others take. So rows must stand still once the first are forgotten, and
the bytes on disk within what compaction leaves for later.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from tests.benchmarks.payments import ROOT
from tests.unit.engine.shell import Shell
from tpf_streams.core.events import ExecutionSubmitted
from tpf_streams.engine.environment import NoObserver
from tpf_streams.engine.task import Task
from tpf_streams.engine.wire import encode_submission, events_topic
from tpf_streams.logs.local import LocalLog
from tpf_streams.ports import Record
from tpf_streams.stores.rocksdb import RocksDbStateStore
from tpf_streams.testing.clock import ManualClock

BATCH = 200
BATCH_MS = 1_000
ROWS_WITHIN, BYTES_WITHIN = 1.02, 2.0
"""How much more there may be at the end than when the first were forgotten."""


class Stream:
    """One partition on a local log whose consumers keep up."""

    def __init__(self, directory: Path, kept: int, remembered: int) -> None:
        self.directory = directory
        self.clock = ManualClock()
        self.log = LocalLog.open(
            directory, RocksDbStateStore, application_id="pay", partitions=1, sync="interval", clock=self.clock
        )
        ttl_ms = kept // BATCH * BATCH_MS
        self.shell = Shell(
            "k",
            log=cast("Any", self.log),
            execution_ttl_ms=ttl_ms,
            identity_ttl_ms=remembered // BATCH * BATCH_MS,
            max_concurrency=1024,
        )
        self.shell.env.observer, self.shell.env.lifecycle = NoObserver(), False
        self.shell.task = Task(0, self.shell.env)

    async def open(self) -> None:
        await self.shell.open()
        self.reader = await self.log.open_reader("reader", ["requests", "pay-outputs"])

    async def batch(self, first: int) -> None:
        shell = self.shell
        parts = [
            encode_submission(ExecutionSubmitted("tenant-1", f"order:{number}", {"amount": "12.50", "n": number}))
            for number in range(first, first + BATCH)
        ]
        await self.log.append([Record(events_topic("pay"), *each, 0) for each in parts])
        await self._turns()
        for row in shell.open_interactions():
            await shell.answer(row)
        await self._turns()
        while await self.reader.poll(10_000):
            await self.reader.commit()
        for clock in (shell.clock, self.clock):
            clock.advance(BATCH_MS)

    async def _turns(self) -> None:
        quiet = 0
        while quiet < 3:
            quiet = 0 if await self.shell.task.turn() else quiet + 1
            await asyncio.sleep(0)

    def rows(self) -> Counter[str]:
        return Counter(key[2:3].decode() for key, _ in self.log.store(0).scan(b"", b"\xff" * 64))

    def disk_bytes(self) -> int:
        return sum(file.stat().st_size for file in self.directory.rglob("*") if file.is_file())

    async def close(self) -> None:
        await self.shell.task.close()
        await self.log.close()


async def run(directory: Path, given: argparse.Namespace) -> list[dict[str, Any]]:
    stream, points = Stream(directory, given.kept, given.remembered), []
    await stream.open()
    began, before = time.perf_counter(), 0
    every = max(given.executions // given.points // BATCH, 1) * BATCH
    for first in range(0, given.executions, BATCH):
        await stream.batch(first)
        done = first + BATCH
        if done % every == 0 or done >= given.executions:
            points.append(_point(stream, done, (done - before) / (time.perf_counter() - began)))
            began, before = time.perf_counter(), done
    await stream.close()
    return points


def _point(stream: Stream, done: int, rate: float) -> dict[str, Any]:
    rows = stream.rows()
    found = {
        "executions": done,
        "rate": round(rate),
        "rows": sum(rows.values()),
        "kept": rows["e"],
        "remembered": rows["x"],
        "bytes": stream.disk_bytes(),
    }
    print(
        f"{done:9,} executions, {rate:6,.0f} a second: {found['rows']:9,} rows, {rows['e']:7,} executions kept,"
        f" {rows['x']:7,} keys remembered, {found['bytes'] / 2**20:6.1f} MiB on disk",
        flush=True,
    )
    return found


def flat(points: list[dict[str, Any]], full: int) -> bool:
    """Whether nothing grows any more once `full` executions were done. Bytes go up and down with compaction: the most
    of the first half is held against the most of the second."""
    steady = [point for point in points if point["executions"] > full]
    half = len(steady) // 2
    if not half:
        raise SystemExit("too few executions: none has been forgotten; take more, or keep fewer")
    rows = [point["rows"] for point in steady]
    before, after = [point["bytes"] for point in steady[:half]], [point["bytes"] for point in steady[half:]]
    return bool(max(rows) <= min(rows) * ROWS_WITHIN and max(after) <= max(before) * BYTES_WITHIN)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.retention", description=__doc__)
    parser.add_argument("--executions", type=int, default=200_000)
    parser.add_argument("--kept", type=int, default=5_000, help="how many others an ended execution is kept for")
    parser.add_argument("--remembered", type=int, default=20_000, help="and then its key")
    parser.add_argument("--points", type=int, default=20, help="how often it is looked at")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--dir", type=Path, default=ROOT / ".cache", help="where data goes")
    given = parser.parse_args()
    given.dir.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="tpf-retention-", dir=given.dir) as name:
        points = asyncio.run(run(Path(name), given))
    if given.json:
        given.json.write_text(json.dumps(points, indent=2) + "\n")
    held = flat(points, given.kept + given.remembered + BATCH)
    print("the store stays flat" if held else "the store grows")
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()

"""The bare loop: the reads, writes and syncs of a run in the same turns and in the same window, and no logic.

An upper bound for what this disk, this store and Python could do with the work that our run asks for. It is told that
work by a file (`work.py`) and does it in four stages: request → answer → completion → output. Each stage makes its
record from the stored bytes of the record before; everything else in a batch is filling of the right size. One thread,
no asyncio, no JSON, no ids, no checks.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

from tests.benchmarks.measure import Stopwatch, peak_bytes
from tests.benchmarks.payments import WINDOW
from tests.benchmarks.report import latency_summary
from tests.benchmarks.work import STAGE_RECORDS, CountingStore, Stage, Work
from tpf_streams.stores.rocksdb import RocksDbStateStore

FILLING = random.Random(7).randbytes(8192).hex().encode()
"""Text that compresses about as badly as tokens and ids do."""
IN_ORDER = ("row o", "row w", "record")
"""Kinds whose keys rise; the others are keyed by ids, which are as good as random."""
OUTPUT_LINE_BYTES = 180

Item: TypeAlias = tuple[int, bytes]
Rows: TypeAlias = dict[bytes, bytes | None]
_NUMBER = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Entry:
    """What a stage writes for each of its items. `value_bytes` None deletes; `carries`: the record of the stage."""

    prefix: bytes
    in_order: bool
    value_bytes: int | None
    carries: bool


class StageFiller:
    """Makes the batches of one stage, by the means of what ours wrote in it."""

    def __init__(self, name: str, stage: Stage, prefixes: dict[str, bytes], ids: bytes) -> None:
        self.items_max = round(stage.items / stage.batches)
        self._ids = ids
        self._entries: list[Entry] = []
        self._once: Rows = {}
        for part_name, part in stage.parts.items():
            kind, put = part_name[:-1], part_name.endswith("+")
            prefix = prefixes.setdefault(kind, b"%03d" % len(prefixes))
            key_bytes = round(part.key_bytes / part.count)
            value_bytes = round(part.value_bytes / part.count) if put else None
            per_item = round(part.count / stage.items) if stage.items else 0
            if per_item:
                in_order = kind.startswith(IN_ORDER)
                padded = prefix.ljust(key_bytes - (_NUMBER.size if in_order else 16), b".")
                self._entries.append(Entry(padded, in_order, value_bytes, kind == STAGE_RECORDS[name]))
                continue
            for number in range(round(part.count / stage.batches)):
                key = (prefix + b"%d" % number).ljust(key_bytes, b".")
                self._once[key] = None if value_bytes is None else FILLING[:value_bytes]

    def batch(self, items: list[Item]) -> tuple[Rows, list[Item]]:
        """The rows of a batch, and the record of each item as it will be stored."""
        rows, records = dict(self._once), []
        for number, stored in items:
            tail, ident, at = _NUMBER.pack(number), self._ids[16 * number : 16 * number + 16], number % 4096
            for entry in self._entries:
                value = None
                if entry.carries:
                    value = (stored + FILLING[at:])[: entry.value_bytes]
                    records.append((number, value))
                elif entry.value_bytes is not None:
                    value = FILLING[at : at + entry.value_bytes]
                rows[entry.prefix + (tail if entry.in_order else ident)] = value
        return rows, records


class BareLoop:
    """One run over `rows` input lines. `waits_s`: from the write of an answer to the sync that settles it."""

    def __init__(self, store: RocksDbStateStore, work: Work, rows: int, ids: bytes) -> None:
        self.waits_s: list[float] = []
        self._store = store
        self._rows = rows
        self.prefixes: dict[str, bytes] = {}
        self._fillers = {name: StageFiller(name, it, self.prefixes, ids) for name, it in work.stages.items()}
        self._queues: dict[str, deque[Item]] = {name: deque() for name in STAGE_RECORDS}
        self._answered_s = [0.0] * rows
        self._settled = 0
        self._beside = self._work_beside(work)

    def run(self, lines: Iterator[bytes]) -> None:
        dispatched = 0
        requests = self._queues["dispatch"]
        while self._settled < self._rows:
            room = min(WINDOW - (dispatched - self._settled), self._rows - dispatched)
            requests.extend((dispatched + number, next(lines)) for number in range(room))
            dispatched += room
            self._drain("dispatch", "answer", sync=True)
            self._drain("answer", "forward")
            self._drain("forward", "settle")
            self._drain("settle", None, sync=True)
            self._do_beside()

    def _drain(self, stage: str, after: str | None, *, sync: bool = False) -> None:
        queue, filler = self._queues[stage], self._fillers[stage]
        while queue:
            items = [queue.popleft() for _ in range(min(len(queue), filler.items_max))]
            now_s = time.perf_counter()
            rows, records = filler.batch(items)
            self._store.write(rows)
            if sync:
                self._store.sync()
            if after is not None:
                self._queues[after].extend(records)
            if stage == "answer":
                for number, _ in items:
                    self._answered_s[number] = now_s
            elif stage == "settle":
                now_s = time.perf_counter()
                self.waits_s += [now_s - self._answered_s[number] for number, _ in items]
                self._settled += len(items)

    def _work_beside(self, work: Work) -> deque[tuple[int, Callable[[], object]]]:
        """What is done for no item in particular (markers, looks at the next deadline), spread evenly over the run."""
        other = work.stages.get("other", Stage())
        turns = sum(work.stages[name].batches for name in ("dispatch", "settle"))
        deleted = next((part[:-1] for part in work.stages["settle"].parts if part.endswith("-")), "row d")
        start = self.prefixes.setdefault(deleted, b"999")
        acts: list[tuple[int, Callable[[], object]]] = [
            (other.batches, lambda: self._store.write(self._fillers["other"].batch([])[0])),
            (work.syncs - turns, self._store.sync),
            (work.reads.get("keys", 0), lambda: self._store.get(start)),
            (work.reads.get("scans", 0) - 1, lambda: list(self._store.scan(start, start + b"\xff", 1))),
        ]
        due = [(self._rows * number // count, act) for count, act in acts for number in range(1, count + 1)]
        return deque(sorted(due, key=lambda it: it[0]))

    def _do_beside(self) -> None:
        while self._beside and self._beside[0][0] <= self._settled:
            self._beside.popleft()[1]()

    def publish(self, path: Path) -> int:
        """Every output row from the store to a file, durably, as ours are; their number."""
        prefix = self.prefixes["row o"]
        part, count = path.with_suffix(".part"), 0
        with part.open("wb") as file:
            for _, value in self._store.scan(prefix, prefix + b"\xff"):
                file.write(value[:OUTPUT_LINE_BYTES] + b"\n")
                count += 1
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        descriptor = os.open(path.parent, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
        return count


class CountingBareStore(CountingStore):
    """Tells records, rows and deletes apart by the prefixes that the loop gave them."""

    prefixes: dict[str, bytes]

    def part_name(self, key: bytes, value: bytes | None) -> str:
        kind = next(name for name, prefix in self.prefixes.items() if prefix == key[:3])
        return f"{kind}{'-' if value is None else '+'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input", type=Path)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--like", type=Path, required=True, help="the work of a run, as JSON")
    parser.add_argument("--work", type=Path, required=True, help="an empty folder")
    parser.add_argument("--count", action="store_true", help="count the work instead of timing it")
    given = parser.parse_args()
    work, ids = Work.load(given.like), random.Random(1).randbytes(16 * given.rows)
    watch = Stopwatch()
    store = (CountingBareStore if given.count else RocksDbStateStore)(given.work / "db")
    watch.start()
    loop = BareLoop(store, work, given.rows, ids)
    if isinstance(store, CountingBareStore):
        store.prefixes = loop.prefixes
    with given.input.open("rb") as lines:
        next(lines)
        loop.run(lines)
    published = loop.publish(given.work / "outputs")
    watch.stop()
    if published != given.rows:
        raise SystemExit(f"{published} outputs of {given.rows} rows")
    found = {"items": given.rows, "seconds": watch.seconds, "cpu_s": watch.cpu_s, "peak_bytes": peak_bytes()}
    counted = {"work": asdict(CountingStore.counted)} if given.count else {}
    print(json.dumps({**found, **counted, "latency_ms": latency_summary(loop.waits_s)}))
    store.close()


if __name__ == "__main__":
    main()

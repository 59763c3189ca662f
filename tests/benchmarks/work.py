"""How much a run asks of its store: counted once, so that the bare loop can do the same and the table can show it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from tests.benchmarks.noted import Listener
from tests.benchmarks.payments import REQUESTS, RESPONSES
from tpf_streams.engine.wire import EVENT_HEADER
from tpf_streams.logs.local import keys
from tpf_streams.ports import TopicPartition
from tpf_streams.stores.rocksdb import RocksDbStateStore

STAGE_RECORDS = {
    "dispatch": f"record {REQUESTS}",
    "answer": f"record {RESPONSES}",
    "forward": "record completion",
    "settle": "record output",
}
"""The stages of an item, each with the record that makes it one. A batch with none of them is `other`."""

_OTHER_KINDS = {keys.HEADER: "header", keys.TOPICS: "topic", keys.POSITIONS: "position"}
_OTHER_KINDS |= {keys.INCARNATIONS: "incarnation", keys.GROUPS: "group"}


@dataclass(slots=True)
class Part:
    """Puts or deletes of one kind, and their bytes."""

    count: int = 0
    key_bytes: int = 0
    value_bytes: int = 0


@dataclass(slots=True)
class Stage:
    """Batches of one stage and what is in them; a part's name is its kind with `+` or `-`."""

    batches: int = 0
    items: int = 0
    parts: dict[str, Part] = field(default_factory=dict)


@dataclass(slots=True)
class Work:
    """All that a run asked of its store."""

    stages: dict[str, Stage] = field(default_factory=dict)
    syncs: int = 0
    reads: dict[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Work:
        return cls.of(json.loads(path.read_text()))

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Work:
        stages = {
            name: Stage(it["batches"], it["items"], {part: Part(**counts) for part, counts in it["parts"].items()})
            for name, it in found["stages"].items()
        }
        return cls(stages, found["syncs"], dict(found["reads"]))

    def add(self, parts: Mapping[str, Part]) -> None:
        """Count one batch, in its stage."""
        name = next((name for name, record in STAGE_RECORDS.items() if f"{record}+" in parts), "other")
        stage = self.stages.setdefault(name, Stage())
        stage.batches += 1
        stage.items += parts[f"{STAGE_RECORDS[name]}+"].count if name in STAGE_RECORDS else 0
        for part_name, part in parts.items():
            total = stage.parts.setdefault(part_name, Part())
            total.count += part.count
            total.key_bytes += part.key_bytes
            total.value_bytes += part.value_bytes

    def totals(self) -> dict[str, int]:
        """Batches, syncs, puts, deletes, bytes written and reads."""
        parts = [(name, part) for stage in self.stages.values() for name, part in stage.parts.items()]
        return {
            "batches": sum(stage.batches for stage in self.stages.values()),
            "syncs": self.syncs,
            "records put": sum(part.count for name, part in parts if name.startswith("record")),
            "rows put": sum(part.count for name, part in parts if not name.startswith("record") and name[-1] == "+"),
            "deletes": sum(part.count for name, part in parts if name[-1] == "-"),
            "bytes": sum(part.key_bytes + part.value_bytes for _, part in parts),
            "keys got": self.reads.get("keys", 0),
            "scans": self.reads.get("scans", 0),
            "rows scanned": self.reads.get("scanned", 0),
        }


class CountingStore(RocksDbStateStore):
    """Counts what passes. It knows the keys of the local log and of rows by their first bytes only."""

    counted: ClassVar[Work] = Work()
    topics: ClassVar[dict[bytes, str]] = {}
    """Both of the process: the log opens its store itself, and one process opens one."""

    def write(self, rows: Mapping[bytes, bytes | None]) -> None:
        parts: dict[str, Part] = {}
        for key, value in rows.items():
            part = parts.setdefault(self.part_name(key, value), Part())
            part.count += 1
            part.key_bytes += len(key)
            part.value_bytes += len(value or b"")
        self.counted.add(parts)
        super().write(rows)

    def get(self, key: bytes) -> bytes | None:
        self._read("gets", 1)
        self._read("keys", 1)
        return super().get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._read("multi_gets", 1)
        self._read("keys", len(keys))
        return super().get_many(keys)

    def scan(self, start: bytes, end: bytes, limit: int | None = None) -> Iterator[tuple[bytes, bytes]]:
        self._read("scans", 1)
        return self._passing(super().scan(start, end, limit))

    def sync(self) -> None:
        self.counted.syncs += 1
        super().sync()

    def _passing(self, pairs: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        for pair in pairs:
            self._read("scanned", 1)
            yield pair

    def _read(self, what: str, count: int) -> None:
        self.counted.reads[what] = self.counted.reads.get(what, 0) + count

    def part_name(self, key: bytes, value: bytes | None) -> str:
        """Kind and sign of one entry of a batch."""
        first, sign = key[:1], "-" if value is None else "+"
        if first == keys.ROWS:
            return f"row {key[5:6].decode()}{sign}"
        if first == keys.RECORDS:
            return f"record {self._record_kind(key, value or b'')}{sign}"
        if first == keys.TOPICS:
            self.topics[(value or b"")[:4]] = key[1:].decode()
        return f"{_OTHER_KINDS[first]}{sign}"

    def _record_kind(self, key: bytes, value: bytes) -> str:
        topic = self.topics[key[1:5]]
        record = keys.decode_record(TopicPartition(topic, 0), 0, value)
        return dict(record.headers).get(EVENT_HEADER, topic.encode()).decode()


class WorkListener(Listener):
    """Hears nothing; tells what the store counted."""

    def figures(self) -> dict[str, Any]:
        return {"work": asdict(CountingStore.counted)}

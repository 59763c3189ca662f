"""The data directory of a run: opening the log in it, and remembering there what the run was.

run.json   format, pipeline, config file, settings and output folder of the last run; no secret
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

import orjson

from tpf_streams.core.identity import length_prefixed
from tpf_streams.core.step import PipelineDefinition
from tpf_streams.dsl.load import LoadedPipeline
from tpf_streams.dsl.settings_table import SETTINGS
from tpf_streams.errors import LogError
from tpf_streams.logs.local import LocalLog, Retention
from tpf_streams.logs.local.directory import DataDirectory
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.ports import InputRecord, Log, ReadableStore
from tpf_streams.stores.rocksdb import RocksDbMemory, RocksDbStateStore, rocksdb_options

RUN_FILE = "run.json"
FORMAT = 1


class Histories(Protocol):
    """What reads a partition again, from an offset to its end of now."""

    @property
    def partitions(self) -> int: ...

    def history(self, topic: str, partition: int, start: int = 0) -> AsyncIterator[list[InputRecord]]: ...


class ViewableLog(Log, Histories, Protocol):
    """A log whose committed rows can be looked at without opening a task."""

    @property
    def unseen(self) -> Sequence[int]:
        """Partitions whose rows other processes have: of these little can be seen here, or nothing."""
        ...

    def is_current(self, partition: int) -> bool:
        """Whether the rows of a partition here are for certain those of now."""
        ...

    def store(self, partition: int) -> ReadableStore: ...


@dataclass(frozen=True, slots=True)
class RunNote:
    """How the last run of a data directory was started. Paths are absolute."""

    pipeline: str
    config: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    output_dir: str | None = None


def run_note(pipeline: Path, config: Path | None, overrides: Mapping[str, str], output_dir: Path | None) -> RunNote:
    """What may be remembered: secrets are left out."""
    plain = {key: text for key, text in overrides.items() if key in SETTINGS and not SETTINGS[key].secret}
    return RunNote(
        str(pipeline.absolute()),
        None if config is None else str(config.absolute()),
        plain,
        None if output_dir is None else str(output_dir.absolute()),
    )


def remember(data_dir: Path, note: RunNote) -> None:
    """Replace the note as a whole; only its owner may read it. Raises OSError."""
    part = data_dir / f"{RUN_FILE}.part"
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        out.write(orjson.dumps({"format": FORMAT, **asdict(note)}, option=orjson.OPT_INDENT_2))
        out.flush()
        os.fsync(out.fileno())
    part.replace(data_dir / RUN_FILE)


def recall(data_dir: Path) -> RunNote | None:
    """The note of the last run; None where there was none. Raises LogError for one that cannot be read."""
    file = data_dir / RUN_FILE
    try:
        found = orjson.loads(file.read_bytes())
        if found.pop("format") != FORMAT:
            raise LogError(f"{file} was written by another version; name the pipeline with --pipeline")
        return RunNote(**found)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
        raise LogError(f"{file} cannot be read ({type(error).__name__}); name the pipeline with --pipeline") from error


def rocksdb_memory(loaded: LoadedPipeline) -> RocksDbMemory:
    """How the pipeline's budget of memory is split."""
    return rocksdb_options(loaded.settings.integer("rocksdb.memory-bytes"))[1]


def open_local_log(loaded: LoadedPipeline, data_dir: Path) -> LocalLog:
    """Claim and open the data directory. Raises LogOwnedError, LogCorruptError, LogError, OSError."""
    settings = loaded.settings
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    return LocalLog.open(
        data_dir,
        RocksDbStateStore,
        application_id=loaded.definition.application_id,
        partitions=settings.integer("topology.partitions"),
        identity=identity_of(loaded.definition),
        sync="commit" if settings.text("sync") == "commit" else "interval",
        memory_bytes=settings.integer("rocksdb.memory-bytes"),
        lifecycle=Retention(settings.millis("lifecycle.retention"), settings.integer("lifecycle.retention-bytes")),
    )


def identity_of(definition: PipelineDefinition) -> str:
    """A fingerprint of what ids are made of besides their inputs (contract 0.1); it does not give the secret away."""
    return hashlib.sha256(length_prefixed(definition.id_secret, definition.pipeline_id).encode()).hexdigest()[:32]


class OwningMemoryLog(MemoryLog):
    """A log in memory whose process owns a directory all the same, because it answers operators there."""

    directory: DataDirectory | None = None

    async def close(self) -> None:
        await super().close()
        if self.directory is not None:
            self.directory.release()


def open_memory_log(loaded: LoadedPipeline, data_dir: Path | None = None) -> MemoryLog:
    """A log that ends with the process. Raises LogOwnedError for a directory that another one owns."""
    directory = None
    if data_dir is not None:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory = DataDirectory(data_dir)
    log = OwningMemoryLog(
        application_id=loaded.definition.application_id,
        partitions=loaded.settings.integer("topology.partitions"),
    )
    log.directory = directory
    return log

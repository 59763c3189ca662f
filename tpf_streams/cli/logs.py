"""`--log`: which log a run is on, and where its operators find it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from tpf_streams.cli.console import say
from tpf_streams.dsl.load import LoadedPipeline
from tpf_streams.runtime.kafka import open_kafka_log
from tpf_streams.runtime.open_log import (
    ViewableLog,
    open_local_log,
    open_memory_log,
    remember,
    rocksdb_memory,
    run_note,
)


class LogKind(StrEnum):
    LOCAL = "local"
    MEMORY = "memory"
    KAFKA = "kafka"


async def open_log(
    kind: LogKind,
    loaded: LoadedPipeline,
    pipeline: Path,
    data_dir: Path | None,
    config: Path | None,
    overrides: Mapping[str, str],
    output_dir: Path | None,
) -> tuple[ViewableLog, Path | None]:
    """-> the log, and the directory of its control socket. Raises TpfError, OSError."""
    if kind is LogKind.MEMORY or data_dir is None:
        return open_memory_log(loaded, data_dir), data_dir
    if kind is LogKind.KAFKA:
        found = await open_kafka_log(loaded, data_dir)
        where = loaded.settings.required_text("kafka.bootstrap.servers")
        say(f"log on Kafka at {where}; local copies in {found.directory}; {rocksdb_memory(loaded)}")
        return found, found.directory
    log = open_local_log(loaded, data_dir)
    remember(data_dir, run_note(pipeline, config, overrides, output_dir))
    say(f"data in {data_dir}; {rocksdb_memory(loaded)}")
    return log, data_dir

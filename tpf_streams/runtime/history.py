"""Finding the lifecycle events of one execution again: a bounded page at a time, from any log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tpf_streams.core.identity import partition_of, route_of
from tpf_streams.core.step import PipelineDefinition
from tpf_streams.engine.lifecycle import LifecycleEvent, decode_lifecycle, lifecycle_topic
from tpf_streams.errors import TpfError
from tpf_streams.runtime.open_log import Histories

PAGE_BYTES = 8 * 1024 * 1024
SCANNED_BYTES_MAX = 256 * 1024 * 1024
"""Of a page that finds nothing: whoever asks is answered in time, and goes on from there."""


class HistoryError(TpfError):
    """There are no events to show, and why."""

    code = "HISTORY"


async def history_page(
    log: Histories, definition: PipelineDefinition, execution_id: str, start: int, page_bytes: int = PAGE_BYTES
) -> dict[str, Any]:
    """Lifecycle records that name the execution, from offset `start` of its home partition on.

    -> `records`: (offset, text) pairs; `next`: where the next page begins, None at the end of now; `end`: where one
    that is asked for later goes on. Raises HistoryError for an id that is none of this application, and what the log
    raises.
    """
    execution_id = execution_id.lower()
    route = route_of(execution_id)
    if route is None:
        raise HistoryError(f"{execution_id} is no id of an execution: tpf-streams status shows them")
    topic, partition = lifecycle_topic(definition.application_id), partition_of(route, log.partitions)
    wanted = execution_id.encode()
    records: list[tuple[int, str]] = []
    found_bytes = scanned_bytes = 0
    end = start
    async for lot in log.history(topic, partition, start):
        for record in lot:
            value = record.value or b""
            scanned_bytes += len(value)
            if wanted in value:
                found_bytes += len(value)
                records.append((record.offset, value.decode()))
            end = record.offset + 1
        if found_bytes >= page_bytes or scanned_bytes >= SCANNED_BYTES_MAX:
            return {"records": records, "next": end, "end": end}
    return {"records": records, "next": None, "end": end}


def events_of(execution_id: str, records: Iterable[tuple[int, str]]) -> Iterator[LifecycleEvent]:
    """The execution's own events in records that tell of others, too. Raises LogCorruptError."""
    for offset, text in records:
        for event in decode_lifecycle(text.encode(), f"lifecycle record {offset}"):
            if event.execution_id == execution_id.lower():
                yield event

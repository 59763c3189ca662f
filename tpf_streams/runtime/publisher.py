"""Object publish: the committed outputs of an execution as one CSV file (contract 0.16)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

from tpf_streams.connectors.csv_writer import CsvColumn, CsvDialect, CsvLayout, csv_chunks, reject_csv_chunks
from tpf_streams.connectors.filesystem_publish import OnExisting, output_name, publish_object, rejected_name
from tpf_streams.core.execution import ExecutionRecord, OutputRecord, RejectRecord
from tpf_streams.core.step import ItemReject, Json


class CsvPublisher:
    """ports.ObjectPublisher: `<name>.out` in item order, and `<name>.rejected.csv` beside it when anything was."""

    def __init__(
        self, directory: Path, key_template: str, layout: CsvLayout, dialect: CsvDialect, on_existing: OnExisting
    ) -> None:
        self._directory = directory
        self._key_template = key_template
        self._layout = layout
        self._dialect = dialect
        self._on_existing = on_existing

    def publish(
        self,
        execution: ExecutionRecord,
        incarnation: int,
        outputs: Iterator[OutputRecord],
        rejects: Iterator[RejectRecord],
    ) -> str:
        """-> the name. Raises PublishError, OutputExistsError, and TerminalError for a name that cannot be used."""
        group_key = (execution.source or {}).get("key") or execution.execution_id
        name = output_name(self._key_template, group_key)
        chunks = csv_chunks(_rows(outputs), self._layout, self._dialect)
        place = execution.execution_id, incarnation
        found = publish_object(self._directory, name, *place, chunks, self._on_existing, execution.attempt)
        first = next(rejects, None)
        # A redrive may leave nothing rejected of what a file says that is there.
        if first is not None or execution.published is not None:
            found_rejects = rejects if first is None else chain([first], rejects)
            lines = reject_csv_chunks(_reject(record) for record in found_rejects)
            rejected = rejected_name(found.name)
            publish_object(self._directory, rejected, *place, lines, self._on_existing, execution.attempt)
        return found.name


def derived_layout(fields: Iterator[str]) -> CsvLayout:
    """A column per declared field, for output types that bring no layout of their own."""
    return CsvLayout(tuple(CsvColumn(field, field) for field in fields))


def _rows(outputs: Iterator[OutputRecord]) -> Iterator[Mapping[str, Json]]:
    for record in outputs:
        yield from record.payloads


def _reject(record: RejectRecord) -> ItemReject:
    return ItemReject(record.file, record.line, record.column, record.reason, record.raw)

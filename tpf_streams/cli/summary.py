"""What a run tells a person at its end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.table import Table

from tpf_streams.cli.console import out
from tpf_streams.connectors.filesystem_publish import rejected_name
from tpf_streams.runtime.run_result import RunResult

SHOWN_MAX = 20


def print_summary(result: RunResult, output_dir: Path | None) -> None:
    """Counts, files and failures, on stdout."""
    arms = _counts(result.by_arm)
    out.print(f"{result.items:,} items in, {result.completed:,} out{f' ({arms})' if arms else ''}", style="bold")
    out.print(
        f"{result.seconds:.2f} s, {result.items_per_s:,.0f} items/s, at most {result.in_flight_max:,} in flight",
        markup=False,
    )
    if result.executions:
        again = f", {result.continued} of them begun by an earlier run" if result.continued else ""
        out.print(f"executions: {_counts(result.executions)}{again}", markup=False)
    if result.duplicates or result.dropped:
        why = f" ({_counts(result.dropped_by_reason)})" if result.dropped else ""
        out.print(f"answers: {result.duplicates:,} repeated, {result.dropped:,} dropped{why}", markup=False)
    _print_files(result, output_dir)
    _print_failures(result)
    if result.waiting:
        out.print(f"{result.waiting:,} interactions still wait for an answer", markup=False)


def _print_files(result: RunResult, output_dir: Path | None) -> None:
    shown = [it for it in result.published if it["name"] is not None or it["rejected"]]
    for it in shown[:SHOWN_MAX]:
        line = f"{it['source'] or 'execution'} → {_place(output_dir, it['name']) if it['name'] else 'no file'}"
        if it["rejected"]:
            where = f", see {_place(output_dir, rejected_name(it['name']))}" if it["name"] else ""
            line += f"; {it['rejected']:,} rejected{where}"
        out.print(line, markup=False, soft_wrap=True)
    if len(shown) > SHOWN_MAX:
        out.print(f"… and {len(shown) - SHOWN_MAX:,} more files", markup=False)


def _print_failures(result: RunResult) -> None:
    if not (result.failed or result.skipped):
        return
    table = Table(title="Not done", title_justify="left")
    for name in ("source", "execution", "code", "reason"):
        table.add_column(name, overflow="fold")
    for it in [*result.failed, *result.skipped][:SHOWN_MAX]:
        table.add_row(*(_cell(it[name]) for name in ("source", "executionId", "code", "message")))
    out.print(table)
    more = len(result.failed) + len(result.skipped) - SHOWN_MAX
    if more > 0:
        out.print(f"… and {more:,} more", markup=False)


def _place(output_dir: Path | None, name: str) -> str:
    return name if output_dir is None else str(output_dir / name)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _cell(value: object) -> str:
    return "" if value is None else str(value).replace("[", "\\[")

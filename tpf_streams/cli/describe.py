"""`tpf-streams describe`: the topology of a data directory and what lies in it."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from tpf_streams.cli.console import out, print_json, told
from tpf_streams.cli.desk_directory import DirectoryDesk
from tpf_streams.cli.options import AsJson, DataDir, OtherPipeline


def describe(data_dir: DataDir, pipeline: OtherPipeline = None, as_json: AsJson = False) -> None:
    """Show the topology, topics with their records, stores with their rows, and how many are in which state.

    [bold]Examples[/bold]

        tpf-streams describe --data-dir data

        tpf-streams describe --data-dir data --json
    """
    with told():
        answer = DirectoryDesk(data_dir, pipeline).ask("describe", {})
    if as_json:
        print_json(answer)
        return
    out.print(f"{answer['applicationId']}, {answer['partitions']} partitions", style="bold", markup=False)
    _print_topology(answer["steps"])
    out.print(counts("Topics: records", answer["topics"]))
    out.print(counts("Stores: rows", answer["rows"]))
    out.print(counts("States: executions", answer["executions"]))
    out.print(counts("States: interactions", answer["interactions"]))


def _print_topology(steps: list[dict[str, Any]]) -> None:
    out.print(f"source ─▶ {steps[0]['input']}", markup=False)
    for step in steps:
        work = f"await {step['transport']}" if step["kind"] == "await" else step["cardinality"]
        out.print(f"  ─▶ [{step['index']}] {step['name']} ({work}) ─▶ {step['output']}", markup=False, soft_wrap=True)


def counts(title: str, found: dict[str, int]) -> Table:
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(overflow="fold")
    table.add_column(justify="right")
    for name, count in found.items():
        table.add_row(name.replace("[", "\\["), f"{count:,}")
    return table

"""`tpf-streams validate`: everything that can be said about a pipeline before it runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.table import Table

from tpf_streams.cli.console import cell, out, print_json, told
from tpf_streams.cli.options import AsJson, Config, Overrides, Pipeline, overrides_of
from tpf_streams.dsl.durations import written
from tpf_streams.dsl.load import load_pipeline
from tpf_streams.runtime.topology import topology_of


def validate(pipeline: Pipeline, config: Config = None, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Check a pipeline, its settings and its callables; exit 2 and file:line: key: reason for each problem.

    What is valid is shown as it will run: steps, segments, transports, topics, stores, and every default taken, with
    the place where it would be set. The resume token secret need not be there.

    [bold]Examples[/bold]

        tpf-streams validate topologies/csv_payments/pipeline.yaml

        tpf-streams validate pipeline.yaml --config production.properties --set pipeline.max-concurrency=250

        tpf-streams validate pipeline.yaml --json | jq '.defaults[] | select(.name == "await.deadline-grace")'
    """
    with told():
        loaded = load_pipeline(
            pipeline, settings_overrides=overrides_of(overrides), config=config, require_secret=False
        )
        topology = topology_of(loaded)
    if as_json:
        print_json({"valid": True, "pipeline": str(pipeline)} | topology)
    else:
        show(pipeline, topology)


def show(pipeline: Path, topology: dict[str, Any]) -> None:
    """A readable summary on stdout."""
    out.print(f"{pipeline}: valid", style="green", markup=False)
    names = f"application {topology['applicationId']}, pipeline {topology['pipelineId']}"
    out.print(f"{names}, window {topology['window']}", markup=False)
    out.print(_table("Steps", ("#", "step", "shape", "input → output", "segment", "by"), _steps(topology)))
    for line in (*_transports(topology), *_ends(topology)):
        out.print(line, markup=False, soft_wrap=True)
    out.print(_table("Topics", ("topic", "for", "partitions"), _topics(topology)))
    out.print(_table("Defaults taken", ("name", "value", "would be set in"), _named(topology["defaults"])))
    for it in topology["settings"]:
        out.print(f"setting: {it['name']} = {it['value']} ({it['where']})", markup=False, soft_wrap=True)
    for kind in ("note", "warning"):
        for text in topology[f"{kind}s"]:
            out.print(f"{kind}: {text}", markup=False, soft_wrap=True)


def _table(title: str, columns: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Table:
    table = Table(title=title, title_justify="left")
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(cell, row))
    return table


def _steps(topology: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    segments = {name: str(at) for at, it in enumerate(topology["segments"], 1) for name in it["steps"]}
    for it in topology["steps"]:
        arms = f" ({', '.join(it['arms'])})" if it["arms"] and it["kind"] == "service" else ""
        types = f"{it['input']}{arms} → {it['output']}"
        yield str(it["index"]), it["name"], it["cardinality"], types, segments.get(it["name"], "await"), _by(it)


def _by(step: dict[str, Any]) -> str:
    """What does the work: a callable, or a transport."""
    if step["kind"] == "await":
        return f"{step['transport']} ({_path(step)})"
    return f"{step['service'] or 'bound by name'}{' (inline)' if step['inline'] else ''}"


def _path(step: dict[str, Any]) -> str:
    return "live" if step["live"] else "durable"


def _transports(topology: dict[str, Any]) -> Iterator[str]:
    for it in topology["steps"]:
        if it["kind"] == "await":
            facts = [f"await {it['transport']} ({_path(it)})", f"waits {written(it['timeoutMs'])}", it["correlation"]]
            facts.append("needs the token" if it["requireToken"] else "needs no token")
            facts += [f"idempotency key of {', '.join(it['idempotencyFields'])}"] if it["idempotencyFields"] else []
            facts += [f"{who} {it[who]}" for who in ("assignee", "group") if it[who]]
            facts += [f"at most {it['budget']} open at {it['endpoint']}"] if it["budget"] else []
            facts += [f"{key} {value}" for key, value in _flat(it["options"])]
            facts += list(_spoken(it))
            yield f"{it['name']}: {', '.join(facts)}"


def _spoken(step: dict[str, Any]) -> Iterator[str]:
    """What is spoken with the provider, where it is not what the pipeline speaks."""
    if step["transportInput"] != step["input"]:
        yield f"requests are {step['transportInput']}"
    if step["transportOutput"] != step["output"]:
        yield f"answers are {step['transportOutput']}"
    if step["projector"]:
        yield f"projected by {step['projector']}"


def _flat(options: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in options.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def _ends(topology: dict[str, Any]) -> Iterator[str]:
    yield f"types: {', '.join(topology['types']) or 'none declared'}"
    source, publish, stores = topology["source"], topology["publish"], topology["stores"]
    if source is not None:
        yield f"source: {source['name']}, files of {source['root']}"
    if publish is not None:
        yield f"publish: {publish['name']}, {publish['key_template']} in {publish['root']}"
    size = f"{stores['memoryBytes']:,} bytes of memory a worker"
    yield f"stores: {', '.join(stores['rows'])}; RocksDB, {stores['partitions']} partitions, {size}"


def _topics(topology: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for it in topology["topics"]:
        yield it["name"], it["use"], str(it["partitions"])


def _named(found: list[dict[str, str]]) -> Iterator[tuple[str, ...]]:
    for it in found:
        yield it["name"], it["value"], it["where"]

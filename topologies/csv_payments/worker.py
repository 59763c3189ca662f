"""The Faust app of csv-payments: the pipeline of pipeline.yaml, and what a user may put beside it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from faust.types import StreamT
from faust.web import Request, Response, View

from tpf_streams import App

app = App("csv-payments", pipeline=Path(__file__).with_name("pipeline.yaml"))

payments = app.await_step("Await Payment Provider")

outcomes: Counter[str] = Counter()
"""Outcomes by arm, of the partitions of the output topic that this worker reads, since it began."""


@app.agent(app.outputs)
async def count_outcomes(outputs: StreamT[dict[str, Any]]) -> None:
    """A plain Faust agent. It sees what is committed, and nothing of it can hold up the engine."""
    async for output in outputs:
        outcomes[output["arm"] or output["type"]] += 1


@app.page("/payments/")
async def show_payments(view: View, request: Request) -> Response:
    """What this worker knows of its partitions."""
    executions = [(row.execution_key, row.status.value) for row in app.executions.values()]
    waiting = sum(1 for row in app.interactions.values() if not row.status.terminal)
    return view.json({"executions": executions, "waiting": waiting, "outcomes": outcomes})

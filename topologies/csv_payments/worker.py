"""The Faust app of csv-payments: the pipeline of pipeline.yaml, and a page beside it.

No agent: one that only counted outputs took as much time of the worker as a third of all its payments (seen).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from faust.web import Request, Response, View

from tpf_streams import App

app = App("csv-payments", pipeline=Path(__file__).with_name("pipeline.yaml"))

payments = app.await_step("Await Payment Provider")


@app.page("/payments/")
async def show_payments(view: View, request: Request) -> Response:
    """What this worker knows of its partitions. `outcomes`: of ended files, by arm."""
    executions = list(app.executions.values())
    outcomes: Counter[str] = Counter()
    for row in executions:
        outcomes.update({} if row.summary is None else row.summary.by_arm)
    return view.json(
        {
            "executions": [(row.execution_key, row.status.value) for row in executions],
            "waiting": sum(1 for row in app.interactions.values() if not row.status.terminal),
            "outcomes": outcomes,
        }
    )

"""A small app for tests of a worker: what runs where, what an agent sees, and pages that block.

PROBE_ID names the application and its topics; several tests use one broker.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from dataclasses import dataclass
from typing import Any

from faust.types import StreamT
from faust.web import Request, Response, View

from tpf_streams import App
from tpf_streams.errors import LogFailedError
from tpf_streams.runtime.application import Application

ID = os.environ["PROBE_ID"]

app = App(ID, settings={"kafka.session-timeout": "PT6S"})

threads: dict[str, str] = {}
seen: list[dict[str, Any]] = []
ticks: list[float] = []
SLEEPER = "sleeper"


@dataclass(frozen=True)
class Item:
    item_id: str


@app.step("Check")
async def check(item: Item) -> Item:
    await asyncio.sleep(0)
    threads["async step"] = threading.current_thread().name
    return item


ask = app.await_step(
    "Ask",
    output=Item,
    timeout="PT5M",
    transport={
        "type": "kafka",
        "request": {"topic": f"{ID}.requests", "key": "correlationId"},
        "response": {"topic": f"{ID}.answers"},
    },
)


@app.step("Done")
def done(item: Item) -> Item:
    threads["sync step"] = threading.current_thread().name
    if item.item_id == SLEEPER:
        time.sleep(60)
    return item


@app.agent(app.outputs)
async def see(outputs: StreamT[dict[str, Any]]) -> None:
    async for output in outputs:
        seen.append(output)
        if output.get("sleep"):
            time.sleep(output["sleep"])


@app.timer(0.2)
async def tick() -> None:
    ticks.append(time.monotonic())


@app.page("/items/{count}/")
async def submit(view: View, request: Request, count: str) -> Response:
    keys = [f"i-{number}" for number in range(int(count))]
    ids = [await app.submit({"item_id": key}, key=key) for key in keys]
    return view.json({"ids": ids})


@app.page("/sleeper/")
async def submit_sleeper(view: View, request: Request) -> Response:
    return view.json({"id": await app.submit({"item_id": SLEEPER}, key=SLEEPER)})


@app.page("/break/")
async def break_engine(view: View, request: Request) -> Response:
    async def fail(application: Application) -> None:
        application.worker._fail(LogFailedError("the disk is full"))

    await app.engine_service.call(fail)
    return view.json({})


@app.page("/block/{seconds}/")
async def block(view: View, request: Request, seconds: str) -> Response:
    time.sleep(float(seconds))
    return view.json({})


@app.page("/wait/{seconds}/")
async def wait(view: View, request: Request, seconds: str) -> Response:
    await asyncio.sleep(float(seconds))
    return view.json({})


@app.page("/look/")
async def look(view: View, request: Request) -> Response:
    return view.json(
        {
            "ready": app.engine_service.is_ready,
            "threads": threads,
            "seen": seen,
            "ticks": len(ticks),
            "executions": {key: row.status.value for key, row in app.executions.items()},
            "units": [row.status.value for row in app.units.values()],
            "interactions": [row.status.value for row in app.interactions.values()],
            "counts": app.monitor.metric_counts,
        }
    )


@app.command()
async def hello() -> None:
    """Say hello."""
    print(f"hello from {app.conf.id}")

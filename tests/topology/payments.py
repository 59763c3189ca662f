"""csv-payments as a user runs it: files in, the simulated provider behind the topics, files out."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from topologies.csv_payments import provider as csv_provider
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.testing import ManualClock, SimulatedProvider, TopologyTestDriver

PIPELINE = Path(__file__).parents[2] / "topologies" / "csv_payments" / "pipeline.yaml"
DATA = PIPELINE.parent / "data"
REQUESTS, RESPONSES = "csv-payments.payment.requests", "csv-payments.payment.results"
AWAIT = 1
"""Index of the await step."""
HEADER = ["CSV Id", "Recipient", "Amount", "Currency", "Reference", "Status", "Message", "Fee"]


def open_payments(
    folder: Path, *, concurrency: int | None = None, partitions: int = 1, **options: Any
) -> TopologyTestDriver:
    """A driver that writes to `folder`/out. `partitions` also of the response topic; other options are the driver's."""
    settings = dict(options.pop("settings", {}))
    if concurrency is not None:
        settings["pipeline.max-concurrency"] = str(concurrency)
    clock = options.pop("clock", None) or ManualClock()
    log = options.pop("log", None) or MemoryLog(
        application_id="csv-payments", partitions=partitions, topics={RESPONSES: partitions}, clock=clock
    )
    pipeline = options.pop("pipeline", PIPELINE)
    return TopologyTestDriver(pipeline, settings=settings, output_dir=folder / "out", clock=clock, log=log, **options)


def simulate(driver: TopologyTestDriver, **options: Any) -> SimulatedProvider:
    """Let the demo's provider answer from now on."""
    builder = options.pop("builder", csv_provider.answer)
    found = SimulatedProvider(
        driver.log, REQUESTS, RESPONSES, clock=driver.clock, builder=builder, actor=csv_provider.ACTOR, **options
    )
    return driver.provide(found)


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of an input or output file, by header."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def written(folder: Path, name: str) -> list[dict[str, str]]:
    """The rows of the output file of the input `name`."""
    return read_rows(folder / "out" / f"{name}.out")


def rejected(folder: Path, name: str) -> list[dict[str, str]]:
    """The rows of the reject file beside it."""
    return read_rows(folder / "out" / f"{name}.out.rejected.csv")

"""One run of csv-payments in this process, as `tpf-streams run` does it; one JSON object on stdout."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from unittest.mock import patch

from tests.benchmarks.listeners import LatencyListener, WindowListener
from tests.benchmarks.marks import MarkedStore, MarkListener
from tests.benchmarks.measure import Stopwatch, peak_bytes
from tests.benchmarks.noted import Listener, NotedLogs
from tests.benchmarks.payments import PIPELINE
from tests.benchmarks.work import CountingStore, WorkListener
from tpf_streams.cli.logs import LogKind
from tpf_streams.cli.options import load_to_run, overrides_of
from tpf_streams.cli.run import RunOptions, execute
from tpf_streams.logs.local import OpenStore
from tpf_streams.runtime import open_log

LISTENERS: dict[str, tuple[Callable[[], Listener], OpenStore | None]] = {
    "nothing": (Listener, None),
    "latency": (LatencyListener, None),
    "window": (WindowListener, None),
    "work": (WorkListener, CountingStore),
    "marks": (MarkListener, MarkedStore),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("inputs", nargs="+")
    parser.add_argument("--work", type=Path, required=True, help="an empty folder for data and outputs")
    parser.add_argument("--provider", default="reject=0.08")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--hear", choices=LISTENERS, default="nothing")
    parser.add_argument("--metrics", action="store_true", help="count facts for a scrape")
    given = parser.parse_args()
    options = RunOptions(
        pipeline=PIPELINE,
        inputs=given.inputs,
        output_dir=given.work / "out",
        data_dir=given.work / "data",
        provider=given.provider,
        config=None,
        overrides={"sync": "commit", **overrides_of(given.set)},
        park=False,
        metrics_at=("127.0.0.1", 0) if given.metrics else None,
    )
    make_listener, open_store = LISTENERS[given.hear]
    listener, watch = make_listener(), Stopwatch()
    with patch.object(open_log, "LocalLog", NotedLogs(listener, watch, open_store)):
        result, _ = execute(options, LogKind.LOCAL, load_to_run(PIPELINE, None, options.overrides))
    found = {"items": result.items, "seconds": watch.seconds, "cpu_s": watch.cpu_s, "peak_bytes": peak_bytes()}
    print(json.dumps({**found, **listener.figures(), "result": asdict(result)}))


if __name__ == "__main__":
    main()

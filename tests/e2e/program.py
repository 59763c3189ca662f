"""`tpf-streams` as another process, and what it leaves behind. Warnings are errors in it, as everywhere in tests."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import orjson

from tpf_streams.errors import LogOwnedError
from tpf_streams.logs.local import LocalLog
from tpf_streams.ports import InputRecord
from tpf_streams.stores.rocksdb import RocksDbStateStore

ROOT = Path(__file__).parents[2]
PIPELINE = ROOT / "topologies/csv_payments/pipeline.yaml"
DATA = ROOT / "topologies/csv_payments/data"
ROWS_12, ROWS_1K, ROWS_10K = (DATA / f"payments_{name}.csv" for name in ("12", "1k", "10k"))
APPROVAL = ROOT / "topologies/restaurant_approval/pipeline.yaml"
SECRET = "a-secret-for-tests-only"
REJECT = "reject=0.08"


def environment(**changes: str | None) -> dict[str, str]:
    """This process's, with a secret; `None` takes a variable away."""
    found = {**os.environ, "PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET": SECRET, "PYTHONWARNINGS": "error"}
    found |= {name: value for name, value in changes.items() if value is not None}
    return {name: value for name, value in found.items() if changes.get(name, "") is not None}


def start(
    *words: str | Path,
    env: Mapping[str, str] | None = None,
    prepare: Callable[[], None] | None = None,
    err: IO[str] | None = None,
    program: Sequence[str] = ("tpf_streams.cli",),
) -> subprocess.Popen[str]:
    """`prepare` runs in the new process before the program does. `err`: where stderr goes instead of a pipe. `program`:
    a module that stands in for the command, and its first words."""
    return subprocess.Popen(
        [sys.executable, "-m", *program, *map(str, words)],
        cwd=ROOT,
        env=environment() if env is None else dict(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if err is None else err,
        stdin=subprocess.DEVNULL,
        text=True,
        preexec_fn=prepare,
    )


def finish(process: subprocess.Popen[str], timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Wait for its end, and kill it rather than wait for ever."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"still running after {timeout} s:\n{out}\n{err}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def tpf(
    *words: str | Path,
    env: Mapping[str, str] | None = None,
    prepare: Callable[[], None] | None = None,
    timeout: float = 60,
) -> subprocess.CompletedProcess[str]:
    return finish(start(*words, env=env, prepare=prepare), timeout)


@contextmanager
def started(
    *words: str | Path, env: Mapping[str, str] | None = None, err: IO[str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A process that does not outlive the block."""
    process = start(*words, env=env, err=err)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def result_of(found: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The one JSON object on stdout."""
    lines = found.stdout.splitlines()
    assert len(lines) == 1, found.stdout + found.stderr
    parsed: dict[str, Any] = json.loads(lines[0])
    return parsed


def wait_until(reached: Callable[[], object], timeout: float = 20, pause: float = 0.02) -> None:
    end = time.monotonic() + timeout
    while not reached():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(pause)


class Place:
    """The folders of one run."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.out = folder / "out"

    def words(self, *inputs: Path, pipeline: Path = PIPELINE, provider: str | None = REJECT) -> list[str | Path]:
        """The command line of a run."""
        words: list[str | Path] = ["run", pipeline, "--output-dir", self.out, "--data-dir", self.data]
        for path in inputs:
            words += ["--input", path]
        return words if provider is None else [*words, "--simulate-provider", provider]

    def outputs(self) -> list[dict[str, Any]]:
        """The values on the output topic. The log is opened, so nobody else may own it."""
        return [value for _, value in self.output_records()]

    def output_records(self) -> list[tuple[str, dict[str, Any]]]:
        records = self.records("outputs")
        return [((record.key or b"").decode(), orjson.loads(record.value or b"")) for record in records]

    def records(self, topic: str) -> list[InputRecord]:
        """What lies in one of the application's own topics."""
        log = self.open_log()
        try:
            return list(log.read(f"csv-payments-{topic}"))
        finally:
            log.journal.store.close()
            log._directory.release()

    def open_log(self) -> LocalLog:
        end = time.monotonic() + 10
        while True:
            try:
                return LocalLog.open(self.data, RocksDbStateStore, application_id="csv-payments", partitions=8)
            except LogOwnedError:
                assert time.monotonic() < end
                time.sleep(0.05)


def rows_of(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(file.read_text(), newline="")))


def money_of(rows: Sequence[Mapping[str, str]], id_name: str) -> list[tuple[str, ...]]:
    """What must come through a pipeline unchanged: id, recipient, amount, currency. A guard against formulas is none
    of the value (contract 0.16)."""
    found = []
    for row in rows:
        cells = (row[id_name], row["Recipient"], row["Amount"], row["Currency"])
        found.append(tuple(cell[1:] if cell[:2] in ("'=", "'+", "'-", "'@") else cell for cell in cells))
    return found


def assert_same_payments(source: Path, output: Path) -> None:
    assert money_of(rows_of(output), "CSV Id") == money_of(rows_of(source), "ID")

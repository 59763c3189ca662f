"""Workers that come and go over one application on Kafka, while files come in; and what must be left of it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.payments import write_payments
from tests.e2e.faust_worker import FaustWorker, Payments, committed
from tests.e2e.program import ROOT, assert_same_payments, environment, wait_until

APP = "topologies.csv_payments"
MOST = 3


def write_files(folder: Path, files: int, rows: int) -> list[Path]:
    """`files` files of `rows` payments each, no id twice among them."""
    return [write_payments(folder / f"payments-{number:03}.csv", rows, number * rows + 1) for number in range(files)]


@contextmanager
def provider_process(payments: Payments, broker: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """`tpf-streams provider` as a process of its own, so that nothing answers itself."""
    pipeline = payments.inputs.parent / "pipeline.yaml"
    words = ["provider", str(pipeline), "--bootstrap", broker, *options]
    with (payments.folder / "provider.log").open("ab") as console:
        process = subprocess.Popen(
            [sys.executable, "-m", "tpf_streams.cli", *words],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        finally:
            process.kill()


@dataclass
class Fleet:
    """The workers of one application, each in a place of its own: a folder of its console and its local copies."""

    payments: Payments
    broker: str
    seed: int = 1
    workers: dict[int, FaustWorker] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    kills: int = 0
    longest_stop_s: float = 0.0

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._began_s = time.monotonic()

    def add(self) -> FaustWorker:
        # Places are used again, so that a worker may find what an earlier one has left there.
        place = min(set(range(MOST + 2)) - self.workers.keys())
        (self._folder(place) / "console.log").unlink(missing_ok=True)
        found = self.workers[place] = FaustWorker(APP, self.broker, self._folder(place), self.payments.folder)
        self._tell(f"worker {place} starts")
        return found

    def end_one(self) -> None:
        """Another way each time, and every other time its local copies are gone too."""
        place = self._chance.choice(sorted(self.workers))
        worker, how = self.workers.pop(place), "stopped" if self.kills % 2 else "killed"
        if self.kills % 2:
            # A program that is still imported has no handler yet, and dies of the signal as any would.
            wait_until(lambda: "[^Worker]: Starting" in worker.console(), 30)
            self.longest_stop_s = max(self.longest_stop_s, worker.stop())
        else:
            worker.process.kill()
            worker.process.wait()
        if self._chance.random() < 0.5:
            shutil.rmtree(self._folder(place) / "data", ignore_errors=True)
            how += ", its copies deleted"
        self._tell(f"worker {place} {how}")
        self.kills += 1

    def _folder(self, place: int) -> Path:
        return self.payments.folder.parent / f"worker-{place}"

    def close(self) -> None:
        for worker in self.workers.values():
            worker.__exit__()
        self.workers.clear()

    def until(self, reached: Callable[[], object], timeout: float) -> None:
        """Wait; fail when a worker ends by itself meanwhile."""

        def looked() -> bool:
            for number, worker in self.workers.items():
                assert worker.process.poll() is None, f"worker {number} ended:\n{worker.console()[-6000:]}"
            return bool(reached())

        try:
            wait_until(looked, timeout, 0.2)
        except AssertionError as error:
            consoles = "\n".join(f"--- {number}\n{it.console()[-3000:]}" for number, it in self.workers.items())
            raise AssertionError(f"{error}\n" + "\n".join(self.told) + consoles) from None

    def waiting(self) -> int:
        """Open interactions of all workers."""
        return sum(worker.get("/payments/")["waiting"] for worker in self.workers.values())

    def _tell(self, what: str) -> None:
        self.told.append(f"{time.monotonic() - self._began_s:6.1f} s  {len(self.workers)} workers  {what}")


def campaign(fleet: Fleet, sources: list[Path], kills: int, pause_s: tuple[float, float] = (2.0, 5.0)) -> None:
    """One worker, up to three, down to one again, while the files come in by and by. Returns when all are published."""
    chance, share = random.Random(fleet.seed), max(1, len(sources) // (kills + 1))
    left = list(sources)
    fleet.add().until_ready()
    while fleet.kills < kills:
        for path in left[:share]:
            _hand_in(path, fleet.payments.inputs)
        del left[:share]
        # As many as the kills to come leave at least one of, and one at the end.
        while len(fleet.workers) < min(chance.choice((2, MOST)), kills - fleet.kills + 1):
            fleet.add()
        time.sleep(chance.uniform(*pause_s))
        fleet.end_one()
    for path in left:
        _hand_in(path, fleet.payments.inputs)
    if not fleet.workers:
        fleet.add()
    fleet.until(lambda: len(list(fleet.payments.outputs.glob("*.out"))) >= len(sources), 180)


def _hand_in(path: Path, folder: Path) -> None:
    """As a whole: a worker may look at any moment."""
    part = folder / f".{path.name}.part"
    shutil.copy(path, part)
    os.replace(part, folder / path.name)


async def assert_all_paid_once(fleet: Fleet, sources: list[Path], rows: int) -> None:
    """Every id once in the topic, every file whole, and nothing waits."""
    records = await committed(fleet.broker, f"{fleet.payments.name}-outputs", len(sources) * rows, 60)
    found = Counter(record["payload"]["csvId"] for record in records)
    assert len(found) == len(sources) * rows, f"{len(sources) * rows - len(found)} are lost"
    assert len(records) == len(found), f"{len(records) - len(found)} too many: {found.most_common(3)}"
    for path in sources:
        assert_same_payments(path, fleet.payments.outputs / f"{path.name}.out")
    fleet.until(lambda: fleet.waiting() == 0, 30)


def freeze(worker: FaustWorker) -> None:
    worker.process.send_signal(signal.SIGSTOP)


def thaw(worker: FaustWorker) -> None:
    worker.process.send_signal(signal.SIGCONT)

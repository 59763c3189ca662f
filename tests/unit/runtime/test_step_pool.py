"""The pool of sync steps: bounded, reused, and nothing that a process waits for when it ends."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from tpf_streams.runtime.step_pool import StepPool


def test_results_and_failures_come_back():
    pool = StepPool(2)
    assert pool.submit(divmod, 7, 2).result(5) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        pool.submit(divmod, 7, 0).result(5)
    pool.shutdown()


def test_no_more_threads_than_allowed_and_none_without_need():
    pool = StepPool(2)
    names = set()
    for _ in range(5):
        names.add(pool.submit(lambda: threading.current_thread().name).result(5))
        time.sleep(0.01)
    assert len(names) == 1
    gate = threading.Event()
    waiting = [pool.submit(gate.wait) for _ in range(6)]
    time.sleep(0.05)
    assert sum(future.running() for future in waiting) == 2
    gate.set()
    assert all(future.result(5) for future in waiting)
    pool.shutdown()


def test_behind_a_shutdown_nothing_is_taken():
    pool = StepPool(1)
    pool.shutdown()
    pool.shutdown()
    with pytest.raises(RuntimeError):
        pool.submit(int)


def test_a_step_that_sleeps_does_not_hold_the_process():
    code = (
        "import time\nfrom tpf_streams.runtime.step_pool import StepPool\n"
        "pool = StepPool()\npool.submit(time.sleep, 60)\ntime.sleep(0.1)\npool.shutdown()\n"
    )
    began = time.monotonic()
    assert subprocess.run([sys.executable, "-c", code], timeout=30, check=False).returncode == 0
    assert time.monotonic() - began < 20

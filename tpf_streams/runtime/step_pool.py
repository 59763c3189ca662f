"""Threads for sync steps that do not keep a process alive.

The threads of `ThreadPoolExecutor` are joined when the interpreter ends: a step that sleeps for a minute would hold a
worker that was told to stop. Its work is owed, and the next process does it again.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

THREADS_MAX = 32
NAME = "tpf-step"


class StepPool(Executor):
    """At most `threads` daemon threads, begun when they are needed."""

    def __init__(self, threads: int | None = None) -> None:
        self._max = threads or min(THREADS_MAX, (os.cpu_count() or 1) + 4)
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._count = 0
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Raises RuntimeError behind `shutdown`."""
        future: Future[T] = Future()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                _settle(future, fn, args, kwargs)

        with self._lock:
            if self._closed:
                raise RuntimeError("the pool takes no more work")
            self._work.put(work)
            if not self._idle.acquire(blocking=False) and self._count < self._max:
                self._count += 1
                threading.Thread(target=self._run, name=f"{NAME}-{self._count}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """No more work is taken. What runs is not waited for, and what waits is not done: it is all owed."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for _ in range(self._count):
                self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None and not self._closed:
            work()
            self._idle.release()


def _settle(future: Future[Any], fn: Callable[..., Any], args: Any, kwargs: Any) -> None:
    try:
        result = fn(*args, **kwargs)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)

"""A worker with its pages on a loop of its own, and a browser that looks at them."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from tests.api.serving import Served, serving
from tpf_streams.dsl.load import LoadedPipeline

T = TypeVar("T")
BROWSER, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
PACKAGES = "chromium chromium-driver"
ANSWER_S = 30.0


class Worker:
    """Restaurant approval behind HTTP, for tests that are no coroutines."""

    def __init__(self, served: Served, loop: asyncio.AbstractEventLoop) -> None:
        self.served = served
        self._loop = loop
        self.url = str(served.client.make_url("")).rstrip("/")

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(ANSWER_S)

    def waiting(self, key: str = "o-1", **order: str) -> dict[str, Any]:
        return self.do(self.served.waiting(key, **order))


@contextmanager
def working(loaded: LoadedPipeline) -> Iterator[Worker]:
    """From its first request to its last."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    opened = serving(loaded)
    try:
        served = asyncio.run_coroutine_threadsafe(opened.__aenter__(), loop).result(ANSWER_S)
        try:
            yield Worker(served, loop)
        finally:
            asyncio.run_coroutine_threadsafe(opened.__aexit__(None, None, None), loop).result(ANSWER_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(ANSWER_S)
        loop.close()


@contextmanager
def browsing(profile: Path) -> Iterator[Chrome]:
    """`profile`: an empty folder. Both programs are named, so that nothing is looked for, nor fetched."""
    options = Options()
    options.binary_location = BROWSER
    for word in (
        "--headless=new",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        "--lang=en-GB",
        "--window-size=1200,900",
        f"--user-data-dir={profile}",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
    ):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def missing() -> str:
    """What keeps these tests from running, and what to do about it; empty: nothing."""
    absent = [path for path in (BROWSER, DRIVER) if not os.access(path, os.X_OK)]
    if not absent:
        return ""
    how = f"apt-get update && apt-get install -y {PACKAGES}"
    if shutil.which("apt-get") is None:
        return f"{', '.join(absent)} missing; on Debian: {how}"
    return f"{', '.join(absent)} missing; {'' if os.geteuid() == 0 else 'as root: '}{how}"

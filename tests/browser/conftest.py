"""One browser for all tests, and a worker of its own for each: another port is another origin, which knows nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome

from tests.api.serving import loaded_with
from tests.browser.looking import Page, one_window
from tests.browser.serving import Worker, browsing, missing, working


@pytest.fixture(scope="session")
def driver(tmp_path_factory) -> Iterator[Chrome]:
    """Without the browser these tests fail, and never skip: a page that nobody looked at is no page that works."""
    if missing():
        pytest.fail(missing(), pytrace=False)
    with browsing(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def worker() -> Iterator[Worker]:
    with working(loaded_with()) as found:
        yield found


@pytest.fixture
def page(driver, worker) -> Iterator[Page]:
    with one_window(driver, worker.url) as found:
        yield found

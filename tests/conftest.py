"""What holds for every test: with CI=true nothing skips, no deadline of hypothesis judges a busy machine, and one
broker serves all that need one, wherever they lie.
"""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Generator, Iterator
from typing import Any, TypeVar

import hypothesis
import pytest

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

IN_CI = os.environ.get("CI", "").lower() == "true"

# With CI=true hypothesis loads a profile of its own that has no deadline either and repeats itself.
if not IN_CI:
    hypothesis.settings.register_profile("local", deadline=None)
    hypothesis.settings.load_profile("local")


def _fail_if_skipped(report: Report) -> Report:
    # An expected failure (xfail) reports "skipped" too, and hides a missing piece as well as a skip does.
    if IN_CI and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped, and with CI=true nothing may skip: {report.longrepr}"
        vars(report).pop("wasxfail", None)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _fail_if_skipped((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A module that skips itself while it is imported is reported here, not as a test."""
    return _fail_if_skipped((yield))


# The broker is imported late: the rules above are tested in a folder where nothing else of the project lies.


def pytest_collection_finish(session: pytest.Session) -> None:
    wanted = any(item.get_closest_marker("broker") for item in session.items)
    if wanted and not session.config.option.collectonly:
        from tests.integration.serving import fetch_jars

        fetch_jars()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """aiokafka forgets a connection whose opening is cancelled, and tests that kill or freeze a broker make it do so.
    Nobody is left to be told when the last of them is collected: without this a run of passed tests ended with 1."""
    if any(item.get_closest_marker("broker") for item in session.items):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@pytest.fixture(scope="session")
def bootstrap_servers() -> Iterator[str]:
    """One broker serves every test, so tests keep apart by fresh names for topics, groups and transactional ids."""
    from tests.integration.serving import shared_broker

    with shared_broker() as found:
        yield found


@pytest.fixture
def own_broker(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A broker for one test that kills it or needs settings of its own, given by indirect parametrization."""
    from tests.integration.kafka_broker import KraftBroker
    from tests.integration.serving import running

    with running(KraftBroker(settings=getattr(request, "param", {}))) as broker:
        yield broker

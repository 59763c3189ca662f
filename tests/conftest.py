"""What holds for every test: with CI=true nothing skips, and no deadline of hypothesis judges a busy machine."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import TypeVar

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

"""Rows as tables: read like a Faust table, and not to be written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tpf_streams import App
from tpf_streams.runtime.views import LogViews
from tpf_streams.testing import TopologyTestDriver

FRAUD_CHECK = Path(__file__).parents[3] / "topologies/fraud_check/pipeline.yaml"
ORDER = {"amount": "12.50", "currency": "EUR"}


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(FRAUD_CHECK, partitions=3) as driver:
        yield driver


@pytest.fixture
def app(driver: TopologyTestDriver, monkeypatch: pytest.MonkeyPatch) -> App:
    """An app whose engine is the driver."""
    monkeypatch.setattr(App, "_views", lambda self: LogViews(driver.log, driver.definition))
    return App("fraud-check", pipeline=FRAUD_CHECK)


def test_rows_are_found_by_id_and_listed_from_every_partition(app, driver):
    ids = {driver.submit({"orderId": f"o-{number}", **ORDER}) for number in range(8)}
    assert set(app.executions) == ids == {row.execution_id for row in app.executions.values()}
    assert len(app.executions) == len(app.units) == len(app.interactions) == 8
    one = next(iter(ids))
    assert app.executions[one].status == "WAITING_EXTERNAL"
    assert one in app.executions
    unit = app.executions[one].await_unit_id
    assert app.units[unit].execution_id == one
    assert dict(app.interactions.items()).keys() == {row["interactionId"] for row in driver.requests()}


def test_what_is_not_there(app):
    assert app.executions.get("3a335cc4-30ef-8693-a781-ae522d566975") is None
    with pytest.raises(KeyError):
        _ = app.interactions["no id"]
    assert "no id" not in app.units


@pytest.mark.parametrize("name", ["executions", "units", "interactions"])
def test_writing_is_refused_with_the_reason(app, name):
    table = getattr(app, name)
    with pytest.raises(TypeError, match="is read-only: its rows change in the turns of their partition's task alone"):
        table["x"] = 1
    with pytest.raises(TypeError, match="submit, complete or cancel instead"):
        del table["x"]

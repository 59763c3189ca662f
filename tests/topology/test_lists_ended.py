"""Lists over await boundaries that end otherwise: answers that come late or twice, cancels, items that fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.topology.shapes import (
    INBOX,
    KAFKA,
    Steps,
    answer_everything,
    answer_of,
    given_to,
    open_shape,
    results,
)
from tpf_streams.core.step import Json
from tpf_streams.testing import TopologyTestDriver
from tpf_streams.testing.faults import raising

MINUTE_MS = 60_000
LIST = [{"id": "a"}, {"id": "b"}, {"id": "c"}]
TRANSPORTS = pytest.mark.parametrize("transport", [KAFKA, INBOX], ids=["live", "durable"])


def held(driver: TopologyTestDriver) -> int:
    return sum(driver.application.environment.budgets.held(index) for index in range(4))


@TRANSPORTS
@pytest.mark.parametrize("letters", ["ek", "jk", "mk", "Skj"])
def test_a_late_answer_ends_it(tmp_path, letters, transport):
    """R25: one outcome, whichever comes first; nothing is left over."""
    with open_shape(tmp_path, letters, transport=transport) as driver:
        execution_id = driver.submit(given_to(letters))
        waiting = driver.pending()
        driver.advance(MINUTE_MS + 1)
        assert (driver.execution(execution_id).status, driver.execution(execution_id).error_code) == (
            "FAILED",
            "AWAIT_TIMEOUT",
        )
        for row in waiting:
            token = driver.definition.signer.sign(row.claims())
            payload: Json = answer_of(letters[row.step_index], row.request_payload)
            assert driver.answer(row, payload, resumeToken=token) in ("late", "terminal")
        assert driver.outputs() == [] and driver.pending() == [] and held(driver) == 0


@TRANSPORTS
def test_an_answer_before_the_deadline_wins(tmp_path, transport):
    """R25."""
    with open_shape(tmp_path, "es", transport=transport) as driver:
        execution_id = driver.submit({"id": "i"})
        driver.advance(MINUTE_MS)
        answer_everything(driver, "es")
        driver.advance(MINUTE_MS)
        assert driver.execution(execution_id).status == "SUCCEEDED"


@TRANSPORTS
@pytest.mark.parametrize("what", ["execution", "interaction"])
def test_many_to_one_is_cancelled(tmp_path, transport, what):
    """R27: a cancellation or an answer, never both."""
    with open_shape(tmp_path, "Sjk", transport=transport) as driver:
        execution_id = driver.submit({"id": "i"})
        (row,) = driver.pending()
        cancel: dict[str, Callable[[], str]] = {
            "execution": lambda: driver.cancel_execution(execution_id),
            "interaction": lambda: driver.cancel_interaction(row.interaction_id),
        }
        cancel[what]()
        token = driver.definition.signer.sign(row.claims())
        assert driver.answer(row, {"id": "x"}, resumeToken=token) == "terminal"
        assert driver.execution(execution_id).status == "FAILED"
        assert driver.interaction(row.interaction_id).status == "CANCELLED"
        assert driver.pending() == [] and held(driver) == 0


def test_an_answered_one_is_not_cancelled(tmp_path):
    """R27."""
    with open_shape(tmp_path, "Sjk") as driver:
        execution_id = driver.submit({"id": "i"})
        (row,) = driver.pending()
        assert driver.answer(driver.requests()[0], {"id": "j"}) == "admitted"
        driver.cancel_interaction(row.interaction_id)
        assert driver.interaction(row.interaction_id).status == "COMPLETED"
        answer_everything(driver, "Sjk")
        assert driver.execution(execution_id).status == "SUCCEEDED"


def test_the_same_list_again_is_a_duplicate(tmp_path):
    with open_shape(tmp_path, "eks") as driver:
        driver.submit({"id": "i"})
        request: dict[str, Any] = driver.requests()[0]
        assert driver.answer(request, LIST) == "admitted"
        driver.crash()
        assert driver.answer(request, LIST) == "duplicate"
        assert driver.answer(request, LIST[:2]) == driver.answer(request, [*LIST[:2], {"id": "d"}]) == "conflict"
        assert len(driver.requests()) == 1 + len(LIST)


def test_items_that_are_late_or_fail_are_not_in_the_list(tmp_path):
    settings = {"await.onItemTimeout": "REJECT_ITEM", "onItemFailure": "REJECT_ITEM"}
    with open_shape(tmp_path, "SSkj", settings=settings) as driver:
        execution_id = driver.submit({"id": "i"})
        for request in driver.requests()[1:3]:
            driver.answer(request, answer_of("k", request["requestPayload"]))
        driver.advance(MINUTE_MS + 1)
        answer_everything(driver, "SSkj")
        execution = driver.execution(execution_id)
        assert execution.summary is not None
        assert results(driver, execution_id) == [{"id": "(ixyk+iyxk)"}]
        assert (execution.summary.items, execution.summary.rejected_items) == (4, 2)
        assert {it.item_index for it in driver.rejects(execution_id)} == {0, 3}


def test_a_step_that_raises_for_a_while_gets_the_list_again(tmp_path):
    functions = {"Step J1": raising(Steps("").join, 2)}
    with open_shape(tmp_path, "SJ", functions=functions) as driver:
        execution_id = driver.submit({"id": "i"})
        driver.advance(10 * MINUTE_MS)
        assert results(driver, execution_id) == [{"id": "(ix+iy)"}]

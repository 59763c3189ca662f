"""Every order of up to three shapes, service steps and await steps, gives what its steps say, in order."""

from __future__ import annotations

from itertools import product

import pytest

from tests.topology.shapes import (
    CARDINALITY,
    INBOX,
    KAFKA,
    answer_everything,
    expected,
    given_to,
    open_shape,
    results,
)

ORDERS = ["".join(letters) for count in (1, 2, 3) for letters in product(CARDINALITY, repeat=count)]


@pytest.mark.parametrize("transport", [KAFKA, INBOX], ids=["live", "durable"])
@pytest.mark.parametrize("first", list(CARDINALITY))
def test_every_order_of_shapes(tmp_path, first, transport):
    for letters in (it for it in ORDERS if it[0] == first):
        given = given_to(letters)
        with open_shape(tmp_path, letters, transport=transport) as driver:
            execution_id = driver.submit(given)
            answer_everything(driver, letters)
            execution = driver.execution(execution_id)
            assert (letters, execution.status, execution.error_message) == (letters, "SUCCEEDED", None)
            assert (letters, results(driver, execution_id)) == (letters, expected(letters, given))
            assert len(driver.outputs()) == len(expected(letters, given))
            assert driver.views.owed_count() == driver.views.pending_count() == 0
            for index in range(len(letters)):
                assert driver.application.environment.budgets.held(index) == 0

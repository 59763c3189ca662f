"""Redrives between any two answers of pipelines with lists: nothing answered is asked for again (contract 0.14)."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.topology.shapes import INBOX, KAFKA, answer_of, expected, given_to, open_shape, results
from tests.topology.test_lists import LONG
from tpf_streams.core.interaction import InteractionRecord, InteractionStatus
from tpf_streams.testing import TopologyTestDriver

FEW = 200


def answer_one(driver: TopologyTestDriver, letters: str, interaction: InteractionRecord) -> None:
    token = driver.definition.signer.sign(interaction.claims())
    payload = answer_of(letters[interaction.step_index], interaction.request_payload)
    assert driver.answer(interaction, payload, resumeToken=token) == "admitted"


def asked_once(driver: TopologyTestDriver) -> None:
    """Who has an answer is not asked again: one completed interaction a step and item, the last one there is."""
    rows = list(driver.views.records("interactions", InteractionRecord))
    answered = Counter((it.step_index, it.item_index) for it in rows if it.status is InteractionStatus.COMPLETED)
    assert max(answered.values(), default=0) <= 1
    keys = {(it.step_index, it.item_index, it.idempotency_key) for it in rows}
    assert len(keys) == len({(step, item) for step, item, _ in keys}), "the same idempotency key each time"


@pytest.mark.parametrize("transport", [KAFKA, INBOX], ids=["live", "durable"])
@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("letters", LONG)
def test_a_redrive_behind_every_answer(tmp_path, letters, transport, crash):
    random, given = Random(7), given_to(letters)
    with open_shape(tmp_path, letters, transport=transport) as driver:
        execution_id = driver.submit(given)
        for _ in range(FEW):
            pending = driver.pending()
            if not pending:
                break
            answer_one(driver, letters, random.choice(pending))
            if driver.cancel_execution(execution_id) == "terminal":
                break
            if crash:
                driver.crash()
            assert driver.redrive(execution_id) == "redriven"
        found = driver.execution(execution_id)
        assert (found.status, found.error_code) == ("SUCCEEDED", None)
        assert results(driver, execution_id) == expected(letters, given)
        assert len(driver.outputs()) == len(expected(letters, given))
        assert driver.rejects(execution_id) == []
        asked_once(driver)
        assert sum(driver.application.environment.budgets.held(step) for step in range(len(letters))) == 0


@pytest.mark.parametrize("letters", LONG)
def test_a_redrive_behind_time_outs(tmp_path, letters):
    """Everything that waits is late, again and again, and is asked for anew."""
    random, given = Random(5), given_to(letters)
    with open_shape(tmp_path, letters) as driver:
        execution_id = driver.submit(given)
        for turn in range(FEW):
            pending = driver.pending()
            if not pending:
                break
            if turn % 3 == 2:
                driver.advance(max(it.deadline_epoch_ms for it in pending) - driver.clock.now_ms() + 1)
                driver.advance(1_000)
                assert driver.execution(execution_id).error_code == "AWAIT_TIMEOUT"
                assert driver.redrive(execution_id) == "redriven"
            else:
                answer_one(driver, letters, random.choice(pending))
        assert driver.execution(execution_id).status == "SUCCEEDED"
        assert results(driver, execution_id) == expected(letters, given)
        asked_once(driver)

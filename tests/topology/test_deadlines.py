"""Deadlines by the thousand pass in bounded turns beside other work; after an outage once, behind what came in time."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from tests.field.pipelines import MINUTE_MS, REJECT, RESPONSES, STREAM, open_driver
from tests.field.sequences import completion
from tests.unit.core.machine import TIMEOUT_MS
from tests.unit.engine.shell import Shell
from tpf_streams.core.events import ExecutionSubmitted
from tpf_streams.core.identity import IdFactory
from tpf_streams.core.step import OnItemTimeout
from tpf_streams.engine.wire import encode_submission
from tpf_streams.ports import Record

ROWS, SWEPT = 3_000, 100
APPROVED = {"status": "APPROVED"}


def source(count):
    for number in range(count):
        yield {"n": number}


async def test_thousands_that_share_a_deadline_pass_in_bounded_turns_beside_other_work():
    """Over a crash in the middle each ends once, and what comes meanwhile does not wait behind them."""
    shell = await Shell("Si", source, on_item_timeout=OnItemTimeout.REJECT_ITEM, sweep_limit=SWEPT).open()
    execution_id = await shell.submit(ROWS)
    rows = shell.open_interactions()
    assert (len(rows), len({row.deadline_epoch_ms for row in rows})) == (ROWS, 1)
    shell.clock.advance(TIMEOUT_MS + 1)
    another = IdFactory("ids").execution_id("tenant-1", "pay", "another", 0)
    left = [ROWS]
    while left[-1] and len(left) < ROWS:
        if len(left) == 5:
            await shell.append(encode_submission(ExecutionSubmitted("tenant-1", "another", 1)))
        if len(left) == 12:
            await shell.reopen()
        await shell.task.turn()
        assert len(left) < 5 or not shell.execution(another).status.terminal
        left.append(sum(row.execution_id == execution_id for row in shell.open_interactions()))
    swept = [before - after for before, after in pairwise(left)]
    assert (max(swept), len(swept) <= ROWS // SWEPT + 2) == (SWEPT, True)
    await shell.settle()
    assert shell.observer.count("interaction.ended.total") == ROWS
    execution = shell.execution(execution_id)
    assert execution.summary is not None
    assert (execution.status, execution.summary.rejected_items) == ("SUCCEEDED", ROWS)
    await shell.task.close()


def test_after_an_outage_what_came_in_time_goes_before_thousands_that_are_overdue(tmp_path):
    """More answers wait in the topic than a turn takes, and a third never comes: each row ends once, by the deadline
    that it has stored, and a crash behind it changes nothing."""
    count, silent = 1_000, 334
    settings = {**REJECT, "pipeline.max-concurrency": "1024", "pipeline.orchestrator.sweep-limit": str(SWEPT)}
    with open_driver(tmp_path, STREAM, settings=settings) as driver:
        execution_id = driver.submit({"count": str(count)})
        requests = driver.requests()
        stored = {row.interaction_id: row.deadline_epoch_ms for row in driver.pending(count)}
        assert len(stored) == len(requests) == count
        driver.stop()
        driver.advance(MINUTE_MS - 1)
        answers = [Record(RESPONSES, None, completion(it, APPROVED)) for it in requests[silent:]]
        driver._call(driver.log.append(answers))
        driver.advance(24 * 60 * MINUTE_MS)
        driver.start()
        driver.crash()
        rows = [driver.interaction(it["interactionId"]) for it in requests]
        assert {row.interaction_id: row.deadline_epoch_ms for row in rows} == stored
        assert Counter(str(row.status) for row in rows) == {"TIMED_OUT": silent, "COMPLETED": count - silent}
        assert driver.tally.dropped == {}
        assert driver.metric("interaction.ended.total") == silent
        assert driver.metric("completion.admitted.total") == count - silent
        execution = driver.execution(execution_id)
        assert execution.summary is not None
        assert (execution.summary.outputs, execution.summary.rejected_items) == (count - silent, silent)

"""Who waits for an outcome is told it, or that whoever decides is gone; and nobody waits for ever."""

from __future__ import annotations

import asyncio

import pytest

from tpf_streams.engine.answers import Answers
from tpf_streams.errors import TaskLostError


async def test_each_is_told_its_own_outcome():
    answers = Answers()
    one, two = answers.expect("1", 0), answers.expect("2", 0)
    answers.resolve("2", "duplicate")
    assert (await two, one.done()) == ("duplicate", False)
    answers.resolve("3", "admitted")
    answers.resolve("2", "conflict")
    one.cancel()


async def test_with_a_task_go_the_questions_that_it_was_to_decide():
    answers = Answers()
    lost, other, anybodys = answers.expect("1", 0), answers.expect("2", 1), answers.expect("3")
    answers.lose(0)
    with pytest.raises(TaskLostError, match="partition 0"):
        await lost
    answers.resolve("1", "admitted")
    answers.lose(0)
    assert not other.done()
    assert not anybodys.done()
    answers.resolve("2", "admitted")
    answers.lose(1)
    assert await other == "admitted"
    anybodys.cancel()
    await asyncio.sleep(0)
    assert (answers._open, answers._partitions) == ({}, {})

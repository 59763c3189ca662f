"""Executions of partitions that other workers have: their end is seen by rows, and what cannot be seen is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tpf_streams.core.execution import ExecutionRecord, ExecutionStatus
from tpf_streams.core.identity import IdFactory, partition_of, route_of
from tpf_streams.core.rows import Keys, encode, execution_of, tells_of_execution
from tpf_streams.dsl.load import load_pipeline
from tpf_streams.engine.clock import SystemClock
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.runtime.build import build
from tpf_streams.runtime.elsewhere import Elsewhere
from tpf_streams.runtime.operator import Operator
from tpf_streams.runtime.refusals import OperatorError
from tpf_streams.runtime.run_tally import RunTally

APPROVAL = Path(__file__).parents[3] / "topologies/restaurant_approval/pipeline.yaml"
ID = IdFactory("secret").execution_id("default", "p", "key", 0)
OTHER_ID = IdFactory("secret").execution_id("default", "p", "other", 0)
KEYS = Keys(3)


def execution(execution_id: str, status: ExecutionStatus) -> bytes:
    nothing: Any = None
    return encode(
        ExecutionRecord(
            *("default", execution_id, "key", "p", 0, 0, status, 1, 0, 0),
            *(nothing, nothing, nothing, nothing, nothing, nothing, 1, 1),
        )
    )


class FollowedLog:
    """What `Elsewhere` asks of the log on Kafka; a test says what moves."""

    moved: Any
    asked = 0

    async def follow(self, wanted: Any, moved: Any) -> None:
        assert wanted is tells_of_execution
        self.moved = moved

    async def known(self) -> None:
        self.asked += 1


async def test_the_end_of_an_execution_is_seen_by_its_row():
    log, tally = FollowedLog(), RunTally()
    elsewhere = Elsewhere(log, tally)  # type: ignore[arg-type]
    await elsewhere.open()
    tally.follow([ID])
    log.moved({KEYS.execution(ID): execution(ID, ExecutionStatus.RUNNING), KEYS.session(ID): b"not decoded"})
    log.moved({KEYS.execution(OTHER_ID): b"not decoded", KEYS.execution(ID): None})
    assert (tally.following, tally.moved.is_set()) == ({ID}, False)
    log.moved({KEYS.execution(ID): execution(ID, ExecutionStatus.SUCCEEDED)})
    assert (tally.following, tally.moved.is_set()) == (set(), True)
    await elsewhere.known()
    assert log.asked == 1


def test_what_tells_of_an_execution():
    rows = [KEYS.execution(ID), KEYS.session(ID), KEYS.output(ID, None)]
    assert all(map(tells_of_execution, rows))
    assert {execution_of(key) for key in rows} == {ID}
    assert not any(map(tells_of_execution, [KEYS.output(ID, 0), KEYS.output(ID, 7), KEYS.interaction(ID), KEYS.now]))


class PartLog(MemoryLog):
    """Some of its partitions are with another worker."""

    others: tuple[int, ...] = ()

    @property
    def unseen(self) -> tuple[int, ...]:
        return self.others


@pytest.fixture
def operator():
    loaded = load_pipeline(APPROVAL, environ={})
    log = PartLog(application_id=loaded.definition.application_id, partitions=4)
    log.others = (partition_of(route_of(ID) or 0, 4),)
    return Operator(loaded.definition, log, build(loaded, log, SystemClock()))


async def test_an_answer_says_what_it_does_not_cover(operator):
    for command in ("status", "pending", "describe"):
        assert (await operator.answer(command, {}))["unseenPartitions"] == list(operator._log.unseen)
    operator._log.others = ()
    assert "unseenPartitions" not in await operator.answer("pending", {})


@pytest.mark.parametrize("name", ["interactionId", "correlationId"])
async def test_a_completion_that_another_worker_decides_is_refused_at_once(operator, name):
    with pytest.raises(OperatorError, match=r"partition \d, where it is waited for, is with another worker"):
        await operator.answer("complete", {name: ID, "payload": "{}"})

"""What people are told of executions that have been deleted (contract 0.18)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.core.machine import START_MS
from tpf_streams.core import rows
from tpf_streams.core.execution import TombstoneRecord
from tpf_streams.core.identity import partition_of, route_of
from tpf_streams.core.step import SourceObject
from tpf_streams.dsl.load import load_pipeline
from tpf_streams.engine.clock import SystemClock
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.ports import Turn
from tpf_streams.runtime.application import Application
from tpf_streams.runtime.build import build
from tpf_streams.runtime.inputs import Submission
from tpf_streams.runtime.intake import Intake
from tpf_streams.runtime.operator import Operator
from tpf_streams.runtime.refusals import OperatorError
from tpf_streams.runtime.run_tally import RunTally

APPROVAL = Path(__file__).parents[3] / "topologies/restaurant_approval/pipeline.yaml"
SECRET = {"pipeline.orchestrator.resume-token-secret": "a-secret-for-tests-only"}
SOURCE = SourceObject("orders", "file", "in", "a.csv", "ab" * 32, "/data/in/a.csv")


class Scene:
    """An application whose execution of one key is gone; nothing runs."""

    def __init__(self, life: int = 0, *, over: bool = True) -> None:
        loaded = load_pipeline(APPROVAL, settings_overrides=SECRET)
        self.log = MemoryLog(application_id=loaded.definition.application_id, partitions=2)
        self.application: Application = build(loaded, self.log, SystemClock())
        self.operator = Operator(loaded.definition, self.log, self.application)
        self.id = self.application.execution_id("key-1")
        self.stone = TombstoneRecord("default", "key-1", self.id, life, START_MS if over else None)

    async def bury(self) -> Scene:
        partition = partition_of(route_of(self.id) or 0, 2)
        task = await self.log.open_task(partition)
        await task.commit(Turn([], {rows.Keys(partition).tombstone(self.id): rows.encode(self.stone)}, {}))
        await task.close()
        return self

    def intake(self) -> Intake:
        return Intake(self.application, self.operator.views, RunTally())


@pytest.mark.parametrize("command", ["status", "redrive", "cancel"])
async def test_what_is_asked_of_a_deleted_execution_has_a_clear_answer(command: str):
    scene = await Scene().bury()
    arguments: dict[str, Any] = {"executionId": scene.id, "id": scene.id}
    with pytest.raises(OperatorError, match=r"has been deleted .*execution-ttl-days"):
        await scene.operator.answer(command, arguments)


async def test_an_object_whose_execution_is_gone_is_asked_for_and_not_waited_for():
    scene = await Scene().bury()
    intake = scene.intake()
    await intake._submit(Submission("key-1", {"n": 1}, SOURCE))
    assert (intake.forgotten, list(intake.execution_ids)) == (1, [])
    assert len(list(scene.log.read(scene.log.events_topic))) == 1


@pytest.mark.parametrize(("life", "over", "met"), [(0, True, 1), (4, True, 5), (4, False, 4)])
async def test_a_key_that_is_used_again_is_followed_in_the_life_it_gets(life: int, over: bool, met: int):
    scene = await Scene(life, over=over).bury()
    intake = scene.intake()
    await intake._submit(Submission("key-1", {"n": 1}))
    assert list(intake.execution_ids) == [scene.application.execution_id("key-1", life=met)]

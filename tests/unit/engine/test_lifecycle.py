"""The lifecycle record: what it says, its numbers, its size, and what an unknown one does."""

from __future__ import annotations

import orjson
import pytest

from tests.unit.core.machine import pipeline
from tests.unit.engine.shell import Shell
from tpf_streams.core.effects import Fact
from tpf_streams.core.state import State
from tpf_streams.engine import lifecycle
from tpf_streams.engine.lifecycle import LifecycleWriter, decode_lifecycle, lifecycle_topic
from tpf_streams.engine.task import Task
from tpf_streams.errors import LogCorruptError
from tpf_streams.logs.memory.rows import MemoryRows

TOPIC = lifecycle_topic("pay")
SCALAR = [
    *("start", "await_admission_acquired", "await_interaction_dispatched", "await_unit_dispatch_complete"),
    *("await_execution_waiting", "await_completion_admitted", "await_admission_released", "await_unit_completed"),
    *("await_unit_terminal", "await_resume_released", "emit", "success"),
]
GOLDEN = (
    b'{"v":1,"at":1700000000000,"names":["await_interaction_dispatched","emit"],'
    b'"scopes":[["e-1","u-1",1,"S","kafka"],["e-1"],[null]],'
    b'"first":41,"events":[[0,0,7,"i-1","c-1"],[1,1,7,null,null,{"outputs":1,"more":true},"later"],[1,2]]}'
)


def step(value):
    return {"done": value}


def events_of(shell):
    return [
        event
        for record in shell.log.read(TOPIC)
        for event in decode_lifecycle(record.value, f"{record.topic}/{record.offset}")
    ]


async def scalar(shell):
    execution_id = await shell.submit({"n": 1}, "one")
    await shell.answer(shell.open_interactions()[0])
    await shell.settle()
    return execution_id


async def test_a_scalar_execution_tells_its_causes_before_its_effects():
    shell = await Shell("sks", step, step).open()
    execution_id = await scalar(shell)
    found = events_of(shell)
    assert [event.name for event in found] == SCALAR
    assert {event.execution_id for event in found} == {execution_id}
    numbers = [event.number for event in found]
    assert numbers == list(range(len(found)))


async def test_the_numbers_go_on_after_a_restart():
    shell = await Shell("sks", step, step).open()
    await scalar(shell)
    count = len(events_of(shell))
    await shell.reopen()
    await shell.submit({"n": 2}, "two")
    later = events_of(shell)[count:]
    assert [event.number for event in later] == list(range(count, count + len(later)))
    assert later[0].name == "start"


async def test_without_the_setting_nothing_is_written():
    shell = Shell("sks", step, step)
    shell.env.lifecycle = False
    shell.task = Task(0, shell.env)
    await shell.open()
    await scalar(shell)
    assert list(shell.log.read(TOPIC)) == []


async def test_a_turn_too_large_for_one_record_has_several(monkeypatch):
    monkeypatch.setattr(lifecycle, "RECORD_BYTES_MAX", 600)
    shell = await Shell("sks", step, step).open()
    await scalar(shell)
    assert all(len(record.value or b"") <= 600 for record in shell.log.read(TOPIC))
    found = events_of(shell)
    assert [event.name for event in found] == SCALAR
    assert [event.number for event in found] == list(range(len(SCALAR)))


def test_a_fact_about_nothing_is_for_metrics_alone():
    """Nor may it raise: the partition would never come behind the turn."""
    writer = LifecycleWriter(pipeline("sks"), 0)
    facts = [Fact(name, {}) for name, (wanted, _) in lifecycle._EVENTS.items() if not isinstance(None, wanted)]
    assert len(facts) > 10
    assert writer.records([*facts, Fact("never.heard.of.total", {})], State(MemoryRows(), 0, pipeline("sks"))) == []


def test_format_1_is_read_for_ever():
    first, second, third = decode_lifecycle(GOLDEN, "here")
    assert (first.number, first.at_ms, first.name) == (41, 1_700_000_000_000, "await_interaction_dispatched")
    assert (first.execution_id, first.unit_id, first.step_index, first.step_id, first.transport) == (
        *("e-1", "u-1", 1, "S", "kafka"),
    )
    assert (first.item_index, first.interaction_id, first.correlation_id, first.detail) == (7, "i-1", "c-1", None)
    assert (second.number, second.execution_id, second.unit_id) == (42, "e-1", None)
    assert second.detail == {"outputs": 1, "more": True}
    assert (third.number, third.execution_id) == (43, None)


@pytest.mark.parametrize(
    "value", [b"", b"[]", b"{", b'{"v":1}', orjson.dumps({**orjson.loads(GOLDEN), "names": []})], ids=repr
)
def test_what_is_no_record_names_its_place(value):
    with pytest.raises(LogCorruptError, match="t/0/3: this is no lifecycle record"):
        list(decode_lifecycle(value, "t/0/3"))


def test_a_later_format_is_refused_and_not_guessed():
    later = orjson.dumps({**orjson.loads(GOLDEN), "v": 2})
    with pytest.raises(LogCorruptError, match="t/0/3: lifecycle format 2; this program reads 1"):
        list(decode_lifecycle(later, "t/0/3"))

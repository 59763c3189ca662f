"""What earlier versions left behind is restored by today's code, and goes on to its end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.replay import make
from tests.replay.steps import PROJECTIONS, definition_options, source, step
from tests.unit.core.machine import TIMEOUT_MS
from tests.unit.engine.shell import Shell
from tpf_streams.core import rows
from tpf_streams.core.execution import ExecutionRecord, OutputRecord, OwedRecord, RejectRecord, TombstoneRecord
from tpf_streams.core.interaction import EarlyRecord, InteractionRecord
from tpf_streams.core.step import Limits
from tpf_streams.core.unit import AwaitUnitRecord, SessionRecord
from tpf_streams.engine.wire import decode_event, events_topic
from tpf_streams.ports import InputRecord, Record

FILES = sorted((Path(__file__).parent / "data").glob("*/*.json"))
each_file = pytest.mark.parametrize("file", FILES, ids=[f"{it.parent.name}-{it.stem}" for it in FILES])
CLASSES: dict[bytes, type] = {
    b"e": ExecutionRecord,
    b"s": SessionRecord,
    b"u": AwaitUnitRecord,
    b"i": InteractionRecord,
    b"o": OutputRecord,
    b"r": RejectRecord,
    b"w": OwedRecord,
    b"x": TombstoneRecord,
    b"y": EarlyRecord,
}


class Outside:
    """A transport outside the log that always succeeds."""

    def __init__(self, kind: str) -> None:
        self.type = kind

    def request_record(self, step: object, interaction: object) -> Record | None:
        return None

    async def send(self, step: object, interaction: object) -> Mapping[str, object]:
        return {"adapter": self.type}


class Publisher:
    def publish(self, execution, incarnation, outputs, rejects) -> str:
        self.outputs, self.rejects = [it.payloads for it in outputs], [it.reason for it in rejects]
        return "payments.csv.out"


def restored(document: dict[str, Any]) -> Shell:
    shape = document["shape"]
    functions = [source if letter == "S" else step for letter in shape if letter in "Ss"]
    transports: Any = {it: Outside(it) for it in ("webhook", "sqs")} if set(shape) & set("wq") else None
    shell = Shell(shape, *functions, transports=transports, **definition_options(document["options"]))
    shell.clock.jump(document["now_ms"] - shell.clock.now_ms())
    shell.env.publisher = Publisher()
    found = {bytes.fromhex(key): bytes.fromhex(value) for key, value in document["rows"].items()}
    shell.log._state.stores[0].write(found)
    return shell


def parts_of(event: dict[str, Any]) -> tuple[bytes | None, bytes, tuple[tuple[str, bytes], ...]]:
    key = None if event["key"] is None else bytes.fromhex(event["key"])
    return key, bytes.fromhex(event["value"]), tuple((name, bytes.fromhex(it)) for name, it in event["headers"])


@each_file
async def test_it_goes_on_to_its_end(file):
    document = json.loads(file.read_text())
    shell = restored(document)
    await shell.log.append([Record(events_topic("pay"), *parts_of(event), 0) for event in document["events"]])
    await shell.open()
    await shell.settle()
    while interactions := shell.open_interactions():
        for row in interactions:
            await shell.answer(row, {"approved": {"ok": True}})
        await shell.settle()
    ends = {it: [shell.execution(it).status.value, shell.execution(it).error_code] for it in document["ends"]}
    assert ends == document["ends"]
    assert shell.owed() == []
    assert [shell.env.budgets.held(index) for index in range(len(document["shape"]))] == [0] * len(document["shape"])
    await shell.pass_time(TIMEOUT_MS + shell.env.deadline_grace_ms + 1)
    assert shell.task.state.early_rows == 0
    assert shell.dead_letters() == []
    await shell.task.close()


async def test_an_answer_that_was_admitted_is_not_projected_again():
    document = json.loads((Path(__file__).parent / "data" / "v1-projected" / "projected.json").read_text())
    shell = restored(document)
    await shell.log.append([Record(events_topic("pay"), *parts_of(event), 0) for event in document["events"]])
    PROJECTIONS.clear()
    await shell.open()
    await shell.settle()
    asked = next(iter(document["ends"]))
    assert [{"said": asked}] == PROJECTIONS
    given = {it["of"]["answered"]["said"]: it["of"]["asked"] for it in shell.outputs()}
    assert given == {it: {"n": n} for n, it in enumerate(document["ends"])}
    await shell.task.close()


async def test_a_restored_session_gives_every_item_once_and_in_order():
    document = json.loads((Path(__file__).parent / "data" / "v1" / "live.json").read_text())
    shell = restored(document)
    await shell.log.append([Record(events_topic("pay"), *parts_of(event), 0) for event in document["events"]])
    await shell.open()
    await shell.settle()
    while interactions := shell.open_interactions():
        for row in interactions:
            await shell.answer(row, {"approved": row.item_index})
        await shell.settle()
    (execution_id,) = document["ends"]
    execution = shell.execution(execution_id)
    assert execution.summary is not None
    assert execution.summary.by_arm == {"approved": 4, "rejected": 1}
    assert execution.published == "payments.csv.out"
    publisher = shell.env.publisher
    assert isinstance(publisher, Publisher)
    assert len(publisher.outputs) == 5
    assert publisher.outputs[0] == [{"out": "0"}]
    assert publisher.outputs[4] == [{"of": {"approved": 4}}]
    assert publisher.rejects == ["no decimal"]
    await shell.task.close()


async def test_a_deletion_goes_on_where_it_was():
    document = json.loads((Path(__file__).parent / "data" / "v1-retention" / "retention.json").read_text())
    shell = restored(document)
    await shell.open()
    await shell.settle()
    left = [key[2:3] for key, _ in shell.log.store(0).scan(b"", b"\xff" * 64)]
    assert sorted(set(left)) == [b"g", b"n", b"x"]
    assert left.count(b"x") == 2
    await shell.task.close()


@each_file
def test_every_row_is_read(file):
    for key, value in json.loads(file.read_text())["rows"].items():
        kind, raw = bytes.fromhex(key)[2:3], bytes.fromhex(value)
        if kind in CLASSES:
            record: Any = rows.decode(CLASSES[kind], raw)
            assert rows.decode(CLASSES[kind], rows.encode(record)) == record
        elif kind == b"m":
            assert rows.decode_markers(raw)
        else:
            assert kind in (b"c", b"d", b"g", b"j", b"n", b"t", b"z")
            assert rows.decode_bytes(raw) == raw[1:]


@each_file
def test_every_event_is_read(file):
    for event in json.loads(file.read_text())["events"]:
        decode_event(InputRecord("pay-events", 0, 0, 0, *parts_of(event)), Limits(), strict=True)


def test_the_files_hold_every_kind_of_row_and_event():
    kinds, events = set(), set()
    for file in FILES:
        document = json.loads(file.read_text())
        kinds |= {bytes.fromhex(key)[2:3] for key in document["rows"]}
        events |= {dict(parts_of(event)[2])["tpf-event"] for event in document["events"]}
    assert kinds == {bytes([it]) for it in b"cdegijmorstuwxyz"}
    assert events == {
        *(b"submit", b"completion", b"marker", b"life-ended"),
        *(b"cancel-session", b"cancel-execution", b"cancel-interaction", b"redrive"),
    }


@pytest.mark.parametrize("name", make.SCENES)
def test_the_generator_repeats_itself(name):
    assert make.SCENES[name]().document() == make.SCENES[name]().document()

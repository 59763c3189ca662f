"""Writes what today's version leaves behind: durable rows and records of the events topic, for later ones to find.

    python -m tests.replay.make tests/replay/data/NAME [SCENE...]

One JSON file a scene: {shape, options, now_ms, rows: {hex key: hex value}, events: [{key, value, headers}], ends}.
`ends`: execution id -> [status, error code] once the events are decided, the sources are empty, all work is done and
all requests are answered.
Deterministic: the same code writes the same bytes. What a released version has written is never written again; a later
format gets a name of its own beside it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import orjson

from tests.replay.steps import PROJECTED, definition_options, elements
from tests.unit.core.machine import Machine, pipeline, token
from tpf_streams.core import effects as fx
from tpf_streams.core import events as ev
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.step import SourceObject
from tpf_streams.engine.wire import (
    Parts,
    completion_record,
    encode_cancel,
    encode_life_ended,
    encode_marker,
    encode_redrive,
    encode_submission,
)

SOURCE = SourceObject("payments", "file", "in", "a/payments.csv", "ab" * 32, "/data/in/a/payments.csv")


class Scene:
    """A machine, the events that are in the log behind its rows, and how it has to end."""

    def __init__(self, shape: str, **options: Any) -> None:
        self.shape, self.options = shape, options
        self.machine = Machine(pipeline(shape, **definition_options(options)))
        self.events: list[Parts] = []
        self.ends: dict[str, list[str | None]] = {}

    def begin(
        self, payload: object = None, key: str = "key-1", *, ends: str = "SUCCEEDED", code: str | None = None
    ) -> str:
        execution_id = self.machine.submit(payload, key)
        self.ends[execution_id] = [ends, code]
        return execution_id

    def later(self, *parts: Parts) -> None:
        self.events.extend(parts)

    def answer(self, row: InteractionRecord, payload: object) -> Parts:
        envelope = {
            "tenantId": row.tenant_id,
            "interactionId": row.interaction_id,
            "correlationId": row.correlation_id,
            "resumeToken": token(row),
            "idempotencyKey": row.interaction_id,
            "actor": "provider",
            "responsePayload": payload,
        }
        found = completion_record(
            "t", 0, row.interaction_id, orjson.dumps(envelope), self.machine.now_ms, "responses/0/7"
        )
        return found.key, found.value or b"", found.headers

    def document(self) -> dict[str, Any]:
        rows = self.machine.store.scan(b"", b"\xff" * 64)
        return {
            "shape": self.shape,
            "options": self.options,
            "now_ms": self.machine.now_ms,
            "rows": {key.hex(): value.hex() for key, value in rows},
            "events": [
                {
                    "key": None if key is None else key.hex(),
                    "value": value.hex(),
                    "headers": [[name, found.hex()] for name, found in headers],
                }
                for key, value, headers in self.events
            ],
            "ends": self.ends,
        }


def scalar() -> Scene:
    """Executions at every place of one with a boundary in its middle; one more is submitted, one cancelled."""
    scene = Scene("sws")
    machine = scene.machine

    def boundary(key: str, **ends: Any) -> str:
        execution_id = scene.begin({"n": key}, key, **ends)
        machine.run_segments({"n": key})
        return execution_id

    scene.begin({"n": 0}, "at its first segment")
    unsent = boundary("not yet sent")
    machine.take(fx.SendOwed)
    sent = boundary("sent")
    machine.send()
    cancelled = boundary("to be cancelled", ends="FAILED", code="CANCELLED")
    declined = boundary("whose interaction is to be cancelled", ends="FAILED", code="AWAIT_CANCELLED")
    answered = boundary("answered")
    machine.answer(machine.interaction(answered, 1), {"answer": "1.50"})
    done = boundary("done")
    machine.answer(machine.interaction(done, 1), {"answer": "1.50"})
    machine.decide(ev.SegmentCompleted(machine.take(fx.RunSegment)[-1].owed, [{"done": True}]))
    failed = boundary("failed", ends="FAILED", code="AWAIT_TIMEOUT")
    row = machine.interaction(failed, 1)
    machine.answer(row, at_ms=row.deadline_epoch_ms + 1)
    scene.later(*[scene.answer(machine.interaction(it, 1), {"answer": "2.50"}) for it in (unsent, sent)])
    scene.later(encode_cancel(ev.ExecutionCancelled(cancelled, "an operator")))
    scene.later(encode_cancel(ev.InteractionCancelled(machine.interaction(declined, 1).interaction_id, "an operator")))
    scene.later(encode_submission(ev.ExecutionSubmitted("tenant-1", "submitted later", {"n": 9})))
    scene.ends[machine.state.ids.execution_id("tenant-1", "pay", "submitted later", 0)] = ["SUCCEEDED", None]
    return scene


def slot() -> Scene:
    """Executions that wait for a slot, and one that has it."""
    scene = Scene("k", max_concurrency=1)
    machine = scene.machine
    ids = [scene.begin({"n": n}, f"key-{n}") for n in range(2)]
    machine.decide(ev.SlotGranted(machine.take(fx.RequestSlot)[0].owed))
    scene.later(scene.answer(machine.interaction(ids[0], 0), {"ok": True}))
    return scene


def live() -> Scene:
    """A session in its middle: settled, rejected, answered and open items, and more in its source."""
    scene = Scene("Sks", max_concurrency=4, arms=["approved", "rejected"], publishes=True)
    machine = scene.machine
    machine.decide(ev.ExecutionSubmitted("tenant-1", "object:payments", 5, SOURCE))
    execution_id = machine.state.ids.execution_id("tenant-1", "pay", "object:payments", 0)
    scene.ends[execution_id] = ["SUCCEEDED", None]
    machine.pull(execution_id, elements(5)[:4])
    machine.answer(machine.interaction(execution_id, 1, 0), {"approved": {"fee": "1.01"}})
    machine.run_segments({"out": "0"})
    machine.answer(machine.interaction(execution_id, 1, 1), {"rejected": {"fee": "1.01"}})
    scene.later(scene.answer(machine.interaction(execution_id, 1, 2), {"approved": {"fee": "1.01"}}))
    scene.later(encode_marker(ev.ArrivalMarked({"responses/0": 8, "responses/1": 0})))
    scene.later(encode_cancel(ev.SessionCancelled(execution_id)))
    return scene


def durable() -> Scene:
    """A parked stream: released, held and open items, one rejected, one dispatch not known done."""
    scene = Scene("Sqs", max_concurrency=8)
    machine = scene.machine
    execution_id = scene.begin(5)
    machine.pull(execution_id, elements(5), ended=True)
    machine.decide(ev.RequestSent(machine.take(fx.SendOwed)[0].owed, {"adapter": "sqs"}))
    machine.answer(machine.interaction(execution_id, 1, 0), {"ok": 0})
    with mock.patch("tpf_streams.core.fallback.CLOSE_AT_ONCE", 2):
        machine.decide(ev.OwedDue(machine.take(fx.ContinueOwed)[0].owed))
    machine.answer(machine.interaction(execution_id, 1, 3), {"ok": 3})
    scene.later(*[scene.answer(machine.interaction(execution_id, 1, item), {"ok": item}) for item in (1, 2)])
    return scene


def closing() -> Scene:
    """A failed stream whose open interactions are not all closed yet."""
    scene = Scene("Sks", max_concurrency=8)
    machine = scene.machine
    execution_id = scene.begin(5, ends="FAILED", code="CANCELLED")
    machine.pull(execution_id, elements(5))
    with mock.patch("tpf_streams.core.ending.CLOSE_AT_ONCE", 2):
        machine.decide(ev.ExecutionCancelled(execution_id, "an operator"))
    scene.later(scene.answer(machine.interaction(execution_id, 1, 3), {"ok": 3}))
    return scene


def early() -> Scene:
    """A completion whose row comes yet, one whose row never comes, and what the router has forwarded."""
    scene = Scene("k")
    machine = scene.machine
    donor = Machine(machine.definition)
    for key in ("comes", "never comes"):
        execution_id = donor.submit({"n": 1}, key)
        donor.grant_slots()
        machine.complete(machine.envelope(donor.interaction(execution_id, 0), {"ok": True}))
    machine.decide(ev.ArrivalMarked({"responses/0": 3}))
    scene.later(encode_submission(ev.ExecutionSubmitted("tenant-1", "comes", {"n": 1})))
    scene.ends[donor.state.ids.execution_id("tenant-1", "pay", "comes", 0)] = ["SUCCEEDED", None]
    return scene


def projected() -> Scene:
    """Answers of another type than the output: asked for, and admitted with what follows still owed."""
    scene = Scene("ws", completion=PROJECTED)
    machine = scene.machine
    asked, answered, repeated = (scene.begin({"n": n}, f"key-{n}") for n in range(3))
    machine.send()
    rows = {it: machine.interaction(it, 0) for it in (asked, answered, repeated)}
    for it in (answered, repeated):
        machine.answer(rows[it], {"said": it})
    scene.later(scene.answer(rows[asked], {"said": asked}), scene.answer(rows[repeated], {"said": repeated}))
    return scene


def retry() -> Scene:
    """Executions that wait for another try, at both segments; and one that has failed and is redriven."""
    scene = Scene("sws", retry_delay_ms=0, max_retries=2)
    machine = scene.machine
    first, second, failed = (scene.begin({"n": n}, f"key-{n}") for n in range(3))
    for effect in machine.take(fx.RunSegment):
        if effect.owed.execution_id == first:
            machine.decide(ev.SegmentFailed(effect.owed, "Down", "the desk is down", "trace", retryable=True))
        else:
            machine.decide(ev.SegmentCompleted(effect.owed, [{"n": 2}]))
    machine.send()
    for it in (second, failed):
        machine.answer(machine.interaction(it, 1), {"yes": it})
    for effect in machine.take(fx.RunSegment):
        retryable = effect.owed.execution_id == second
        machine.decide(ev.SegmentFailed(effect.owed, "Down", "the desk is down", "trace", retryable))
    redrive = ev.RedriveRequested(failed, machine.execution(failed).version, allow_failed=True, reason="mended")
    scene.later(encode_redrive(redrive))
    return scene


def redrive() -> Scene:
    """A failed stream that is redriven: with its output, a rejected row, an answer, and one that was late; and one that
    is in the middle of its redrive already."""
    scene = Scene("Sks", max_concurrency=2)
    machine = scene.machine

    def failed(key: str) -> str:
        execution_id = scene.begin(5, key)
        machine.pull(execution_id, elements(5)[:3])
        machine.answer(machine.interaction(execution_id, 1, 0), {"yes": 0})
        machine.run_segments({"out": 0})
        machine.pull(execution_id, elements(5)[3:4])
        machine.answer(machine.interaction(execution_id, 1, 1), {"yes": 1})
        (effect,) = machine.take(fx.RunSegment)
        machine.decide(ev.SegmentFailed(effect.owed, "BAD", "a bad answer", ""))
        machine.decide(ev.ExecutionCancelled(execution_id, "an operator"))
        machine.effects.clear()
        return execution_id

    waiting, under_way = failed("to be redriven"), failed("redriven")
    machine.redrive(under_way)
    machine.recall(under_way, 1)
    scene.later(encode_redrive(ev.RedriveRequested(waiting, allow_failed=True)))
    return scene


def retention() -> Scene:
    """A deleted execution of which some rows are there still; and a key whose second life has been asked for."""
    scene = Scene("ws", execution_ttl_ms=1_000, identity_ttl_ms=10**12)
    machine = scene.machine
    machine.decide(ev.ExecutionSubmitted("tenant-1", "object:payments", {"n": 1}, SOURCE))
    machine.submit({"n": 1}, "used again")
    machine.send()
    for key in ("object:payments", "used again"):
        execution_id = machine.state.ids.execution_id("tenant-1", "pay", key, 0)
        machine.answer(machine.interaction(execution_id, 0), {"ok": 1})
    machine.run_segments({"done": True})
    machine.now_ms += 1_001
    machine.decide(ev.RetentionReached(4))
    machine.decide(ev.ExecutionSubmitted("tenant-1", "object:payments", {"n": 1}, SOURCE))
    machine.decide(ev.RetentionReached(3))
    second = ev.ExecutionSubmitted("tenant-1", "used again", {"n": 2})
    machine.decide(second)
    forwarded = [it.event for it in machine.take(fx.Forward)]
    scene.later(*[encode_submission(it) for it in forwarded if isinstance(it, ev.ExecutionSubmitted)])
    scene.later(encode_submission(second), encode_life_ended(ev.LifeEnded("tenant-1", "object:payments", 0)))
    scene.ends[machine.state.ids.execution_id("tenant-1", "pay", "used again", 1)] = ["SUCCEEDED", None]
    return scene


SCENES: dict[str, Callable[[], Scene]] = {
    "scalar": scalar,
    "slot": slot,
    "live": live,
    "durable": durable,
    "closing": closing,
    "early": early,
    "projected": projected,
    "retry": retry,
    "redrive": redrive,
    "retention": retention,
}


def main(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True)
    for name, make in SCENES.items():
        if names and name not in names:
            continue
        (folder / f"{name}.json").write_text(json.dumps(make().document(), indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

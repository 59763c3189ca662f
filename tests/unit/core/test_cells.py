"""Every status of an interaction and of an execution, under every event there is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import pytest

from tests.unit.core.machine import START_MS, TIMEOUT_MS, Machine, pipeline
from tpf_streams.core import effects as fx
from tpf_streams.core import events as ev
from tpf_streams.core.execution import ExecutionStatus, OwedKind, OwedRecord
from tpf_streams.core.interaction import InteractionStatus
from tpf_streams.core.rows import encode
from tpf_streams.core.step import ItemReject, Limits

I, E = InteractionStatus, ExecutionStatus  # noqa: E741
OPEN = [I.WAITING, I.DISPATCHING, I.DISPATCHED]


class Scene:
    """A scalar execution that waits at its await step; the dispatch is owed still."""

    def __init__(self) -> None:
        self.machine = Machine(pipeline("ws"))
        self.id = self.machine.submit({"n": 1})
        self.row = self.machine.interaction(self.id, 0)
        (self.send,) = self.machine.owed(self.id)
        self.segment = OwedRecord(self.id, OwedKind.SEGMENT, None, 1, interaction_id=self.row.interaction_id)

    def interaction(self, status: InteractionStatus) -> None:
        keys, machine = self.machine.state.keys, self.machine
        answer = {"ok": True} if status is I.COMPLETED else None
        row = replace(self.row, status=status, response_payload=answer)
        machine.put(row, keys.interaction(row.interaction_id))
        if status not in OPEN:
            machine.put(None, keys.deadline(row.deadline_epoch_ms, row.interaction_id))
        if status is not I.WAITING:
            machine.put(None, keys.owed(self.id, OwedKind.SEND, None))

    def execution(self, status: ExecutionStatus) -> None:
        execution = replace(self.machine.execution(self.id), status=status)
        self.machine.put(execution, self.machine.state.keys.execution(self.id))

    def completion(self, at_ms: int = START_MS, payload: object = None) -> ev.CompletionReceived:
        return ev.CompletionReceived(self.machine.envelope(self.row, payload or {"ok": True}), at_ms)


class StreamScene(Scene):
    """A live stream: item 0 is answered and its segment owed, item 1 is open, the source is not exhausted."""

    shape = "Sks"

    def __init__(self) -> None:
        self.machine = Machine(pipeline(self.shape))
        self.id = self.machine.stream(2)
        self.machine.answer(self.machine.interaction(self.id, 1, 0))
        self.row = self.machine.interaction(self.id, 1, 1)
        self.send = OwedRecord(self.id, OwedKind.SEND, 1, 1, interaction_id=self.row.interaction_id)
        owed = [it for it in self.machine.owed(self.id) if it.kind is OwedKind.SEGMENT and it.item_index == 0]
        self.segment = owed[0] if owed else OwedRecord(self.id, OwedKind.SEGMENT, 0, 2)


class DurableScene(StreamScene):
    """The same without a live session: nothing but the answer itself is there of item 0."""

    shape = "Sqs"

    def __init__(self) -> None:
        super().__init__()
        self.send = next(it for it in self.machine.owed(self.id) if it.kind is OwedKind.SEND)


class PublishScene(Scene):
    """A stream whose items are all settled; its object is being written."""

    def __init__(self) -> None:
        self.machine = Machine(pipeline("Sks", publishes=True))
        self.id = self.machine.stream(1, ended=True)
        self.row = self.machine.interaction(self.id, 1, 0)
        self.machine.answer(self.row)
        self.machine.run_segments()
        self.send = OwedRecord(self.id, OwedKind.SEND, 0, 1)
        self.segment = OwedRecord(self.id, OwedKind.SEGMENT, 0, 2)


class SlotScene(Scene):
    """A scalar execution that waits for a slot of the admission budget."""

    def __init__(self) -> None:
        self.machine = Machine(pipeline("sk"))
        self.id = self.machine.submit({"n": 1})
        (effect,) = self.machine.take(fx.RunSegment)
        self.machine.decide(ev.SegmentCompleted(effect.owed, [{"n": 1}]))
        (self.slot,) = self.machine.owed(self.id)
        self.row = replace(Scene().row, execution_id=self.id)
        self.send = OwedRecord(self.id, OwedKind.SEND, None, 1)
        self.segment = effect.owed


class SegmentScene(Scene):
    """A scalar execution whose steps are running."""

    def __init__(self) -> None:
        self.machine = Machine(pipeline("sw"))
        self.id = self.machine.submit({"n": 1})
        (self.segment,) = self.machine.owed(self.id)
        self.row = replace(Scene().row, execution_id=self.id)
        self.send = OwedRecord(self.id, OwedKind.SEND, None, 1)


class RetryScene(SegmentScene):
    """The same, when it waits for its retry."""

    def __init__(self) -> None:
        super().__init__()
        self.machine.decide(ev.SegmentFailed(self.segment, "BAD", "bad", "", retryable=True))


Make = Callable[[Scene], ev.Event]


def at_deadline(scene: Scene) -> ev.Event:
    scene.machine.now_ms = scene.row.deadline_epoch_ms + 1
    return ev.DeadlinesReached(100)


def retries_due(scene: Scene) -> ev.Event:
    scene.machine.now_ms += 10_000
    return ev.RetriesDue(100)


def at_retention(scene: Scene) -> ev.Event:
    scene.machine.now_ms += Limits().execution_ttl_ms + 1
    return ev.RetentionReached(100)


EVENTS: dict[str, Make] = {
    "submitted": lambda it: ev.ExecutionSubmitted("tenant-1", "key-1", {"n": 2}),
    "completion": lambda it: it.completion(),
    "completion late": lambda it: it.completion(START_MS + TIMEOUT_MS + 1),
    "completion other": lambda it: it.completion(payload={"ok": False}),
    "marked": lambda it: ev.ArrivalMarked({"t/0": 1}),
    "pulled": lambda it: ev.ItemsPulled(it.id, 2, [{"n": 2}, ItemReject("f", 1, "c", "bad")], ended=False),
    "pulled end": lambda it: ev.ItemsPulled(it.id, 2, [], ended=True),
    "pulled stale": lambda it: ev.ItemsPulled(it.id, 1, [{"n": 1}], ended=True),
    "recalled": lambda it: ev.ItemsRecalled(it.id, 0, 9),
    "source failed": lambda it: ev.SourceFailed(it.id, "BROKEN", "broken", ""),
    "segment done": lambda it: ev.SegmentCompleted(it.segment, [{"out": 1}]),
    "segment failed": lambda it: ev.SegmentFailed(it.segment, "BAD", "bad", ""),
    "segment failed for now": lambda it: ev.SegmentFailed(it.segment, "BAD", "bad", "", retryable=True),
    "slot": lambda it: ev.SlotGranted(it.slot if isinstance(it, SlotScene) else OwedRecord(it.id, OwedKind.SLOT, 9, 1)),
    "early due": lambda it: ev.EarlyDue(it.row.interaction_id),
    "sent": lambda it: ev.RequestSent(it.send),
    "send failed": lambda it: ev.RequestFailed(it.send, "HTTP 500"),
    "release due": lambda it: ev.OwedDue(OwedRecord(it.id, OwedKind.RELEASE, 1, 1)),
    "close due": lambda it: ev.OwedDue(OwedRecord(it.id, OwedKind.CLOSE, 1, 1, payload=2)),
    "deadline": at_deadline,
    "retries due": retries_due,
    "retention": at_retention,
    "life ended": lambda it: ev.LifeEnded("tenant-1", "key-1", 1),
    "published": lambda it: ev.ObjectPublished(it.id, "name.out"),
    "publish failed": lambda it: ev.PublishFailed(it.id, "PUBLISH_FAILED", "full", ""),
    "session cancelled": lambda it: ev.SessionCancelled(it.id),
    "execution cancelled": lambda it: ev.ExecutionCancelled(it.id, "no"),
    "interaction cancelled": lambda it: ev.InteractionCancelled(it.row.interaction_id, "no"),
    "redrive of another version": lambda it: ev.RedriveRequested(it.id, 99, allow_failed=True),
    "decision raised": lambda it: ev.DecisionRaised(it.id, "KeyError", "trace"),
}


def test_no_event_is_missing():
    made = {type(make(Scene() if name != "slot" else SlotScene())) for name, make in EVENTS.items()}
    assert made == set(get_args(ev.Event))


ENDS_INTERACTION = {
    "completion": I.COMPLETED,
    "completion other": I.COMPLETED,
    "completion late": I.TIMED_OUT,
    "deadline": I.TIMED_OUT,
    "send failed": I.FAILED,
    "interaction cancelled": I.CANCELLED,
    "execution cancelled": I.CANCELLED,
    "decision raised": I.CANCELLED,
}


def expected_interaction(status: InteractionStatus, name: str) -> InteractionStatus:
    if status not in OPEN:
        return status
    if name in ("sent", "send failed") and status is not I.WAITING:
        return status  # nothing is owed: the result is of another incarnation
    if name == "sent":
        return I.DISPATCHED
    return ENDS_INTERACTION.get(name, status)


@pytest.mark.parametrize("status", list(I))
@pytest.mark.parametrize("name", EVENTS)
def test_interaction(status, name):
    scene = Scene()
    scene.interaction(status)
    before = scene.machine.interaction(scene.id, 0)
    scene.machine.decide(EVENTS[name](scene))
    after = scene.machine.interaction(scene.id, 0)
    wanted = expected_interaction(status, name)
    assert after.status is wanted
    if wanted is status:
        assert after == before
    else:
        assert after.version == before.version + 1
    # I6: a deadline row stands exactly while the interaction is open.
    assert scene.machine.deadlines() == (1 if wanted in OPEN else 0)


SCENES: dict[str, tuple[Callable[[], Scene], dict[str, ExecutionStatus]]] = {
    "scalar": (
        Scene,
        {
            "completion": E.RUNNING,
            "completion other": E.RUNNING,
            "completion late": E.FAILED,
            "send failed": E.FAILED,
            "deadline": E.FAILED,
            "interaction cancelled": E.FAILED,
        },
    ),
    "live": (
        StreamScene,
        {"completion late": E.FAILED, "deadline": E.FAILED, "interaction cancelled": E.FAILED},
    ),
    "durable": (
        DurableScene,
        {
            "completion late": E.FAILED,
            "deadline": E.FAILED,
            "interaction cancelled": E.FAILED,
            "pulled end": E.WAITING_EXTERNAL,
            "source failed": E.WAITING_EXTERNAL,
            "send failed": E.WAITING_EXTERNAL,
        },
    ),
    "publishing": (PublishScene, {"published": E.SUCCEEDED, "publish failed": E.FAILED}),
    "slot": (SlotScene, {"slot": E.WAITING_EXTERNAL}),
    "segment": (
        SegmentScene,
        {"segment done": E.WAITING_EXTERNAL, "segment failed": E.FAILED, "segment failed for now": E.WAIT_RETRY},
    ),
    "retry": (RetryScene, {"retries due": E.RUNNING}),
}
ALWAYS = {"execution cancelled": E.FAILED, "decision raised": E.FAILED}


@pytest.mark.parametrize("status", list(E))
@pytest.mark.parametrize("name", EVENTS)
@pytest.mark.parametrize("scene", SCENES)
def test_execution(scene, name, status):
    make, changes = SCENES[scene]
    found = make()
    found.execution(status)
    before, owed = found.machine.execution(found.id), found.machine.owed(found.id)
    decision = found.machine.decide(EVENTS[name](found))
    after = found.machine.execution(found.id)
    if status.terminal:
        assert after == before
        assert not [it for it in decision.effects if isinstance(it, fx.RunSegment | fx.SendOwed | fx.SendRequest)]
        new = [it for it in found.machine.owed(found.id) if it not in owed]
        assert new == []
    else:
        wanted = {**changes, **ALWAYS}.get(name, status)
        assert after.status is wanted
        if wanted.terminal:
            assert (after.error_code is None) == (wanted is E.SUCCEEDED)
            assert after.summary is not None
            assert {it.kind for it in found.machine.owed(found.id)} <= {OwedKind.CLOSE}


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("name", EVENTS)
def test_the_same_state_and_event_give_the_same_decision(scene, name):
    first, second = (SCENES[scene][0]() for _ in range(2))
    one, two = (it.machine.decide(EVENTS[name](it)) for it in (first, second))
    assert (one.effects, one.facts, one.outcome) == (two.effects, two.facts, two.outcome)
    rows = [[(key, record and encode(record)) for key, record in it.changes] for it in (one, two)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("name", EVENTS)
def test_a_decision_changes_nothing_until_it_is_applied(scene, name):
    from tpf_streams.core.decide import decide

    found = SCENES[scene][0]()
    rows = dict(found.machine.store.scan(b"", b"\xff" * 40))
    event = EVENTS[name](found)
    found.machine.state.now_ms = found.machine.now_ms
    decide(found.machine.state, event)
    assert not found.machine.state.changed
    assert dict(found.machine.store.scan(b"", b"\xff" * 40)) == rows

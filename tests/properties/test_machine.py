"""Random lives of the machine: submissions, answers good and bad, failing work, repeats, time, operators and crashes.

After every event the invariants hold (`laws`), and when the faults stop everything comes to its end (`World.drain`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.properties.world import World
from tests.unit.core.machine import TIMEOUT_MS, pipeline
from tpf_streams.core import effects as fx
from tpf_streams.core import events as ev
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.step import ItemReject, Json, OnItemFailure, OnItemTimeout
from tpf_streams.errors import PayloadError

SCALAR = ["ks", "sw", "skws", "i", "qq", "kskw"]
STREAM = ["Sks", "Sks", "Sksks", "Skks", "kSks", "Sk", "Sws", "Sqs", "Sw", "Sww", "Swks", "Skq", "Si", "Ss", "wSq"]
SHAPED = [
    "k>s", "sk>sks", "k<s", "k<", "sk<s", "k*ks", "Sks<ks", "Skk<s", "Sk*s", "Sw*ws", "Sqsk>s", "Sk>k", "k>k<", "Sk<k>",
    "s<ks", "s*ks", "Ss<", "Ss*ks<", "SkSk", "i>i", "Swi<", "k<k<", "kk>", "w>w*w", "q<Sqs<q",
]  # fmt: skip
"""Lists on the way: `>` gives many, `<` takes them together, `*` both."""
DURABLE = ["Sws", "Sqs", "Sww", "Sqq", "Sks", "Sw", "Swsqs", "Skks"]
ANSWERS: list[Json] = [
    {"n": 1}, {"n": 1}, {"n": 2}, {"bad": 1}, {"n": "x" * 300}, [{"n": 1}, {"n": 2}], [], [{"n": 1}] * 5, [{"bad": 1}],
]  # fmt: skip
GOOD = [{"n": 1}, {"n": 2}, {"n": 3}]
REJECT = ItemReject("f.csv", 3, "Amount", "no decimal", "1,x")
ALL_SORTS = [*GOOD, REJECT, {"other": 1}, {"n": "x" * 300}]


def convert(payload: Json) -> object:
    if not isinstance(payload, dict) or "bad" in payload:
        raise PayloadError("bad is not allowed")
    return payload


TROUBLES: list[Callable[[Any, Any], None]] = [
    lambda life, data: life.deadlines_are_reached(data),
    lambda life, data: life.an_answer_is_late(data),
    lambda life, data: life.an_interaction_is_cancelled(data),
    lambda life, data: life.an_execution_is_cancelled(data),
    lambda life, data: life.a_decision_raises(data),
    lambda life, data: life.a_source_fails(data),
    lambda life, data: life.work_fails(data),
    lambda life, data: life.work_fails(data),
    lambda life, data: life.a_session_ends(data),
]


class Life(RuleBasedStateMachine):
    shapes = STREAM

    @initialize(data=st.data())
    def begin(self, data):
        draw = data.draw
        definition = pipeline(
            draw(st.sampled_from(self.shapes)),
            idempotency_fields=("n",),
            convert=convert,
            on_item_timeout=draw(st.sampled_from(OnItemTimeout)),
            on_item_failure=draw(st.sampled_from(OnItemFailure)),
            publishes=draw(st.booleans()),
            budget_enabled=draw(st.integers(0, 3)) > 0,
            max_concurrency=draw(st.integers(1, 4)),
            max_payload_bytes=200,
            max_aggregate_input_items=draw(st.sampled_from((0, 3))),
            max_aggregate_output_items=draw(st.sampled_from((0, 4))),
            early_rows_max=1_000,
        )
        self.world = World(definition)
        self.troubled: list[Callable[[Any, Any], None]] = []
        self.submit("first")

    # What moves it on; most steps do, or no life would see its middle

    @rule(key=st.sampled_from(["first", "second", "third", "fourth"]))
    def submit(self, key):
        payload: Json = {"n": key}
        if self.world.definition.takes_list_input:
            payload = [{"n": key}] * (len(key) % 3)
        self.world.decide(ev.ExecutionSubmitted("tenant-1", key, payload))

    @precondition(lambda self: self.world.sources)
    @rule(data=st.data(), count=st.integers(1, 5))
    def pull(self, data, count):
        self.world.pull(self.some_source(data), [{"n": n} for n in range(count)], ended=False)

    @precondition(lambda self: self.world.sources)
    @rule(
        data=st.data(), elements=st.lists(st.sampled_from([*GOOD, REJECT, {"other": 1}, {"n": "x" * 300}]), max_size=4)
    )
    def pull_all_sorts(self, data, elements):
        ended = data.draw(st.integers(0, 2)) == 0
        self.world.pull(
            self.some_source(data), [dict(it) if isinstance(it, dict) else it for it in elements], ended=ended
        )

    @precondition(lambda self: self.world.work)
    @rule(data=st.data(), count=st.integers(1, 3))
    def some_work_is_done(self, data, count):
        for _ in range(count):
            if self.world.work:
                self.world.perform(data.draw(st.sampled_from(self.world.work)))

    @precondition(lambda self: self.world.work)
    @rule(count=st.integers(2, 8))
    def the_oldest_work_is_done(self, count):
        for work in self.world.work[:count]:
            if work in self.world.work:
                self.world.perform(work)

    @precondition(lambda self: self.world.open_ids())
    @rule(data=st.data(), payload=st.sampled_from(ANSWERS))
    def an_open_one_is_answered(self, data, payload):
        interaction_id = data.draw(st.sampled_from(self.world.open_ids()))
        self.world.answer(interaction_id, payload)

    @precondition(lambda self: self.world.open_ids())
    @rule(count=st.integers(1, 5))
    def open_ones_are_answered(self, count):
        for interaction_id in self.world.open_ids()[:count]:
            self.world.answer(interaction_id, {"n": 1})

    # What must change nothing, or only once

    @precondition(lambda self: self.world.interactions())
    @rule(data=st.data(), changes=st.sampled_from([{"tenant_id": "tenant-2"}, {"resume_token": None}]))
    def a_bad_answer_is_refused(self, data, changes):
        envelope = self.world.envelope(self.some_interaction(data), {"n": 1}, **changes)
        assert not self.world.decide(ev.CompletionReceived(envelope, self.world.now_ms)).changes

    @precondition(lambda self: self.world.interactions())
    @rule(data=st.data(), payload=st.sampled_from([{"n": 1}, {"n": 2}]))
    def an_answer_comes_again(self, data, payload):
        row = self.some_interaction(data)
        decision = self.world.decide(ev.CompletionReceived(self.world.envelope(row, payload), self.world.now_ms))
        assert not (row.status.terminal and decision.changes)

    @rule(data=st.data(), payload=st.sampled_from([{"n": 1}, {"bad": 1}]))
    def an_answer_comes_before_its_row(self, data, payload):
        places = sorted(self.world.sources) or [it.execution_id for it in self.world.executions()]
        envelope = self.world.early_envelope(data.draw(st.sampled_from(places)), payload)
        if envelope is not None:
            self.world.decide(ev.CompletionReceived(envelope, self.world.now_ms))

    @precondition(lambda self: self.world.history)
    @rule(data=st.data())
    def a_result_comes_again(self, data):
        self.world.again(data.draw(st.sampled_from(self.world.history)))

    @precondition(lambda self: self.world.sources)
    @rule(data=st.data(), off=st.integers(1, 3))
    def a_pull_is_from_elsewhere(self, data, off):
        execution_id = self.some_source(data)
        session = self.world.session(execution_id)
        assert session is not None
        stale = ev.ItemsPulled(execution_id, session.source_position + off, [{"n": 9}], True)
        assert not self.world.decide(stale).changes

    # Time, crashes, trouble

    @rule(ms=st.sampled_from([1, TIMEOUT_MS // 3]))
    def time_passes(self, ms):
        self.world.now_ms += ms
        self.world.decide(ev.DeadlinesReached(2))

    @rule()
    def crash(self):
        self.world.crash()

    @rule(data=st.data(), trouble=st.sampled_from(TROUBLES))
    def trouble(self, data, trouble):
        """Each once a life: a life of nothing but trouble is soon over."""
        if trouble not in self.troubled:
            self.troubled.append(trouble)
            trouble(self, data)

    def a_session_ends(self, data):
        self.world.decide(ev.SessionCancelled(self.some_execution(data)))

    def deadlines_are_reached(self, data):
        self.world.now_ms += TIMEOUT_MS + 1
        for _ in range(3):
            self.world.decide(ev.DeadlinesReached(1))

    def an_answer_is_late(self, data):
        if self.world.interactions():
            row = self.some_interaction(data)
            envelope = self.world.envelope(row, {"n": 1})
            self.world.decide(ev.CompletionReceived(envelope, row.deadline_epoch_ms + 1))

    def an_interaction_is_cancelled(self, data):
        if self.world.interactions():
            self.world.decide(ev.InteractionCancelled(self.some_interaction(data).interaction_id, "an operator"))

    def an_execution_is_cancelled(self, data):
        self.world.decide(ev.ExecutionCancelled(self.some_execution(data), "an operator"))

    def a_decision_raises(self, data):
        self.world.decide(ev.DecisionRaised(self.some_execution(data), "KeyError", "trace"))

    def a_source_fails(self, data):
        if self.world.sources:
            self.world.decide(ev.SourceFailed(self.some_source(data), "BROKEN", "the source broke", "trace"))

    def work_fails(self, data):
        """A segment, a dispatch or the publishing fails, or a segment gives something odd."""
        failing = [it for it in self.world.work if isinstance(it, fx.RunSegment | fx.SendOwed | fx.PublishObject)]
        if not failing:
            return
        match data.draw(st.sampled_from(failing)):
            case fx.RunSegment(owed) as work:
                odd: list[list[Json]] = [[], [{"n": 1}, {"n": 2}], [{"other": 1}], [{"n": "x" * 300}]]
                results = [
                    ev.SegmentFailed(owed, "BAD", "it raised", ""),
                    *(ev.SegmentCompleted(owed, it) for it in odd),
                ]
                self.world.perform(work, data.draw(st.sampled_from(results)))
            case fx.SendOwed(owed) as work:
                self.world.perform(work, ev.RequestFailed(owed, "HTTP 500"))
            case fx.PublishObject(execution_id, attempt) as work:
                failed = ev.PublishFailed(execution_id, "PUBLISH_FAILED", "full", "", attempt=attempt)
                self.world.perform(work, failed)

    # Choosing

    def some_source(self, data) -> str:
        found: str = data.draw(st.sampled_from(sorted(self.world.sources)))
        return found

    def some_execution(self, data) -> str:
        found: str = data.draw(st.sampled_from([it.execution_id for it in self.world.executions()]))
        return found

    def some_interaction(self, data) -> InteractionRecord:
        row: InteractionRecord = data.draw(st.sampled_from(self.world.interactions()))
        return row

    def teardown(self):
        if hasattr(self, "world"):
            self.world.drain()


class ShapedLife(Life):
    shapes = SHAPED


class ScalarLife(Life):
    shapes = SCALAR


class DurableLife(Life):
    """Nothing but the four gates: requests outside the log, or sessions that end as soon as they begin."""

    shapes = DURABLE

    @rule(key=st.sampled_from(["first", "second", "third", "fourth"]))
    def submit(self, key):
        super().submit(key)
        for execution in self.world.executions():
            self.world.decide(ev.SessionCancelled(execution.execution_id))

    @precondition(lambda self: self.world.sources)
    @rule(data=st.data())
    def the_source_ends(self, data):
        self.world.pull(self.some_source(data), [], ended=True)

    @precondition(lambda self: any(isinstance(it, ev.RequestSent | ev.SegmentCompleted) for it in self.world.history))
    @rule()
    def every_result_comes_again(self):
        for event in list(self.world.history):
            self.world.again(event)


@pytest.mark.parametrize(("life", "lives"), [(Life, 150), (ShapedLife, 150), (ScalarLife, 50), (DurableLife, 100)])
def test_lives(life, lives, monkeypatch):
    # Small pieces of bounded work, so that short lives see its middle.
    monkeypatch.setattr("tpf_streams.core.ending.CLOSE_AT_ONCE", 2)
    monkeypatch.setattr("tpf_streams.core.fallback.CLOSE_AT_ONCE", 2)
    limits = settings(
        max_examples=lives,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(life, settings=limits)

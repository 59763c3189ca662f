"""Random lives of the machine: submissions, answers good and bad, failing work, repeats, time, operators and crashes.

After every event the invariants hold (`laws`), and when the faults stop everything comes to its end (`World.drain`).
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
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
STREAM = ["Sks", "Sws", "Sqs", "Sk", "Sw", "Sksks", "Sww", "Swks", "Skq", "Si", "S", "Ss", "kSks", "wSq"]
REJECT = ItemReject("f.csv", 3, "Amount", "no decimal", "1,x")


def convert(payload: Json) -> object:
    if "bad" in payload:
        raise PayloadError("bad is not allowed")
    return payload


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
            budget_enabled=draw(st.booleans()),
            max_concurrency=draw(st.integers(1, 4)),
            max_payload_bytes=200,
            early_rows_max=1_000,
        )
        self.world = World(definition)
        self.submit("first")

    # Input

    @rule(key=st.sampled_from(["first", "second", "third"]))
    def submit(self, key):
        self.world.decide(ev.ExecutionSubmitted("tenant-1", key, {"n": key}))

    @precondition(lambda self: self.world.sources)
    @rule(
        data=st.data(),
        elements=st.lists(st.sampled_from([{"n": 1}, {"n": 2}, {"n": 3}, REJECT, {"other": 1}, {"n": "x" * 300}])),
        ended=st.booleans(),
    )
    def pull(self, data, elements, ended):
        execution_id = data.draw(st.sampled_from(sorted(self.world.sources)))
        self.world.pull(execution_id, [dict(it) if isinstance(it, dict) else it for it in elements], ended=ended)

    @precondition(lambda self: self.world.sources)
    @rule(data=st.data(), off=st.integers(1, 3))
    def pull_from_elsewhere(self, data, off):
        execution_id = data.draw(st.sampled_from(sorted(self.world.sources)))
        session = self.world.session(execution_id)
        assert session is not None
        stale = ev.ItemsPulled(execution_id, session.source_position + off, [{"n": 9}], True)
        assert not self.world.decide(stale).changes

    @precondition(lambda self: self.world.sources)
    @rule(data=st.data())
    def source_fails(self, data):
        execution_id = data.draw(st.sampled_from(sorted(self.world.sources)))
        self.world.decide(ev.SourceFailed(execution_id, "BROKEN", "the source broke", "trace"))

    # Work

    @precondition(lambda self: self.world.work)
    @rule(data=st.data(), count=st.integers(1, 4))
    def work_is_done(self, data, count):
        for _ in range(count):
            if self.world.work:
                self.world.perform(data.draw(st.sampled_from(self.world.work)))

    @precondition(lambda self: any(isinstance(it, fx.RunSegment) for it in self.world.work))
    @rule(data=st.data(), outputs=st.sampled_from([[], [{"n": 1}, {"n": 2}], [{"other": 1}], [{"n": "x" * 300}], None]))
    def a_segment_fails_or_gives_something_odd(self, data, outputs):
        work = data.draw(st.sampled_from([it for it in self.world.work if isinstance(it, fx.RunSegment)]))
        failed = ev.SegmentFailed(work.owed, "BAD", "it raised", "trace")
        self.world.perform(work, failed if outputs is None else ev.SegmentCompleted(work.owed, outputs))

    @precondition(lambda self: any(isinstance(it, fx.SendOwed | fx.PublishObject) for it in self.world.work))
    @rule(data=st.data())
    def a_dispatch_or_publishing_fails(self, data):
        work = data.draw(
            st.sampled_from([it for it in self.world.work if isinstance(it, fx.SendOwed | fx.PublishObject)])
        )
        if isinstance(work, fx.SendOwed):
            self.world.perform(work, ev.RequestFailed(work.owed, "HTTP 500"))
        else:
            self.world.perform(work, ev.PublishFailed(work.execution_id, "PUBLISH_FAILED", "full", ""))

    @precondition(lambda self: self.world.history)
    @rule(data=st.data())
    def a_result_comes_again(self, data):
        self.world.again(data.draw(st.sampled_from(self.world.history)))

    # Answers

    def some_interaction(self, data) -> InteractionRecord:
        rows = sorted(self.world.interactions(), key=lambda row: (row.status.terminal, row.interaction_id))
        row: InteractionRecord = data.draw(st.sampled_from(rows))
        return row

    @precondition(lambda self: self.world.interactions())
    @rule(data=st.data(), payload=st.sampled_from([{"n": 1}, {"n": 1}, {"n": 2}, {"bad": 1}, {"n": "x" * 300}]))
    def answer(self, data, payload):
        row = self.some_interaction(data)
        self.world.decide(ev.CompletionReceived(self.world.envelope(row, payload), self.world.now_ms))

    @precondition(lambda self: self.world.open_ids())
    @rule(count=st.integers(1, 5))
    def open_ones_are_answered(self, count):
        for interaction_id in self.world.open_ids()[:count]:
            row = self.world.state.get(self.world.state.keys.interaction(interaction_id), InteractionRecord)
            if row is not None:
                self.world.decide(ev.CompletionReceived(self.world.envelope(row, {"n": 1}), self.world.now_ms))

    @precondition(lambda self: self.world.interactions())
    @rule(data=st.data(), changes=st.sampled_from([{"tenant_id": "tenant-2"}, {"resume_token": None}, {}]))
    def answer_badly_or_late(self, data, changes):
        row = self.some_interaction(data)
        at_ms = self.world.now_ms if changes else row.deadline_epoch_ms + 1
        before = self.world.outcomes["admitted"]
        self.world.decide(ev.CompletionReceived(self.world.envelope(row, {"n": 1}, **changes), at_ms))
        assert self.world.outcomes["admitted"] == before

    @rule(data=st.data(), payload=st.sampled_from([{"n": 1}, {"bad": 1}]))
    def answer_before_there_is_a_row(self, data, payload):
        execution = data.draw(st.sampled_from(self.world.executions()))
        envelope = self.world.early_envelope(execution.execution_id, payload)
        if envelope is not None:
            self.world.decide(ev.CompletionReceived(envelope, self.world.now_ms))

    # Time, operators, crashes

    @rule(ms=st.sampled_from([1, 1_000, TIMEOUT_MS // 2, TIMEOUT_MS + 1]), limit=st.integers(1, 3))
    def time_passes(self, ms, limit):
        self.world.now_ms += ms
        self.world.decide(ev.DeadlinesReached(limit))

    @rule(data=st.data(), event=st.sampled_from([ev.SessionCancelled, ev.SessionCancelled, ev.ExecutionCancelled]))
    def cancel(self, data, event):
        execution_id = data.draw(st.sampled_from(self.world.executions())).execution_id
        reason = () if event is ev.SessionCancelled else ("an operator",)
        self.world.decide(event(execution_id, *reason))

    @precondition(lambda self: self.world.interactions())
    @rule(data=st.data())
    def cancel_interaction(self, data):
        self.world.decide(ev.InteractionCancelled(self.some_interaction(data).interaction_id, "an operator"))

    @rule(data=st.data())
    def a_decision_raises(self, data):
        execution_id = data.draw(st.sampled_from(self.world.executions())).execution_id
        if data.draw(st.integers(0, 9)) == 0:
            self.world.decide(ev.DecisionRaised(execution_id, "KeyError", "trace"))

    @rule()
    def crash(self):
        self.world.crash()

    @invariant()
    def rows_are_enough(self):
        if hasattr(self, "world"):
            assert not self.world.state.changed

    def teardown(self):
        if hasattr(self, "world"):
            self.world.drain()


class ScalarLife(Life):
    shapes = SCALAR


@pytest.mark.parametrize("life", [Life, ScalarLife])
def test_lives(life, monkeypatch):
    # Small pieces of bounded work, so that short lives see its middle.
    monkeypatch.setattr("tpf_streams.core.ending.CLOSE_AT_ONCE", 2)
    monkeypatch.setattr("tpf_streams.core.fallback.CLOSE_AT_ONCE", 2)
    limits = settings(
        max_examples=120 if life is Life else 50,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(life, settings=limits)

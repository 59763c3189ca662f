"""Core and the model that was written without it say the same of random histories; a core that errs is found out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.cleanroom import admission, boundary, budget
from tests.cleanroom.histories import Difference
from tpf_streams.core.outcome import Outcome
from tpf_streams.core.rows import Keys
from tpf_streams.core.step import PipelineDefinition


def test_completions_have_the_outcome_that_the_contract_gives_them():
    seen: Counter[str] = Counter()
    for seed in range(400):
        seen.update(admission.history(seed).model.counts)
    assert {outcome.value: seen[outcome] for outcome in Outcome if seen[outcome] < 20} == {}, "too seldom to tell"


def test_slots_go_round_as_the_contract_says():
    for seed in range(1_500):
        budget.history(seed)


@pytest.mark.parametrize("first", [0, 50, 100])
def test_a_boundary_lives_as_the_contract_says(first):
    seen: Counter[str] = Counter()
    for seed in range(first, first + 50):
        both = boundary.history(seed)
        seen["crashes"] += both.crashes
        for unit in both.units.values():
            seen[unit.execution_status] += 1
            seen["live"] += len(unit.accepted)
            seen["held"] += unit.early_held
            seen["released"] += len(unit.released)
            seen["rejected"] += unit.rejected
    wanted = ("crashes", "SUCCEEDED", "FAILED", "live", "held", "released", "rejected")
    assert {name: seen[name] for name in wanted if seen[name] < 5} == {}, "too seldom to tell"


class TestACoreThatErrsIsFoundOut:
    """Each of these is a rule of the contract, broken in core only."""

    def found(self, history: Callable[[int], object], histories: int) -> bool:
        try:
            for seed in range(histories):
                history(seed)
        except Difference:
            return True
        return False

    @pytest.mark.parametrize(
        ("place", "wrong"),
        [
            ("tpf_streams.core.admission.is_repeat", lambda *_: True),
            ("tpf_streams.core.admission.check_row_token", lambda *_: None),
            ("tpf_streams.core.early.names", lambda *_: True),
            ("tpf_streams.core.early.hold_behind", lambda *_: None),
            ("tpf_streams.core.rows.Keys.deadlines_until", lambda keys, ms: keys.deadlines_until_(ms + 1)),
        ],
    )
    def test_in_admission(self, monkeypatch, place, wrong):
        monkeypatch.setattr(Keys, "deadlines_until_", Keys.deadlines_until, raising=False)
        monkeypatch.setattr(place, wrong)
        assert self.found(admission.history, 200)

    def test_in_the_budget(self, monkeypatch):
        monkeypatch.setattr(PipelineDefinition, "budget", property(lambda self: self.limits.max_concurrency + 1))
        assert self.found(budget.history, 20)

    @pytest.mark.parametrize(
        ("place", "wrong"),
        [
            ("tpf_streams.core.admission.gates_open", lambda *_: True),
            ("tpf_streams.core.fallback.continued", lambda *_: True),
            ("tpf_streams.engine.live_session.LiveSession.may_look", lambda *_: False),
            ("tpf_streams.engine.performer.Performer._still_owed", lambda *_: True),
        ],
    )
    def test_in_the_boundary(self, monkeypatch, place, wrong):
        monkeypatch.setattr(place, wrong)
        assert self.found(boundary.history, 150)

    def test_in_the_window(self, monkeypatch):
        monkeypatch.setattr(PipelineDefinition, "window", property(lambda self: self.limits.max_concurrency + 1))
        assert self.found(boundary.history, 20)

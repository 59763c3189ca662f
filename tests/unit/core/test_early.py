"""Completions without a row: held, refused or late by their token alone (contract 0.11)."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from tests.unit.core.machine import START_MS, TIMEOUT_MS, Machine, pipeline, token
from tests.unit.core.test_admission import UNKNOWN_ID, convert
from tpf_streams.core import effects as fx
from tpf_streams.core import events as ev
from tpf_streams.core.interaction import InteractionStatus
from tpf_streams.errors import BackPressureError


class TestWithoutARow:
    """Contract 0.11: held with a good token in time, terminal with one later, else not found."""

    def setup_method(self) -> None:
        donor = Machine(pipeline("Sks"))
        self.row = donor.interaction(donor.stream(1), 1, 0)
        self.machine = Machine(pipeline("Sks", early_rows_max=2))

    def test_it_is_held_and_decided_once_when_its_row_appears(self):
        machine = self.machine
        assert machine.complete(machine.envelope(self.row, {"n": 1})) == "held"
        assert machine.complete(machine.envelope(self.row, {"n": 2})) == "held"
        assert machine.state.early_rows == 1
        execution_id = machine.stream(1)
        row = machine.interaction(execution_id, 1, 0)
        assert (row.status, row.response_payload) == (InteractionStatus.COMPLETED, {"n": 1})
        assert machine.state.early_rows == 0
        assert machine.facts["completion.admitted.total"] == 1
        assert machine.state.scan_keys(machine.state.keys.all_expiries()) == []
        assert machine.run_segments() == 1

    def test_its_own_arrival_decides_whether_it_is_late(self):
        machine = self.machine
        machine.complete(machine.envelope(self.row), at_ms=START_MS)
        machine.now_ms = START_MS + TIMEOUT_MS - 1
        execution_id = machine.stream(1)
        assert machine.interaction(execution_id, 1, 0).status is InteractionStatus.COMPLETED

    @pytest.mark.parametrize(("after_ms", "outcome"), [(0, "held"), (1, "terminal")])
    def test_after_its_tokens_deadline_it_is_terminal(self, after_ms, outcome):
        envelope = self.machine.envelope(self.row)
        assert self.machine.complete(envelope, at_ms=self.row.deadline_epoch_ms + after_ms) == outcome

    @pytest.mark.parametrize(
        "changes",
        [
            {"resume_token": None},
            {"resume_token": "bad"},
            {"tenant_id": "tenant-2"},
            {"interaction_id": UNKNOWN_ID},
            {"correlation_id": UNKNOWN_ID},
            {"interaction_id": "abc", "correlation_id": None},
        ],
    )
    def test_without_a_token_for_just_these_ids_it_is_not_found(self, changes):
        envelope = self.machine.envelope(self.row, **changes)
        assert self.machine.complete(envelope) == "not_found"
        assert self.machine.state.early_rows == 0

    def test_a_token_for_an_id_that_is_not_ours_finds_nothing(self):
        envelope = self.machine.envelope(self.row, resume_token=token(self.row, interaction_id="int-1"))
        assert self.machine.complete(replace(envelope, interaction_id="int-1", correlation_id=None)) == "not_found"

    def test_ids_in_the_other_case_are_the_same(self):
        envelope = self.machine.envelope(self.row, interaction_id=self.row.interaction_id.upper())
        assert self.machine.complete(envelope) == "held"

    def test_it_expires_as_not_found(self):
        machine = self.machine
        machine.complete(machine.envelope(self.row))
        machine.now_ms = self.row.deadline_epoch_ms
        machine.decide(ev.DeadlinesReached(10))
        assert machine.state.early_rows == 1
        machine.now_ms += 1
        machine.decide(ev.DeadlinesReached(10))
        assert machine.state.early_rows == 0
        assert machine.facts["completion.dropped.total"] == 1

    def test_a_payload_that_does_not_convert_is_found_when_the_row_appears(self):
        machine = Machine(pipeline("Sks", convert=convert))
        machine.complete(machine.envelope(self.row, {"bad": 1}))
        execution_id = machine.stream(1)
        assert machine.interaction(execution_id, 1, 0).status is InteractionStatus.DISPATCHED
        (letter,) = machine.take(fx.DeadLetter)
        assert letter.reason == "invalid_payload"
        assert orjson.loads(letter.value)["responsePayload"] == {"bad": 1}
        assert machine.answer(machine.interaction(execution_id, 1, 0)) == "admitted"

    def test_the_next_one_counts_where_the_first_proves_invalid(self):
        machine = Machine(pipeline("Sks", convert=convert))
        for payload in ({"bad": 1}, {"bad": 1}, {"good": 2}, {"good": 3}):
            assert machine.complete(machine.envelope(self.row, payload)) == "held"
        assert machine.state.early_rows == 1
        machine.reopen()
        execution_id = machine.stream(1)
        row = machine.interaction(execution_id, 1, 0)
        assert (row.status, row.response_payload) == (InteractionStatus.COMPLETED, {"good": 2})
        assert [it.reason for it in machine.take(fx.DeadLetter)] == ["invalid_payload"]
        assert machine.facts["completion.dropped.total"] == 2  # the invalid one, and the conflict behind the good one
        assert machine.state.early_rows == 0

    def test_no_more_than_four_are_kept_for_one_row(self):
        machine = Machine(pipeline("Sks", convert=convert))
        for n in range(9):
            assert machine.complete(machine.envelope(self.row, {"bad": n})) == "held"
        machine.stream(1)
        assert len(machine.take(fx.DeadLetter)) == 4

    def test_a_full_partition_pushes_back_and_takes_again_when_there_is_room(self):
        donor = Machine(pipeline("Sks"))
        execution_id = donor.stream(3)
        rows = [donor.interaction(execution_id, 1, item) for item in range(3)]
        machine = self.machine
        assert [machine.complete(machine.envelope(row)) for row in rows[:2]] == ["held", "held"]
        with pytest.raises(BackPressureError):
            machine.complete(machine.envelope(rows[2]))
        assert machine.complete(machine.envelope(rows[1])) == "held"
        assert machine.state.early_rows == 2
        machine.stream(1)
        assert machine.complete(machine.envelope(rows[2])) == "held"

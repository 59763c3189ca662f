"""When a resume token is asked for, and which ones are taken (contract 0.2, 0.13)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.core.machine import SECRET, token
from tests.unit.core.test_admission import UNKNOWN_ID, Case
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.step import CorrelationStrategy

TOKENS: dict[str, Callable[[InteractionRecord], str | None]] = {
    "missing": lambda row: None,
    "malformed": lambda row: "no-token",
    "not ascii": lambda row: token(row)[:-1] + "é",
    "another secret": lambda row: token(row, "another"),
    "tenant": lambda row: token(row, tenant_id="tenant-2"),
    "interaction": lambda row: token(row, interaction_id=UNKNOWN_ID),
    "correlation": lambda row: token(row, correlation_id=UNKNOWN_ID),
    "execution": lambda row: token(row, execution_id=UNKNOWN_ID),
    "step": lambda row: token(row, step_id="Other"),
}


@pytest.mark.parametrize("made", TOKENS.values(), ids=TOKENS.keys())
def test_a_token_that_is_not_the_rows_is_refused_and_the_genuine_one_is_still_taken(made):
    case = Case()
    case.fields["resumeToken"] = made(case.row)
    assert case.outcome() == "resume_token_rejected"
    case.fields["resumeToken"] = token(case.row)
    assert case.outcome() == "admitted"


@pytest.mark.parametrize("changes", [{"deadline_epoch_ms": 1}, {"issued_at_epoch_ms": 1}])
def test_a_tokens_own_times_are_not_checked(changes):
    """Contract 0.2: the row decides about time."""
    case = Case()
    case.fields["resumeToken"] = token(case.row, **changes)
    assert case.outcome() == "admitted"


@pytest.mark.parametrize(
    ("strategy", "required", "given", "outcome"),
    [
        (CorrelationStrategy.SIGNED_RESUME_TOKEN, False, None, "admitted"),
        (CorrelationStrategy.SIGNED_RESUME_TOKEN, False, "bad", "resume_token_rejected"),
        (CorrelationStrategy.INTERACTION_ID, False, None, "admitted"),
        (CorrelationStrategy.INTERACTION_ID, False, "bad", "resume_token_rejected"),
        (CorrelationStrategy.INTERACTION_ID, True, None, "resume_token_rejected"),
    ],
)
def test_when_a_token_is_required_and_when_it_is_checked(strategy, required, given, outcome):
    case = Case(correlation=strategy, require_token=required)
    case.fields["resumeToken"] = given
    assert case.outcome() == outcome


def test_an_earlier_secret_still_verifies():
    case = Case(resume_token_secrets=("new", SECRET))
    assert case.outcome() == "admitted"


def test_a_token_without_any_secret_is_refused():
    case = Case(resume_token_secrets=(), correlation=CorrelationStrategy.INTERACTION_ID)
    assert case.outcome() == "resume_token_rejected"


def test_the_token_that_the_request_carried_is_taken_and_that_of_its_neighbour_is_not():
    """Both were given by the signer that looks at them."""
    case = Case()
    signer = case.machine.state.signer
    assert signer is not None
    given = {row.interaction_id: signer.sign(row.claims()) for row in (case.row, case.other)}
    case.fields["resumeToken"] = given[case.other.interaction_id]
    assert case.outcome() == "resume_token_rejected"
    case.fields["resumeToken"] = given[case.row.interaction_id]
    assert case.outcome() == "admitted"

"""What is in flight, by the facts of this process."""

from __future__ import annotations

from tpf_streams.core.effects import Fact
from tpf_streams.runtime.run_tally import RunTally

CREATED, ADMITTED, ENDED = "interaction.created.total", "completion.admitted.total", "interaction.ended.total"


def test_open_is_what_was_created_and_has_not_ended():
    tally = RunTally()
    tally.observe([Fact(CREATED, count=5)])
    tally.observe([Fact(ADMITTED, count=2), Fact(CREATED)])
    tally.observe([Fact(ENDED, {"status": "TIMED_OUT"})])
    assert (tally.in_flight, tally.in_flight_max, tally.settled) == (3, 5, 2)


def test_a_turn_counts_as_a_whole():
    """Its facts became true together: what it created after it admitted was never open beside it."""
    tally = RunTally()
    tally.observe([Fact(CREATED, count=3)])
    tally.observe([Fact(CREATED, count=3), Fact(ADMITTED, count=3)])
    assert tally.in_flight_max == 3


def test_what_an_earlier_process_left_open_counts():
    tally = RunTally()
    tally.opened(4)
    tally.observe([Fact(ADMITTED, count=4)])
    assert (tally.in_flight, tally.in_flight_max) == (0, 4)


def test_an_execution_is_followed_to_its_end():
    tally = RunTally()
    tally.follow(["a", "b"])
    tally.observe([Fact("execution.terminal.total", {"status": "FAILED"}, {"executionId": "a"})])
    assert tally.following == {"b"}
    assert tally.moved.is_set()


def test_the_end_of_another_execution_is_nobodys_business():
    tally = RunTally()
    tally.follow(["a"])
    tally.observe([Fact("execution.terminal.total", {}, {"executionId": "c"})])
    assert tally.following == {"a"}

"""Flow control of a stream: what may be pulled, and the digest of what was."""

from __future__ import annotations

import pytest

from tests.unit.core.machine import pipeline
from tpf_streams.core.unit import SessionRecord
from tpf_streams.core.window import DURABLE_PULL, chain, credit


def test_the_digest_of_a_stream_stays_what_it_was():
    """It lies in rows: another one after an upgrade would fail every stream under way with SOURCE_CHANGED."""
    first = chain("", {"n": 0})
    assert first == "f3013f933b9fb80ab6d995e7ad9da36f"
    assert chain(first, {"n": 1}) == "e472daf0a26b2655702452b3e0f1eed4"


@pytest.mark.parametrize(
    ("changes", "room"),
    [
        ({}, 3),
        ({"next_item_index": 5, "settled": 4}, 2),
        ({"next_item_index": 3}, 0),
        ({"next_item_index": 9}, 0),
        ({"source_ended": True}, 0),
        ({"live": False, "next_item_index": 9}, DURABLE_PULL),
        ({"live": False, "source_ended": True}, 0),
    ],
)
def test_credit_is_the_room_of_the_window_and_without_one_a_bounded_pull(changes, room):
    session = SessionRecord(**{"execution_id": "e", "live": True, **changes})
    assert credit(pipeline("Sks", max_concurrency=3), session) == room

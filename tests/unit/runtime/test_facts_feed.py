"""Facts on their way to a monitor: each is handed over once."""

from __future__ import annotations

from tpf_streams.core.effects import Fact
from tpf_streams.runtime.facts_feed import FactsFeed


def test_each_count_is_taken_once():
    feed = FactsFeed()
    feed.observe([Fact("completion.admitted.total", {}, count=3), Fact("unit.terminal.total", {})])
    assert feed.take() == {"tpf.await.completion.admitted.total": 3, "tpf.await.unit.terminal.total": 1}
    assert feed.take() == {}
    feed.observe([Fact("completion.admitted.total", {})])
    assert feed.take() == {"tpf.await.completion.admitted.total": 1}
    assert feed["completion.admitted.total"] == 4

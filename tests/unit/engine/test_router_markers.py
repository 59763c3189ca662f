"""The router's markers: behind what is forwarded, on every partition (contract 0.8)."""

from __future__ import annotations

import json

from tests.unit.engine.router_bench import (
    completion,
    opened,
    pipeline,
)
from tpf_streams.engine.router import BATCH_MAX, CompletionRouter


async def test_at_opening_the_end_is_marked_on_every_partition_once():
    bench = await opened()
    assert not await bench.router.step()
    for partition in range(4):
        assert bench.markers(partition) == [{"answers/0": 0, "answers/1": 0}]
    bench.clock.advance(60_000)
    assert not await bench.router.step()
    assert len(bench.events(b"marker")) == 4


async def test_a_marker_follows_what_it_speaks_of():
    bench = await opened()
    await bench.put(*(completion(number) for number in range(20)))
    await bench.drain()
    for partition in range(4):
        mine = [record for record in bench.log.read("app-events") if record.partition == partition]
        assert dict(mine[-1].headers)["tpf-event"] == b"marker"
        assert json.loads(mine[-1].value) == {"answers/0": 20, "answers/1": 0}


async def test_while_moving_a_marker_a_second_and_one_at_the_end():
    bench = await opened()
    await bench.router.step()
    await bench.put(*[completion(1)] * (3 * BATCH_MAX))
    await bench.router.step()
    bench.clock.advance(1_000)
    await bench.router.step()
    bench.clock.advance(999)
    await bench.router.step()
    assert [marker["answers/0"] for marker in bench.markers()] == [0, 2 * BATCH_MAX]
    await bench.router.step()
    assert [marker["answers/0"] for marker in bench.markers()] == [0, 2 * BATCH_MAX, 3 * BATCH_MAX]


async def test_a_trickle_is_marked_once_a_second_at_most():
    """A marker a record would make every partition commit for every answer."""
    bench = await opened()
    await bench.drain()
    for number in range(10):
        await bench.put(completion(number))
        bench.clock.advance(250)
        await bench.drain()
    assert [marker["answers/0"] for marker in bench.markers()] == [0, 4, 8]
    bench.clock.advance(1_000)
    await bench.drain()
    assert bench.markers()[-1]["answers/0"] == 10


async def test_two_routers_mark_what_each_has():
    bench = await opened()
    other = CompletionRouter(bench.log, pipeline(), bench.facts, bench.clock)
    await other.open()
    await bench.put(completion(1), partition=0)
    await bench.put(completion(2), partition=1)
    await bench.drain()
    while await other.step():
        pass
    assert len(bench.events()) == 2
    assert sorted(str(marker) for marker in bench.markers()) == ["{'answers/0': 1}", "{'answers/1': 1}"]
    await other.close()

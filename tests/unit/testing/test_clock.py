"""The manual clock: deterministic sleepers."""

from __future__ import annotations

import asyncio

import pytest

from tpf_streams.testing.clock import START_MS, ManualClock


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_sleepers_wake_in_order_of_their_time():
    clock, woken = ManualClock(), []

    async def sleeper(name, seconds):
        await clock.sleep(seconds)
        woken.append(name)

    tasks = [asyncio.create_task(sleeper(*each)) for each in [("late", 0.02), ("early", 0.01), ("third", 0.0201)]]
    await settle()
    assert clock.next_wake_ms == 10
    clock.advance(9)
    await settle()
    assert woken == []
    clock.advance(11)
    await settle()
    assert woken == ["early", "late"]
    assert clock.next_wake_ms == 1
    clock.advance(1)
    await asyncio.gather(*tasks)
    assert woken == ["early", "late", "third"]
    assert clock.next_wake_ms is None


async def test_wall_and_elapsed_time_move_together_but_for_a_jump():
    clock = ManualClock()
    clock.advance(1_500)
    assert (clock.now_ms(), clock.monotonic_s()) == (START_MS + 1_500, 1.5)
    clock.jump(-500)
    assert (clock.now_ms(), clock.monotonic_s()) == (START_MS + 1_000, 1.5)
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)


async def test_a_cancelled_sleeper_is_forgotten():
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep(1))
    await settle()
    task.cancel()
    await settle()
    assert clock.next_wake_ms is None
    clock.advance(2_000)
    assert task.cancelled()


async def test_no_duration_gives_way_once():
    clock = ManualClock()
    await clock.sleep(0)
    await clock.sleep(-1)
    assert clock.monotonic_s() == 0

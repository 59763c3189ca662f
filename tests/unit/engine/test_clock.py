"""A partition's time: never back, and no jump believed at once (contract 0.8)."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tpf_streams.engine.clock import PartitionTime, SystemClock, until_stopped

START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


class Machine:
    """Wall and elapsed time under the test's hand, and the partition that reads them."""

    def __init__(self, floor_ms=0):
        self.wall_ms, self.elapsed_ms = START_MS, 5_000
        self.time = PartitionTime(self.wall_ms, self.elapsed_ms / 1000, floor_ms)

    def after(self, ms, jump_ms=0):
        self.wall_ms += ms + jump_ms
        self.elapsed_ms += ms
        return self.time.read(self.wall_ms, self.elapsed_ms / 1000)

    def holds(self):
        return self.time.held


def test_follows_the_wall_clock():
    machine = Machine()
    assert machine.after(1) == START_MS + 1
    assert machine.after(250, jump_ms=40_000) == START_MS + 40_251
    assert not machine.holds()
    assert machine.time.now_ms == START_MS + 40_251


def test_never_goes_back():
    machine = Machine()
    machine.after(1_000)
    assert machine.after(10, jump_ms=-500) == START_MS + 1_000
    assert not machine.holds()
    assert machine.after(600) == START_MS + 1_110


def test_begins_no_earlier_than_it_has_lived():
    machine = Machine(floor_ms=START_MS + 5_000)
    assert machine.after(1_000) == START_MS + 5_000
    assert machine.after(4_500) == START_MS + 5_500


def test_a_jump_forward_is_believed_after_three_agreeing_readings(caplog):
    caplog.set_level(logging.WARNING)
    machine = Machine()
    assert machine.after(0, jump_ms=HOUR_MS) == START_MS
    assert machine.holds()
    assert machine.after(9_999) == START_MS + 9_999
    assert machine.after(1) == START_MS + 10_000
    assert machine.holds()
    assert machine.after(10_000) == START_MS + 20_000 + HOUR_MS
    assert not machine.holds()
    assert [record.message for record in caplog.records] == [
        "the clock jumped by 3600000 ms: deadlines wait until it is steady",
        "the clock is believed again after 20000 ms, moved by 3600000 ms",
    ]


def test_a_jump_that_is_taken_back_moves_nothing():
    machine = Machine()
    machine.after(0, jump_ms=HOUR_MS)
    machine.after(1_000, jump_ms=-HOUR_MS)
    assert machine.holds()
    machine.after(10_000)
    assert machine.after(10_000) == START_MS + 21_000
    assert not machine.holds()


def test_a_jump_back_stands_still_after_the_hold():
    machine = Machine()
    machine.after(0, jump_ms=-HOUR_MS)
    machine.after(10_000)
    assert machine.after(10_000) == START_MS + 10_000
    assert not machine.holds()
    assert machine.after(HOUR_MS) == START_MS + 20_000


def test_an_unsteady_clock_is_believed_after_a_minute():
    machine = Machine()
    machine.after(0, jump_ms=HOUR_MS)
    for _ in range(5):
        machine.after(10_000, jump_ms=HOUR_MS)
        assert machine.holds()
    assert machine.after(10_000, jump_ms=HOUR_MS) == START_MS + 60_000 + 7 * HOUR_MS
    assert not machine.holds()


def test_sleep_of_the_machine_is_no_jump():
    machine = Machine()
    assert machine.after(8 * HOUR_MS) == START_MS + 8 * HOUR_MS
    assert not machine.holds()


async def test_the_system_clock_moves():
    clock = SystemClock()
    wall_ms, elapsed_s = clock.now_ms(), clock.monotonic_s()
    await clock.sleep(0.01)
    assert clock.now_ms() >= wall_ms + 5
    assert clock.monotonic_s() >= elapsed_s + 0.005
    assert clock.now_ms() > START_MS


async def test_work_that_looks_at_the_stop_ends_by_itself():
    stop, done = asyncio.Event(), []

    async def work():
        await stop.wait()
        done.append(True)

    stop.set()
    await until_stopped(stop, work(), 10)
    assert done == [True]


async def test_work_that_does_not_end_is_cancelled_behind_the_stop():
    stop, ended = asyncio.Event(), asyncio.Event()

    async def work():
        stop.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    await asyncio.wait_for(until_stopped(stop, work(), 0.01), 10)
    assert ended.is_set()


async def test_what_work_raises_is_raised_also_behind_the_stop():
    stop = asyncio.Event()

    async def work():
        await stop.wait()
        raise ValueError("broken")

    stop.set()
    with pytest.raises(ValueError, match="broken"):
        await until_stopped(stop, work(), 10)


async def test_work_that_ends_before_the_stop_is_over():
    async def work(): ...

    await asyncio.wait_for(until_stopped(asyncio.Event(), work(), 10), 5)
